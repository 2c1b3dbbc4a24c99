"""Text to token ids, with a tokenizer folder's own fast tokenizer."""

import shutil
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.contract import InputError

TOKENIZER_FILES = (
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)


class TextEncoder:
    """Encodes documents as `BOS text EOS`.

    `tokenizer.json` is used as it stands, because some versions of transformers rebuild a Llama tokenizer with
    settings of their own; a folder without that file goes through AutoTokenizer. Special tokens spelled out in a text
    (an HTML `<s>`, for instance) are encoded as plain text. A document gets only those of BOS and EOS that the
    tokenizer has.

    Attributes:
        bos: id put before a document, or None.
        eos: id put after a document, or None.
        pad: id of the padding token, or None.
        size: rows that an embedding matrix needs for this vocabulary (largest id + 1).
    """

    def __init__(self, folder: Path) -> None:
        """Load the tokenizer in `folder`.

        Raises:
            InputError: the folder has no tokenizer that can be used.
        """
        self._tokenizer, specials = _load(folder)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self.bos, self.eos, self.pad = (specials[name] for name in ("bos_token", "eos_token", "pad_token"))
        self.size = max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """The tokens of all `texts` in a row, each text as `BOS text EOS`: [tokens] int32."""
        before = [] if self.bos is None else [self.bos]
        after = [] if self.eos is None else [self.eos]
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        parts = chain.from_iterable((before, encoding.ids, after) for encoding in encodings)
        return np.fromiter(chain.from_iterable(parts), dtype=np.int32)


def copy_tokenizer(folder: Path, out: Path) -> None:
    """Copy the tokenizer's files from `folder` to `out`, byte for byte."""
    for name in TOKENIZER_FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)


def _load(folder: Path) -> tuple[Any, dict[str, int | None]]:
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise InputError(f"{folder} has no tokenizer: put tokenizer.json and tokenizer_config.json beside the model")
    try:
        loaded = AutoTokenizer.from_pretrained(
            str(folder), use_fast=True, local_files_only=True, trust_remote_code=False
        )
        file = folder / "tokenizer.json"
        backend = Tokenizer.from_file(str(file)) if file.is_file() else loaded.backend_tokenizer
    except Exception as error:  # the Rust side raises plain Exception
        raise InputError(f"the tokenizer in {folder} cannot be loaded as a fast tokenizer: {error}") from error
    return backend, {name: getattr(loaded, f"{name}_id") for name in ("bos_token", "eos_token", "pad_token")}
