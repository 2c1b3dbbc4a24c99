"""Text to token ids, with a tokenizer folder's own fast tokenizer."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.pretrained import load_backend, load_tokenizer


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
        self.bos, self.eos, self.pad = loaded.bos_token_id, loaded.eos_token_id, loaded.pad_token_id
        self.size = max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """The tokens of all `texts` in a row, each text as `BOS text EOS`: [tokens] int32."""
        before = [] if self.bos is None else [self.bos]
        after = [] if self.eos is None else [self.eos]
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        parts = chain.from_iterable((before, encoding.ids, after) for encoding in encodings)
        return np.fromiter(chain.from_iterable(parts), dtype=np.int32)
