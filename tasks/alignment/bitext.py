"""Sentence pairs as flat arrays of word numbers."""

from dataclasses import dataclass

from tasks.alignment.links import Int32, Int64


@dataclass(frozen=True)
class Bitext:
    """N sentence pairs as word numbers.

    Attributes:
        source: int32 [source tokens], numbers below `source_words`.
        source_offsets: int64 [N + 1], sentence boundaries in `source`.
        target: int32 [target tokens], numbers below `target_words`.
        target_offsets: int64 [N + 1].
        source_words: size of the source vocabulary.
        target_words: size of the target vocabulary.
    """

    source: Int32
    source_offsets: Int64
    target: Int32
    target_offsets: Int64
    source_words: int
    target_words: int

    def __len__(self) -> int:
        return len(self.source_offsets) - 1

    def part(self, start: int, end: int) -> "Bitext":
        """The pairs `start` to `end` (exclusive) over the same vocabularies, without a copy of the words."""
        first, last = self.source_offsets[[start, end]], self.target_offsets[[start, end]]
        return Bitext(
            self.source[first[0] : first[1]],
            self.source_offsets[start : end + 1] - first[0],
            self.target[last[0] : last[1]],
            self.target_offsets[start : end + 1] - last[0],
            self.source_words,
            self.target_words,
        )
