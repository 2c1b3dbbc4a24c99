"""Plain text, one text a line."""

from collections.abc import Iterator

from tasks.corpus.lines import line_blocks
from tasks.corpus.open_file import Location
from tasks.corpus.records import Records, checked


def read_txt(location: Location, name: str) -> Iterator[Records]:
    """The lines of a text file as the text column `name`.

    Raises:
        InputError: see `line_blocks`.
    """
    for block in line_blocks(location):
        yield checked(block.lines, [block.column], [name], block.position)
