"""Which stored tensors of a causal language model have one row for each token of its vocabulary."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from tasks.contract import InputError
from tasks.embeddings.safetensors_reader import Shard, StoredTensor
from tasks.pretrained import empty_model


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

    def embeddings(self) -> dict[str, StoredTensor]:
        """The tables of embeddings: 'input', and 'head' where it is one of its own."""
        return {"input": self.input} | ({} if self.head is None else {"head": self.head})


def find_tables(model: Any, shards: Iterable[Shard], role: str) -> VocabularyTables:
    """The tensors in `shards` that hold the vocabulary tables of `model`, a model without weights.

    Args:
        model: from `empty_model`.
        shards: its files.
        role: what it is, for errors: "source model".

    Raises:
        InputError: the model has no embedding table and LM head, a table is not stored or of another shape, a tied head
            is stored with rows of its own, or the model has further tables over its vocabulary.
    """
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    if any(getattr(getattr(module, "weight", None), "ndim", 0) != 2 for module in (embeddings, head)):
        raise InputError(f"{role}: {type(model).__name__} has no embedding table and linear LM head")
    _refuse_other_tables(model, role, [embeddings.weight, head.weight, head.bias])
    stored = _Stored(model, role, {tensor.name: tensor for shard in shards for tensor in shard.tensors})
    bias = None if head.bias is None else stored.table("LM head's bias", head.bias)[0]
    config = model.config.get_text_config()
    tied = head.weight is embeddings.weight or (
        bool(getattr(config, "tie_word_embeddings", False)) and head.weight.shape == embeddings.weight.shape
    )
    if not tied:
        own = stored.table("LM head", head.weight)[0]
        return VocabularyTables(stored.table("input embeddings", embeddings.weight)[0], own, bias)
    first, *copies = stored.table("input embeddings", embeddings.weight, head.weight)
    for other in copies:
        _check_copy(first, other, role)
    return VocabularyTables(first, None, bias, tuple(copies))


@dataclass(frozen=True)
class _Stored:
    """The stored tensors of a model by their names."""

    model: Any
    role: str
    tensors: dict[str, StoredTensor]

    def table(self, what: str, *parameters: torch.Tensor) -> list[StoredTensor]:
        """The tensors, at least one, that are stored for `parameters` (of one shape), which are `what`.

        Raises:
            InputError: there is none, or the first is of another shape.
        """
        named = self.model.named_parameters(remove_duplicate=False)
        names = [name for name, other in named if any(other is parameter for parameter in parameters)]
        # A base model's checkpoint leaves out its prefix; one of the whole model has it.
        prefix = f"{self.model.base_model_prefix}."
        spelled = [form for name in names for form in (name, name.removeprefix(prefix), prefix + name)]
        found = [self.tensors[name] for name in dict.fromkeys(spelled) if name in self.tensors]
        if not found:
            raise InputError(f"{self.role}: has no weights for {', '.join(names)} (the {what})")
        if found[0].shape != tuple(parameters[0].shape):
            raise InputError(
                f"{self.role}: {found[0].name!r} (the {what}) is stored as {list(found[0].shape)}, config.json makes "
                f"it {list(parameters[0].shape)}; config.json and weights are of different models"
            )
        return found


def _check_copy(table: StoredTensor, other: StoredTensor, role: str) -> None:
    """Refuse a head that is stored with rows of its own although config.json ties it."""
    if (table.dtype, table.shape) == (other.dtype, other.shape) and all(
        one == two for one, two in zip(table.chunks(), other.chunks(), strict=True)
    ):
        return
    raise InputError(
        f"{role}: config.json ties the LM head to the input embeddings, but {other.name!r} is stored with other "
        f"numbers than {table.name!r}; set tie_word_embeddings to false in config.json to use it, or remove it"
    )


def _refuse_other_tables(model: Any, role: str, known: list[torch.Tensor | None]) -> None:
    """Refuse a model in which the shape of anything but the known tables follows the size of a vocabulary."""
    config = copy.deepcopy(model.config)
    text = config.get_text_config()
    for name, value in text.to_dict().items():
        if "vocab_size" in name and isinstance(value, int):  # Gemma 3n: vocab_size_per_layer_input
            setattr(text, name, value + 1)
    larger = dict(empty_model(config, role).named_parameters(remove_duplicate=False))
    known_ids = {id(parameter) for parameter in known if parameter is not None}
    others = [
        name
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if id(parameter) not in known_ids and larger[name].shape != parameter.shape
    ]
    if others:
        raise InputError(
            f"{role}: {type(model).__name__} has more tables over its vocabulary than input embeddings and LM "
            f"head ({', '.join(others[:3])}); such models cannot be given another vocabulary"
        )
