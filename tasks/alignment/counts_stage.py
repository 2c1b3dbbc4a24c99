"""Stage `counts`: counts of token pairs from counts of word pairs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from configs.schema import CountsConfig
from tasks.contract import InputError, Progress, Stage, StageContext, StageResult

if TYPE_CHECKING:
    from tasks.alignment.counts import TokenCounts, UnitTokens
    from tasks.alignment.links import Int32
    from tasks.alignment.sums import Float64


def run(context: StageContext) -> StageResult:
    """Write token_pairs.parquet.

    Raises:
        InputError: no pair of words reaches `min_count`, or a weight is that of no corpus or no usable number.
    """
    from tasks.alignment.counts import TokenCounts

    config: CountsConfig = context.config
    folder = context.inputs["alignment"]
    selection = _Selection(folder, _weights(folder, config.corpus_weights), config, context.progress)
    units = _unit_tokens(folder / "source_units.parquet"), _unit_tokens(folder / "target_units.parquet")
    counts = TokenCounts(*units, context.work)
    for block in selection.blocks():
        counts.add(*block)
    if selection.used == 0:
        raise InputError(
            f"none of {selection.read:,} word pairs has a count of at least counts.min_count = {config.min_count:g} "
            f"(the largest is {selection.largest:.3g}): lower counts.min_count or give more parallel text"
        )
    figures = {"word_pairs": selection.read, "word_pairs_used": selection.used, "word_pair_count": selection.total}
    return StageResult(summary=figures | _write(counts, context.out / "token_pairs.parquet"))


@dataclass
class _Selection:
    """The word pairs that count, and what was seen while reading them.

    Attributes:
        folder: the alignment.
        weights: float64 [corpora].
        config: of the stage.
        progress: told the rows read.
        read: distinct word pairs.
        used: of those, the ones with a sufficient count.
        largest: largest count of a word pair.
        total: sum of the counts used.
    """

    folder: Path
    weights: "Float64"
    config: CountsConfig
    progress: Progress
    read: int = 0
    used: int = 0
    largest: float = 0.0
    total: float = 0.0

    def blocks(self) -> Iterator[tuple["Int32", "Int32", "Float64"]]:
        """Source units, target units and counts of the word pairs used, in blocks."""
        import pyarrow.parquet as pq

        from tasks.alignment.word_pairs import merged_word_pairs

        path = self.folder / "word_pairs.parquet"
        rows = pq.read_metadata(path).num_rows
        pairs = merged_word_pairs(path, self.weights, lambda done: self.progress(done, rows, "word pairs"))
        for source, target, sums in pairs:
            count = _directed(sums, self.config.direction)
            kept = count >= self.config.min_count
            self.read += len(count)
            self.used += int(kept.sum())
            self.largest = max(self.largest, float(count.max(initial=0.0)))
            self.total += float(count[kept].sum())
            yield source[kept], target[kept], count[kept]


def _directed(sums: "Float64", direction: str) -> "Float64":
    """The count used, from float64 [R, 2] counts of both directions: float64 [R]."""
    if direction == "mean":
        return (sums[:, 0] + sums[:, 1]) / 2
    return sums[:, 0] if direction == "forward" else sums[:, 1]


def _weights(folder: Path, named: Mapping[str, float]) -> "Float64":
    """Factor of each corpus by its index, 1 where it is not named."""
    import numpy as np
    import pyarrow.parquet as pq

    known: list[str] = pq.read_table(folder / "corpora.parquet", columns=["name"]).column("name").to_pylist()
    weights = np.ones(len(known))
    for name, weight in named.items():
        if name not in known:
            raise InputError(
                f"counts.corpus_weights names {name!r}, which is no source of the parallel text; known are: "
                f"{', '.join(known)}"
            )
        if not 0 <= weight < float("inf"):
            raise InputError(f"counts.corpus_weights.{name} is {weight:g}: give a finite number from 0")
        weights[known.index(name)] = weight
    if not weights.any():
        raise InputError(f"counts.corpus_weights is 0 for every parallel corpus ({', '.join(known)}): leave one out")
    return weights


def _unit_tokens(path: Path) -> "UnitTokens":
    import numpy as np
    import pyarrow.parquet as pq

    from tasks.alignment.counts import UnitTokens

    lists = pq.read_table(path, columns=["token_ids"]).column("token_ids").combine_chunks()
    return UnitTokens(lists.values.to_numpy().astype(np.int32), lists.offsets.to_numpy().astype(np.int64))


def _write(counts: "TokenCounts", path: Path) -> dict[str, int]:
    """Write the counts; returns the numbers of token pairs and of the tokens in them."""
    import numpy as np
    import pyarrow as pa

    from storage.tables import TableWriter

    ids = [(name, pa.int32()) for name in ("source_id", "target_id")]
    schema = pa.schema([*ids, *((name, pa.float64()) for name in ("all_to_all", "in_order", "count"))])
    rows, target_tokens, last = 0, 0, -1
    sources: set[int] = set()
    with TableWriter(path, schema) as writer:
        for target, source, sums in counts.result():
            columns = [source, target, sums[:, 0], sums[:, 1], sums.mean(axis=1)]
            writer.write(pa.table([pa.array(column) for column in columns], schema=schema))
            rows += len(target)
            target_tokens += int(np.count_nonzero(np.diff(target, prepend=last)))
            last = int(target[-1])
            sources.update(np.unique(source).tolist())
    return {"token_pairs": rows, "target_tokens": target_tokens, "source_tokens": len(sources)}


STAGE = Stage(name="counts", version=2, config=CountsConfig, run=run)
