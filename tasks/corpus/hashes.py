"""Keyed 128-bit hashes of texts, and the split they decide."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

Hashes = npt.NDArray[np.uint64]
SPLITS = ("train", "validation", "test")


def text_hashes(texts: pa.Array, seed: int) -> Hashes:
    """XXH3 128-bit hashes, keyed by `seed`, of the UTF-8 of every text: uint64 [n, 2], high and low half."""
    digest = partial(xxhash.xxh3_128_digest, seed=seed % 2**64)
    digests = b"".join(map(digest, texts.cast(pa.binary()).to_pylist()))
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64).reshape(-1, 2)


def pair_hashes(sides: Sequence[pa.Array], seed: int) -> Hashes:
    """Hashes of the sides taken together, uint64 [n, 2]; cleaned texts hold no tab, so a tab keeps them apart."""
    return text_hashes(pc.binary_join_element_wise(*sides, "\t"), seed)


def split_by_hash(low: Hashes, validation_share: float, test_share: float) -> npt.NDArray[np.uint8]:
    """Split of every text, uint8 [n], index into `SPLITS`, from the low half of its hash.

    The low half is a uniform number in [0, 1): under `test_share` is test, from 1 - `validation_share` on is
    validation. So a larger share holds every text of a smaller one, and a text's split depends on nothing else.
    """
    uniform = (low >> np.uint64(11)).astype(np.float64) * 2.0**-53
    split = np.zeros(len(low), dtype=np.uint8)
    split[uniform >= 1.0 - validation_share] = SPLITS.index("validation")
    split[uniform < test_share] = SPLITS.index("test")
    return split
