"""The number format of a model folder, and saving a model as one."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from tasks.contract import InputError
from tasks.pretrained import copy_tokenizer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
SAFETENSORS_NAMES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def stored_dtype(folder: Path) -> torch.dtype:
    """The number format of the weights in `folder`: what config.json says, else that of the first tensor stored.

    Raises:
        InputError: it is none of float32, bfloat16, float16.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    name = str(config.get("dtype") or config.get("torch_dtype") or _first_tensor_dtype(folder))
    if name not in DTYPES:
        raise InputError(f"the weights in {folder} are {name}: convert them to one of {', '.join(DTYPES)}")
    return DTYPES[name]


def save_model(model: Any, out: Path, dtype: torch.dtype, source: Path | None) -> None:
    """Save `model` (changed in place to `dtype`, rounding to nearest) as a Hugging Face folder.

    The tokenizer's files and generation_config.json come byte for byte from `source` where it has them. Nothing
    written names a path.
    """
    model.to(device="cpu", dtype=dtype)
    model.config._name_or_path = ""
    generation = model.generation_config
    if source is not None and (source / "generation_config.json").is_file():
        # transformers refuses to save settings that it finds inconsistent, as some published models' are
        model.generation_config = type(generation)()
    model.save_pretrained(out)
    if source is not None:
        if (source / "generation_config.json").is_file():
            shutil.copyfile(source / "generation_config.json", out / "generation_config.json")
        copy_tokenizer(source, out)


def _first_tensor_dtype(folder: Path) -> str:
    from safetensors import safe_open

    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  # not a dict
                stored = str(tensors.get_slice(name).get_dtype())
                return SAFETENSORS_NAMES.get(stored, stored)
    raise InputError(f"{folder} has no *.safetensors file: convert the weights to safetensors")
