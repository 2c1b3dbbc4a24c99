"""Loading of a fast tokenizer from a folder."""

from pathlib import Path
from typing import Any

from tasks.contract import InputError

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


def load_tokenizer(folder: Path, role: str) -> Any:
    """The tokenizer in `folder`, as transformers' fast tokenizer, read from local files only, without code of its own.

    Args:
        folder: folder with tokenizer files.
        role: what it is, for the error: "source tokenizer".

    Raises:
        InputError: no tokenizer files, files that transformers cannot read, or no fast version of the tokenizer.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if not any((folder / name).is_file() for name in VOCABULARY_FILES):
        raise InputError(
            f"{role}: {folder} has no tokenizer (none of {', '.join(VOCABULARY_FILES)}); "
            "put the tokenizer's files beside the model's"
        )
    try:
        if (folder / "config.json").is_file() or (folder / "tokenizer_config.json").is_file():
            tokenizer = AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False, use_fast=True
            )
        else:
            tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    except Exception as error:  # the Rust side raises plain Exception
        raise InputError(f"{role}: the tokenizer in {folder} cannot be read: {error}") from error
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            f"{role}: {folder} gives a {type(tokenizer).__name__}, which has no fast version; add its tokenizer.json"
        )
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
