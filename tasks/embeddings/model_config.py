"""config.json and generation_config.json of a model with another vocabulary."""

import copy
import json
from pathlib import Path
from typing import Any

from tasks.contract import InputError

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


def new_config(config: Any, tokenizer: Any, rows: int, dtype: str | None) -> Any:
    """A copy of `config` with `rows` rows in its vocabulary tables and the special tokens of `tokenizer`.

    Args:
        config: the source model's.
        tokenizer: the new one.
        rows: rows of the new tables.
        dtype: number format of the weights, "bfloat16"; None: what `config` says.
    """
    changed = copy.deepcopy(config)
    for part in {id(c): c for c in (changed, changed.get_text_config())}.values():
        if hasattr(part, "vocab_size"):
            part.vocab_size = rows
        for role in ("bos", "eos", "pad"):
            setattr(part, f"{role}_token_id", getattr(tokenizer, f"{role}_token_id"))
        for role in ("unk", "sep", "cls", "mask"):
            if getattr(part, f"{role}_token_id", None) is not None:
                setattr(part, f"{role}_token_id", getattr(tokenizer, f"{role}_token_id"))
        if dtype is not None:
            setattr(part, _dtype_field(), dtype)
    return changed


def new_generation_config(folder: Path, default: Any, tokenizer: Any, suppressed: range) -> Any:
    """The source model's generation config with the special tokens of `tokenizer`.

    Args:
        folder: the source model's folder.
        default: what stands for it where the folder has no generation_config.json.
        tokenizer: the new one.
        suppressed: ids that must not be generated (rows without a token).

    Raises:
        InputError: generation_config.json cannot be read.
    """
    from transformers import GenerationConfig

    generation = copy.deepcopy(default)
    if (folder / "generation_config.json").is_file():
        try:
            generation = GenerationConfig.from_pretrained(str(folder), local_files_only=True)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"source model: generation_config.json cannot be read: {error}") from error
    for role in ("bos", "eos", "pad"):
        setattr(generation, f"{role}_token_id", getattr(tokenizer, f"{role}_token_id"))
    for name in _OLD_IDS:
        if getattr(generation, name, None) is not None:
            setattr(generation, name, None)
    if suppressed:
        generation.suppress_tokens = list(suppressed)
    # Some published models ship sampling values without sampling, which transformers refuses to save.
    if any(getattr(generation, name, None) not in (None, value) for name, value in _SAMPLING.items()):
        generation.do_sample = True
    return generation


def save_configs(config: Any, generation: Any, architecture: str, out: Path) -> None:
    """Write config.json and generation_config.json; neither names a path."""
    values = json.loads(config.to_json_string())
    values.pop("_name_or_path", None)
    values["architectures"] = [architecture]
    _write(out / "config.json", values)
    _write(out / "generation_config.json", json.loads(generation.to_json_string()))


def _write(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _dtype_field() -> str:
    """The field of the number format: `dtype`, or `torch_dtype` before transformers 4.56."""
    import transformers
    from packaging.version import Version

    return "dtype" if Version(transformers.__version__) >= Version("4.56") else "torch_dtype"
