"""Text to token ids, with a tokenizer folder's own fast tokenizer."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.contract import InputError
from tasks.pretrained import load_backend, load_tokenizer

SHOWN = 8


class TextEncoder:
    """Encodes documents as `BOS text EOS`.

    `tokenizer.json` is used as it stands (see `load_backend`). Special tokens spelled out in a text
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
        loaded = load_tokenizer(folder, "tokenizer")
        self._tokenizer = load_backend(folder, "tokenizer", loaded)
        self._tokenizer.encode_special_tokens = True
        self._folder, self._special = folder, [token.content for token in loaded.added_tokens_decoder.values()]
        self._loaded = loaded
        self.bos, self.eos, self.pad = loaded.bos_token_id, loaded.eos_token_id, loaded.pad_token_id
        self.size = max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    def encodings(self, texts: Sequence[str]) -> list[Any]:
        """Of each text its `tokenizers.Encoding`: the tokens without BOS and EOS."""
        encodings: list[Any] = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return encodings

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """The tokens of all `texts` in a row, each text as `BOS text EOS`: [tokens] int32."""
        before = [] if self.bos is None else [self.bos]
        after = [] if self.eos is None else [self.eos]
        parts = chain.from_iterable((before, encoding.ids, after) for encoding in self.encodings(texts))
        return np.fromiter(chain.from_iterable(parts), dtype=np.int32)

    def check(self, texts: Sequence[str]) -> None:
        """Whether transformers, with which the model will be used, gives the same tokens; texts that spell out an added
        token are left out.

        Raises:
            InputError: it does not.
        """
        plain = [text for text in texts if not any(token in text for token in self._special)]
        theirs = self._loaded(plain, add_special_tokens=False)["input_ids"] if plain else []
        for text, own, other in zip(plain, self.encodings(plain), theirs, strict=True):
            if own.ids != other:
                raise InputError(
                    f"tokenizer: {self._folder}/tokenizer.json gives {own.ids[:SHOWN]} for {text[:40]!r}, but "
                    f"{type(self._loaded).__name__} of transformers, which reads the same folder, gives "
                    f"{other[:SHOWN]}: the model would be trained on other tokens than it is used with. Take out of "
                    "tokenizer_config.json what contradicts tokenizer.json (add_prefix_space, for instance), or set "
                    'its "tokenizer_class" to "PreTrainedTokenizerFast"'
                )
