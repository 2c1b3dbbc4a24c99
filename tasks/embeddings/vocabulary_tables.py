"""Which stored tensors of a causal language model have one row for each token of its vocabulary."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tasks.contract import InputError
from tasks.embeddings.safetensors_reader import Shard, StoredTensor


@dataclass(frozen=True)
class VocabularyTables:
    """The stored tensors over the vocabulary.

    Attributes:
        input: input embeddings, [rows, h].
        head: LM head, [rows, h]; None where it is tied to the input embeddings.
        bias: bias of the LM head, [rows]; None where it has none.
        copies: further stored copies of tied tables, which are left out.
    """

    input: StoredTensor
    head: StoredTensor | None
    bias: StoredTensor | None
    copies: tuple[StoredTensor, ...] = ()

    @property
    def tied(self) -> bool:
        """Whether the LM head is the input embeddings."""
        return self.head is None


def read_config(folder: Path) -> Any:
    """The transformers configuration in `folder`.

    Raises:
        InputError: there is none, or one that transformers does not know.
    """
    from transformers import AutoConfig

    if not (folder / "config.json").is_file():
        raise InputError(f"source model: {folder} has no config.json; give the folder of a Hugging Face model")
    try:
        return AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"source model: {folder / 'config.json'} cannot be read: {error}") from error


def meta_model(config: Any) -> Any:
    """The causal language model of `config` without weights: modules, names and shapes alone.

    Raises:
        InputError: the architecture has no causal language model in transformers.
    """
    from transformers import AutoModelForCausalLM

    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(copy.deepcopy(config), trust_remote_code=False)
    except (ValueError, KeyError) as error:
        raise InputError(f"source model: config.json gives no causal language model: {error}") from error
    model.tie_weights()
    return model


def find_tables(model: Any, shards: Iterable[Shard]) -> VocabularyTables:
    """The tensors in `shards` that hold the vocabulary tables of `model`, a model without weights.

    Raises:
        InputError: the model has no embedding table and LM head, a table is not stored or of another shape, a tied head
            is stored with rows of its own, or the model has further tables over its vocabulary.
    """
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    if any(getattr(getattr(module, "weight", None), "ndim", 0) != 2 for module in (embeddings, head)):
        raise InputError(f"source model: {type(model).__name__} has no embedding table and linear LM head")
    stored = {tensor.name: tensor for shard in shards for tensor in shard.tensors}
    config = model.config.get_text_config()
    tied = head.weight is embeddings.weight or (
        bool(getattr(config, "tie_word_embeddings", False)) and head.weight.shape == embeddings.weight.shape
    )
    input_tensors = _stored(model, embeddings.weight, stored)
    head_tensors = _stored(model, head.weight, stored)
    bias_tensors = [] if head.bias is None else _stored(model, head.bias, stored)
    _refuse_other_tables(model, [embeddings.weight, head.weight, head.bias])
    if tied:
        found = list({tensor.name: tensor for tensor in [*input_tensors, *head_tensors]}.values())
        tables = VocabularyTables(
            input=_one(found, "input embeddings", model, embeddings.weight),
            head=None,
            bias=None if head.bias is None else _one(bias_tensors, "LM head's bias", model, head.bias),
            copies=tuple(found[1:]),
        )
        for other in tables.copies:
            _check_copy(tables.input, other)
        return tables
    return VocabularyTables(
        input=_one(input_tensors, "input embeddings", model, embeddings.weight),
        head=_one(head_tensors, "LM head", model, head.weight),
        bias=None if head.bias is None else _one(bias_tensors, "LM head's bias", model, head.bias),
    )


def _stored(model: Any, parameter: torch.Tensor, stored: dict[str, StoredTensor]) -> list[StoredTensor]:
    """The stored tensors with the names of `parameter`: as in the model, or without or with its base model's prefix."""
    prefix = f"{model.base_model_prefix}."
    names: list[str] = []
    for name, other in model.named_parameters(remove_duplicate=False):
        if other is parameter:
            names += [name, name.removeprefix(prefix), prefix + name]
    return [stored[name] for name in dict.fromkeys(names) if name in stored]


def _one(found: list[StoredTensor], what: str, model: Any, parameter: torch.Tensor) -> StoredTensor:
    if not found:
        names = [name for name, other in model.named_parameters(remove_duplicate=False) if other is parameter]
        raise InputError(f"source model: has no weights for {', '.join(names)} (the {what})")
    if found[0].shape != tuple(parameter.shape):
        raise InputError(
            f"source model: {found[0].name!r} (the {what}) is stored as {list(found[0].shape)}, config.json makes it "
            f"{list(parameter.shape)}; config.json and weights are of different models"
        )
    return found[0]


def _check_copy(table: StoredTensor, other: StoredTensor) -> None:
    """Refuse a head that is stored with rows of its own although config.json ties it."""
    if (table.dtype, table.shape) == (other.dtype, other.shape) and all(
        one == two for one, two in zip(table.chunks(), other.chunks(), strict=True)
    ):
        return
    raise InputError(
        f"source model: config.json ties the LM head to the input embeddings, but {other.name!r} is stored with other "
        f"numbers than {table.name!r}; set tie_word_embeddings to false in config.json to use it, or remove it"
    )


def _refuse_other_tables(model: Any, known: list[torch.Tensor | None]) -> None:
    """Refuse a model in which the shape of anything but the known tables follows the size of the vocabulary."""
    config = copy.deepcopy(model.config)
    config.get_text_config().vocab_size += 1
    larger = dict(meta_model(config).named_parameters(remove_duplicate=False))
    known_ids = {id(parameter) for parameter in known if parameter is not None}
    others = [
        name
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if id(parameter) not in known_ids and larger[name].shape != parameter.shape
    ]
    if others:
        raise InputError(
            f"source model: {type(model).__name__} has more tables over its vocabulary than input embeddings and LM "
            f"head ({', '.join(others[:3])}); such models cannot be given another vocabulary"
        )
