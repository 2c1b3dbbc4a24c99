"""A causal language model with its vocabulary replaced."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tasks.contract import InputError
from tasks.embeddings.new_table import check_table, new_table
from tasks.embeddings.token_mapping import TokenMapping

# Fields of a generation config that hold token ids of the old vocabulary.
_OLD_IDS = (
    "forced_bos_token_id",
    "forced_eos_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    "bad_words_ids",
    "force_words_ids",
    "sequence_bias",
    "decoder_start_token_id",
)
_SAMPLING = {"temperature": 1.0, "top_p": 1.0, "min_p": None, "typical_p": 1.0, "top_k": 50}


def load_source_model(folder: Path, dtype: str) -> Any:
    """The causal language model in `folder`, on the CPU, from safetensors only.

    Args:
        folder: Hugging Face model folder.
        dtype: "source", "float32" or "bfloat16".

    Raises:
        InputError: no config.json, no safetensors weights, or weights that do not fit the config.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    if not (folder / "config.json").is_file():
        raise InputError(f"source model: {folder} has no config.json; give the folder of a Hugging Face model")
    if not any(folder.glob("*.safetensors")):
        found = sorted(path.name for path in [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])
        raise InputError(
            f"source model: {folder} has no .safetensors weights (found: {', '.join(found) or 'no weights'}); "
            "pickled weights are not loaded: convert them to safetensors first"
        )
    wanted = "auto" if dtype == "source" else getattr(torch, dtype)
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            str(folder),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **{_dtype_argument(): wanted},
        )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise InputError(f"source model: {folder} cannot be loaded: {error}") from error
    finally:
        if bars:
            logging.enable_progress_bar()
    if info["missing_keys"]:
        raise InputError(f"source model: {folder} has no weights for {', '.join(sorted(info['missing_keys'])[:5])}")
    return model.eval()


def replace_vocabulary(model: Any, mapping: TokenMapping, seed: int | None) -> dict[str, Any]:
    """Give `model` the new vocabulary: input embeddings and, where it has its own, LM head, each from its own rows.

    The modules stay (with what else they do: scaling, ties); only their parameters are exchanged. Transformers' own
    resizing, which draws new rows from a dense covariance, is not used.

    Args:
        model: a causal language model with get_input_embeddings and get_output_embeddings.
        mapping: from its vocabulary to the new one.
        seed: seed of the rows that the mapping does not cover.

    Returns:
        For each table, what `check_table` found.

    Raises:
        InputError: the model has no LM head or fewer rows than the mapping reads, or its tables hold NaN.
    """
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    if not isinstance(embeddings, nn.Embedding) or not isinstance(head, nn.Linear):
        raise InputError(f"source model: {type(model).__name__} has no embedding table and linear LM head")
    tied = head.weight is embeddings.weight
    old = {"input embeddings": embeddings.weight.data} | ({} if tied else {"LM head": head.weight.data})
    report: dict[str, Any] = {"tied": tied}
    new: dict[str, torch.Tensor] = {}
    for position, (name, table) in enumerate(old.items()):
        _check_source(name, table, mapping)
        new[name] = new_table(table, mapping, _rng(seed, position))
        report[name] = asdict(check_table(name, new[name], table, mapping))
    _exchange(embeddings, new["input embeddings"])
    if tied:
        head.weight = embeddings.weight
    else:
        head.weight = nn.Parameter(new["LM head"], requires_grad=head.weight.requires_grad)
    head.out_features = mapping.target_size
    if head.bias is not None:
        head.bias = nn.Parameter(new_table(head.bias.data, mapping, _rng(seed, 2)))
    for config in {id(c): c for c in (model.config, model.config.get_text_config())}.values():
        if hasattr(config, "vocab_size"):
            config.vocab_size = mapping.target_size
    if hasattr(model, "vocab_size"):
        model.vocab_size = mapping.target_size
    return report


def set_special_tokens(model: Any, tokenizer: Any) -> None:
    """Put the ids of `tokenizer`'s special tokens into the model's config and generation config."""
    for config in {id(c): c for c in (model.config, model.config.get_text_config())}.values():
        for role in ("bos", "eos", "pad"):
            setattr(config, f"{role}_token_id", getattr(tokenizer, f"{role}_token_id"))
        for role in ("unk", "sep", "cls", "mask"):
            if getattr(config, f"{role}_token_id", None) is not None:
                setattr(config, f"{role}_token_id", getattr(tokenizer, f"{role}_token_id"))
    embeddings = model.get_input_embeddings()
    embeddings.padding_idx = tokenizer.pad_token_id
    generation = model.generation_config
    if generation is None:
        return
    for role in ("bos", "eos", "pad"):
        setattr(generation, f"{role}_token_id", getattr(tokenizer, f"{role}_token_id"))
    for name in _OLD_IDS:
        if getattr(generation, name, None) is not None:
            setattr(generation, name, None)
    # Some published models ship sampling values without sampling, which transformers refuses to save.
    if any(getattr(generation, name, None) not in (None, value) for name, value in _SAMPLING.items()):
        generation.do_sample = True


def _exchange(embeddings: nn.Embedding, table: torch.Tensor) -> None:
    embeddings.weight = nn.Parameter(table, requires_grad=embeddings.weight.requires_grad)
    embeddings.num_embeddings = table.shape[0]
    embeddings.padding_idx = None


def _check_source(name: str, table: torch.Tensor, mapping: TokenMapping) -> None:
    if len(mapping.source_ids) and int(mapping.source_ids.max()) >= table.shape[0]:
        raise InputError(
            f"source model: the mapping reads token {int(mapping.source_ids.max())} of the source tokenizer, but the "
            f"{name} have {table.shape[0]} rows; model and tokenizer do not belong together"
        )
    finite = torch.isfinite(table[: mapping.source_size].sum(dim=1, dtype=torch.float32))
    if not bool(finite.all()):
        row = int(torch.nonzero(~finite)[0])
        raise InputError(f"source model: row {row} of the {name} is not finite; its weights are damaged")


def _rng(seed: int | None, table: int) -> np.random.Generator:
    """An own stream of random numbers for each table."""
    return np.random.default_rng([0 if seed is None else seed, table])


def _dtype_argument() -> str:
    """The name of from_pretrained's number format: `dtype`, or `torch_dtype` before transformers 4.56."""
    import transformers
    from packaging.version import Version

    return "dtype" if Version(transformers.__version__) >= Version("4.56") else "torch_dtype"
