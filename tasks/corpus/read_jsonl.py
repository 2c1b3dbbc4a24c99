"""JSON lines: one object a line, the text under a key."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.corpus.lines import line_blocks
from tasks.corpus.open_file import Location
from tasks.corpus.records import Records, bad_rows, checked, join_bad, row_schema


def read_jsonl(location: Location, keys: Sequence[str | int], names: Sequence[str]) -> Iterator[Records]:
    """The texts under `keys` as the text columns `names`; 'a.b' also looks for key b of the object under a.

    Lines that are not a JSON object are bad rows 'not-json'; without a string under every key, 'missing-text'; blank,
    'empty'.

    Raises:
        InputError: a key is a number; or see `line_blocks`.
    """
    for key in keys:
        if not isinstance(key, str):
            raise location.error(f"column {key} is a number; jsonl needs the name of a key")
    wanted = [str(key) for key in keys]
    for block in line_blocks(location):
        whole = checked(block.lines, [block.column], ["line_text"], block.position)
        yield _parsed(whole, wanted, names)


def _parsed(whole: Records, keys: Sequence[str], names: Sequence[str]) -> Records:
    texts: list[list[str]] = []
    good: list[int] = []
    wrong: dict[str, list[int]] = {}
    lines = whole.rows.column("line_text")
    for row, line in enumerate(lines.to_pylist()):
        found = _texts(line, keys)
        if isinstance(found, str):
            wrong.setdefault(found, []).append(row)
        else:
            good.append(row)
            texts.append(found)
    bad = [whole.bad]
    numbers, sizes = (whole.rows.column(name).to_numpy() for name in ("line", "size"))
    for reason, rows in wrong.items():
        picked = np.array(rows, dtype=np.int64)
        bad.append(bad_rows(numbers[picked], sizes[picked], reason, [lines.take(picked)]))
    kept = np.array(good, dtype=np.int64)
    columns = [pa.array([row[i] for row in texts], pa.string()) for i in range(len(keys))]
    arrays = [pa.array(numbers[kept]), pa.array(sizes[kept]), *columns]
    return Records(pa.RecordBatch.from_arrays(arrays, schema=row_schema(names)), join_bad(bad), whole.position)


def _texts(line: str, keys: Sequence[str]) -> list[str] | str:
    """The texts under `keys`, or the reason why there are none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return "not-json" if line.strip() else "empty"
    if not isinstance(value, dict):
        return "not-json"
    found = [_look_up(value, key) for key in keys]
    texts = [text for text in found if isinstance(text, str)]
    if len(texts) < len(keys):
        return "missing-text"
    if any(not text.isascii() and _has_surrogate(text) for text in texts):
        return "invalid-utf8"
    return texts


def _look_up(value: dict[str, Any], key: str) -> Any:
    if key in value:
        return value[key]
    found: Any = value
    for part in key.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(part)
    return found


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
