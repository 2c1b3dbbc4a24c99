"""Counts and examples of what was rejected, by corpus and reason."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tasks.corpus.records import Integers, example

EXAMPLES = 5

COUNTS_SCHEMA = pa.schema(
    [("corpus", pa.string()), ("reason", pa.string()), ("count", pa.int64()), ("bytes", pa.int64())]
)
EXAMPLES_SCHEMA = pa.schema(
    [("corpus", pa.string()), ("reason", pa.string()), ("line", pa.int64()), ("example", pa.string())]
)


@dataclass(frozen=True)
class Rejected:
    """Rows of one corpus rejected for one reason.

    Attributes:
        lines: int64 [n], line numbers.
        sizes: int64 [n], bytes as read.
        texts: the sides, arrays of at least n texts.
        rows: int64 [n], which element of `texts` each row is.
        copies: rows that these stand for, if more than n (their bytes are in `sizes`).
    """

    lines: Integers
    sizes: Integers
    texts: Sequence[pa.Array]
    rows: Integers
    copies: int = 0


@dataclass
class _Entry:
    count: int = 0
    bytes: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)


class Rejections:
    """Collects rejected rows; the answer does not depend on the order in which they come."""

    def __init__(self, corpora: Sequence[str]) -> None:
        self._corpora = list(corpora)
        self._entries: dict[tuple[int, str], _Entry] = {}

    def add(self, corpus: int, reason: str, rejected: Rejected) -> None:
        """Count rows of the corpus with index `corpus`, and keep the first in input order as examples."""
        lines = rejected.lines
        if len(lines) == 0:
            return
        entry = self._entries.setdefault((corpus, reason), _Entry())
        entry.count += max(len(lines), rejected.copies)
        entry.bytes += int(rejected.sizes.sum())
        candidates = np.arange(len(lines))
        if len(entry.examples) == EXAMPLES:
            candidates = np.flatnonzero(lines < entry.examples[-1][0])
        first = candidates[np.argsort(lines[candidates], kind="stable")[:EXAMPLES]]
        for i in first:
            sides = [texts[int(rejected.rows[i])].as_py() for texts in rejected.texts]
            entry.examples.append((int(lines[i]), example(sides)))
        entry.examples = sorted(entry.examples)[:EXAMPLES]

    def counts(self) -> pa.Table:
        """One row a corpus and reason, in the order of the corpora, reasons by name (`COUNTS_SCHEMA`)."""
        rows = [
            {"corpus": self._corpora[corpus], "reason": reason, "count": entry.count, "bytes": entry.bytes}
            for (corpus, reason), entry in sorted(self._entries.items())
        ]
        return pa.Table.from_pylist(rows, schema=COUNTS_SCHEMA)

    def examples(self) -> pa.Table:
        """The first rows in input order of every corpus and reason, at most `EXAMPLES` (`EXAMPLES_SCHEMA`)."""
        rows = [
            {"corpus": self._corpora[corpus], "reason": reason, "line": line, "example": text}
            for (corpus, reason), entry in sorted(self._entries.items())
            for line, text in entry.examples
        ]
        return pa.Table.from_pylist(rows, schema=EXAMPLES_SCHEMA)

    def by_reason(self) -> dict[str, int]:
        """Rows rejected over all corpora, by reason."""
        totals: dict[str, int] = {}
        for (_, reason), entry in sorted(self._entries.items(), key=lambda item: item[0][1]):
            totals[reason] = totals.get(reason, 0) + entry.count
        return totals

    def described(self) -> str:
        """The counts as lines of text, each with its first example."""
        lines = [f"{'corpus':<20} {'reason':<22} {'rejected':>12}  first example"]
        for (corpus, reason), entry in sorted(self._entries.items()):
            line, text = entry.examples[0]
            lines.append(f"{self._corpora[corpus]:<20} {reason:<22} {entry.count:>12,}  line {line}: {text[:60]!r}")
        return "\n".join(lines)
