"""A Moses pair: two files, line n of the second is the translation of line n of the first."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tasks.contract import InputError
from tasks.corpus.lines import LineBlock, line_blocks
from tasks.corpus.open_file import Location
from tasks.corpus.records import Column, Records, checked


class _Side:
    """One file: the lines read and not yet paired."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._blocks: Iterator[LineBlock] = line_blocks(location)
        self._texts: pa.Array = pa.array([], pa.binary())
        self._sizes = np.empty(0, dtype=np.int64)
        self.read = 0
        self.position = 0
        self.ended = False

    @property
    def waiting(self) -> int:
        return len(self._sizes)

    def fill(self) -> None:
        """Read a block if no line is waiting."""
        while self.waiting == 0 and not self.ended:
            block = next(self._blocks, None)
            if block is None:
                self.ended = True
                return
            self._texts, self._sizes = block.column.texts, block.column.sizes
            self.read += len(block.lines)
            self.position = block.position

    def take(self, count: int) -> Column:
        """The next `count` waiting lines."""
        taken = Column(self._texts[:count], self._sizes[:count])
        self._texts, self._sizes = self._texts[count:], self._sizes[count:]
        return taken

    def count_rest(self) -> int:
        """Lines of the whole file."""
        return self.read + sum(len(block.lines) for block in self._blocks)


def read_moses(source: Location, target: Location, names: Sequence[str]) -> Iterator[Records]:
    """The pairs of lines of two files as the text columns `names`.

    Raises:
        InputError: the files have unequal numbers of lines (both are named), or see `line_blocks`.
    """
    sides = (_Side(source), _Side(target))
    paired = 0
    while True:
        for side in sides:
            side.fill()
        count = min(side.waiting for side in sides)
        if count == 0:
            break
        lines = np.arange(paired + 1, paired + count + 1, dtype=np.int64)
        yield checked(lines, [side.take(count) for side in sides], names, sum(side.position for side in sides))
        paired += count
    if any(side.waiting for side in sides):
        raise _unequal(*sides)


def _unequal(source: _Side, target: _Side) -> InputError:
    counts = [side.count_rest() for side in (source, target)]
    return InputError(
        f"source {source.location.source!r}: a Moses pair needs equal numbers of lines, but "
        f"{source.location.shown!r} has {counts[0]} and {target.location.shown!r} has {counts[1]}; "
        "check that both files belong together and are whole"
    )
