"""Tab-separated values without quoting: every tab separates, every line feed ends a row."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.corpus.lines import line_blocks
from tasks.corpus.open_file import Location
from tasks.corpus.records import Records, bad_rows, checked, join_bad, row_schema


def read_tsv(location: Location, columns: Sequence[str | int], names: Sequence[str], header: bool) -> Iterator[Records]:
    """The `columns` (name, or number counted from 0) as the text columns `names`.

    The first line decides how many columns there are; lines with another number are bad rows 'wrong-columns'.

    Raises:
        InputError: a column is not there, the file has a header only, or see `line_blocks`.
    """
    numbers: list[int] | None = None
    width = rows = 0
    for block in line_blocks(location):
        whole = checked(block.lines, [block.column], ["line_text"], block.position)
        if numbers is None:
            first = _first_line(location, whole)
            width = len(first)
            numbers = [_number(location, column, first, header) for column in columns]
            if header:
                whole = Records(whole.rows.slice(1), whole.bad, whole.position)
        rows += whole.rows.num_rows + whole.bad.num_rows
        yield _split(whole, numbers, width, names)
    if rows == 0:
        raise location.error("the file has a header and no rows; name a file with text, or leave the source out")


def _first_line(location: Location, whole: Records) -> list[str]:
    if whole.rows.num_rows == 0 or whole.rows.column("line")[0].as_py() != 1:
        raise location.error("the first line cannot be read (too long, or not UTF-8), so its columns are not known", 1)
    line: str = whole.rows.column("line_text")[0].as_py()
    return line.rstrip("\r\n").split("\t")


def _number(location: Location, column: str | int, first: list[str], header: bool) -> int:
    if isinstance(column, int):
        if not 0 <= column < len(first):
            raise location.error(f"there is no column number {column}: the columns are 0 to {len(first) - 1}", 1)
        return column
    if not header:
        raise location.error(f"column {column!r} is a name, but `header` is false; give its number, counted from 0", 1)
    if first.count(column) != 1:
        found = "there is no column" if column not in first else "there is more than one column"
        listed = ", ".join(name[:60] for name in first[:20])
        raise location.error(
            f"{found} {column!r}; the columns are: {listed}. If these are data, set `header: false` and give numbers", 1
        )
    return first.index(column)


def _split(whole: Records, numbers: Sequence[int], width: int, names: Sequence[str]) -> Records:
    lines, sizes = (whole.rows.column(name) for name in ("line", "size"))
    texts = whole.rows.column("line_text")
    bad = [whole.bad]
    fields = pc.split_pattern(texts, "\t")
    right = pc.equal(pc.list_value_length(fields), width)
    if not pc.all(right, min_count=0).as_py():
        wrong = np.flatnonzero(~right.to_numpy(zero_copy_only=False))
        bad.append(bad_rows(lines.to_numpy()[wrong], sizes.to_numpy()[wrong], "wrong-columns", [texts.take(wrong)]))
        lines, sizes, fields = (array.filter(right) for array in (lines, sizes, fields))
    none = pa.array([], pa.string())
    columns = [pc.list_element(fields, number) if len(fields) else none for number in numbers]
    rows = pa.RecordBatch.from_arrays([lines, sizes, *columns], schema=row_schema(names))
    return Records(rows, join_bad(bad), whole.position)
