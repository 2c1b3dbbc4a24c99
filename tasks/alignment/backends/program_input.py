"""Sentence pairs as lines of numbers, for programs."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.alignment.bitext import Bitext
from tasks.alignment.links import Int32, Int64

BLOCK_WORDS = 4 * 2**20


def blocks(bitext: Bitext) -> Iterator[tuple[int, int]]:
    """Start and end of consecutive ranges of pairs of about `BLOCK_WORDS` words, one pair at least."""
    words = bitext.source_offsets + bitext.target_offsets
    start = 0
    while start < len(bitext):
        end = int(np.searchsorted(words, words[start] + BLOCK_WORDS, side="right")) - 1
        end = min(max(end, start + 1), len(bitext))
        yield start, end
        start = end


def sentences(words: Int32, offsets: Int64) -> pa.StringArray:
    """The numbers of each sentence, separated by blanks.

    Args:
        words: int32 [all tokens].
        offsets: int64 [N + 1], boundaries of these sentences in `words`.
    """
    texts = pa.array(words[offsets[0] : offsets[-1]]).cast(pa.string())
    return pc.binary_join(pa.ListArray.from_arrays(pa.array((offsets - offsets[0]).astype(np.int32)), texts), " ")


def write_lines(file: BinaryIO, lines: pa.StringArray) -> None:
    """Write each line with a line feed."""
    if len(lines):
        whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
        file.write(pc.binary_join(whole, "\n")[0].as_buffer())
        file.write(b"\n")
