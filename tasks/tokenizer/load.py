"""Loading of a fast tokenizer from a folder."""

from pathlib import Path
from typing import Any

from tasks.contract import InputError

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
)
_ANY_OF = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json", "spiece.model", "sentencepiece.bpe.model")


def load_tokenizer(folder: Path, role: str) -> Any:
    """The tokenizer in `folder`, as transformers' fast tokenizer, read from local files only.

    Args:
        folder: folder with tokenizer files.
        role: what it is, for the error: "source tokenizer".

    Raises:
        InputError: no tokenizer files, files that transformers cannot read, or no fast version of the tokenizer.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if not any((folder / name).is_file() for name in _ANY_OF):
        raise InputError(
            f"{role}: {folder} has no tokenizer (none of {', '.join(_ANY_OF)}); "
            "put the tokenizer's files beside the model's"
        )
    try:
        if (folder / "config.json").is_file() or (folder / "tokenizer_config.json").is_file():
            tokenizer = AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False, use_fast=True
            )
        else:
            tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    except Exception as error:
        raise InputError(f"{role}: the tokenizer in {folder} cannot be read: {error}") from error
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            f"{role}: {folder} gives a {type(tokenizer).__name__}, which has no fast version; add its tokenizer.json"
        )
    return tokenizer
