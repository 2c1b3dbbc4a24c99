"""Hugging Face folders, opened with transformers: tokenizer, configuration and model.

This is the one place that calls `from_pretrained` on a folder, so that what holds for one holds for all: nothing is
looked for on the hub, no code of a folder is run, and weights are read from safetensors alone.
"""

import copy
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tasks.contract import InputError

if TYPE_CHECKING:
    import torch

VOCABULARY_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
)
TOKENIZER_FILES = (
    *VOCABULARY_FILES,
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer_config.json",
)
TEMPLATES = "additional_chat_templates"
_LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
_SHOWN = 5


def load_tokenizer(folder: Path, role: str) -> Any:
    """The tokenizer in `folder`, as transformers' fast tokenizer; its backend neither cuts texts short nor pads them.

    Args:
        folder: folder with tokenizer files.
        role: what it is, for the error: "source tokenizer".

    Raises:
        InputError: no tokenizer files, files that transformers cannot read, or no fast version of the tokenizer.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if not has_tokenizer(folder):
        raise InputError(
            f"{role}: {folder} has no tokenizer (none of {', '.join(VOCABULARY_FILES)}); "
            "put the tokenizer's files beside the model's"
        )
    configured = any((folder / name).is_file() for name in ("config.json", "tokenizer_config.json"))
    if not configured and not (folder / "tokenizer.json").is_file() and not is_bare_sentencepiece(folder):
        raise InputError(
            f"{role}: nothing in {folder} says how {', '.join(tokenizer_files(folder))} are to be read; "
            "add its tokenizer.json, its tokenizer_config.json or the model's config.json"
        )
    try:
        if is_bare_sentencepiece(folder):
            tokenizer = _from_sentencepiece((folder / "tokenizer.model").read_bytes())
        elif configured:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), use_fast=True, **_LOCAL)
        else:
            tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    except Exception as error:  # the Rust side raises plain Exception
        raise InputError(f"{role}: the tokenizer in {folder} cannot be read: {error}") from error
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            f"{role}: {folder} gives a {type(tokenizer).__name__}, which has no fast version; add its tokenizer.json"
        )
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return tokenizer


def load_backend(folder: Path, role: str, loaded: Any = None) -> Any:
    """The `tokenizers.Tokenizer` of `folder`, without truncation or padding.

    tokenizer.json is used as it stands, because some versions of transformers rebuild a Llama tokenizer with settings
    of their own; a folder without that file gives what transformers makes of it.

    Args:
        folder: folder with tokenizer files.
        role: what it is, for the error.
        loaded: what `load_tokenizer` gave for the same folder; None: it is called where needed.

    Raises:
        InputError: as `load_tokenizer`.
    """
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    if not file.is_file():
        backend = (loaded or load_tokenizer(folder, role)).backend_tokenizer
    else:
        try:
            backend = Tokenizer.from_file(str(file))
        except Exception as error:  # the Rust side raises plain Exception
            raise InputError(f"{role}: {file} cannot be read: {error}") from error
    backend.no_truncation()
    backend.no_padding()
    return backend


def has_tokenizer(folder: Path) -> bool:
    """Whether there is a file in `folder` that may hold a vocabulary."""
    return any((folder / name).is_file() for name in VOCABULARY_FILES)


def is_bare_sentencepiece(folder: Path) -> bool:
    """Whether `folder` holds a SentencePiece model, and no file that says how transformers should read it."""
    others = ("tokenizer.json", "tokenizer_config.json", "config.json")
    return (folder / "tokenizer.model").is_file() and not any((folder / name).is_file() for name in others)


def _from_sentencepiece(model: bytes) -> Any:
    from transformers import PreTrainedTokenizerFast

    from tasks.tokenizer.convert import fast_tokenizer, special_names

    return PreTrainedTokenizerFast(tokenizer_object=fast_tokenizer(model), **special_names(model))


def tokenizer_files(folder: Path) -> list[str]:
    """The tokenizer's files in `folder`, as paths relative to it, ascending."""
    templates = (f"{TEMPLATES}/{path.name}" for path in (folder / TEMPLATES).glob("*.jinja"))
    return sorted([*(name for name in TOKENIZER_FILES if (folder / name).is_file()), *templates])


def tokenizer_inputs(folder: Path) -> list[str]:
    """The files in `folder` on which the tokenizer loaded from it depends, as paths relative to it.

    They are its own files, and the model's config.json where there is no tokenizer_config.json: transformers then takes
    the tokenizer's class from the kind of model.
    """
    names = tokenizer_files(folder)
    needed = "tokenizer_config.json" not in names and (folder / "config.json").is_file()
    return sorted([*names, "config.json"]) if needed else names


def copy_tokenizer(folder: Path, out: Path) -> None:
    """Copy the tokenizer's files from `folder` to `out`, byte for byte."""
    for name in tokenizer_files(folder):
        (out / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(folder / name, out / name)


def load_config(folder: Path, role: str) -> Any:
    """The transformers configuration in `folder`.

    Args:
        folder: model folder.
        role: what it is, for the error: "source model".

    Raises:
        InputError: there is none, or one that transformers does not know.
    """
    from transformers import AutoConfig

    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{role}: {folder} has no config.json; give the folder of a Hugging Face model")
    try:
        return AutoConfig.from_pretrained(str(folder), **_LOCAL)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # the last two: JSON, but no object
        why = "the model needs Python code of its own, which is not run" if "remote_code" in str(error) else error
        raise InputError(f"{role}: {path} cannot be read: {why}") from error


def load_generation_config(folder: Path, role: str) -> Any:
    """The generation config in `folder`; None where there is none.

    Raises:
        InputError: generation_config.json cannot be read.
    """
    from transformers import GenerationConfig

    path = folder / "generation_config.json"
    if not path.is_file():
        return None
    try:
        return GenerationConfig.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{role}: {path} cannot be read: {error}") from error


def empty_model(config: Any, role: str) -> Any:
    """The causal language model of `config` without weights (on the meta device): modules, names and shapes alone.

    Args:
        config: a transformers configuration, which is left as it is.
        role: what it is, for the error.

    Raises:
        InputError: the architecture has no causal language model in transformers.
    """
    import torch
    from transformers import AutoModelForCausalLM

    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(copy.deepcopy(config), trust_remote_code=False)
    except (ValueError, KeyError) as error:
        raise InputError(f"{role}: config.json gives no causal language model: {error}") from error
    model.tie_weights()
    return model


def load_causal_model(folder: Path, role: str, dtype: "torch.dtype | Literal['auto']" = "auto") -> Any:
    """The causal language model in `folder`, on the CPU, in evaluation mode, every weight read from its files.

    Args:
        folder: model folder.
        role: what it is, for the error: "source model".
        dtype: number format of the weights; 'auto': the one that they are stored in.

    Raises:
        InputError: there is no such model, its files are damaged, or they lack a weight (transformers would draw it).
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    if not (folder / "config.json").is_file() or not any(folder.glob("*.safetensors")):
        raise InputError(
            f"{role}: {folder.name!r} needs config.json and safetensors weights; "
            "save the model with model.save_pretrained(...)"
        )
    options = {**_LOCAL, "use_safetensors": True, "output_loading_info": True, dtype_field(): dtype}
    try:
        with _no_progress_bar():
            model, info = AutoModelForCausalLM.from_pretrained(str(folder), **options)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise InputError(f"{role}: {folder.name!r} cannot be loaded: {error}") from error
    if missing := sorted(info["missing_keys"]):
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise InputError(f"{role}: {folder.name!r} has no weights for {', '.join(missing[:_SHOWN])}{more}")
    return model.eval()


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def dtype_field() -> str:
    """What transformers calls a model's number format: `dtype`, or `torch_dtype` before version 4.56."""
    from packaging.version import Version
    from transformers import __version__

    return "dtype" if Version(__version__) >= Version("4.56.0.dev0") else "torch_dtype"
