"""Stage `counts`: counts of token pairs from counts of word pairs."""

from configs.schema import CountsConfig
from tasks.contract import InputError, Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Write token_pairs.parquet.

    Raises:
        InputError: no pair of words reaches `min_count`.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from storage.tables import read_batches, write_table
    from tasks.alignment.counts import TokenCounts, UnitTokens

    config: CountsConfig = context.config
    folder = context.inputs["alignment"]

    def tokens(name: str) -> UnitTokens:
        lists = pq.read_table(folder / name, columns=["token_ids"]).column("token_ids").combine_chunks()
        first = lists.offsets.to_numpy().astype(np.int64)
        return UnitTokens(lists.values.to_numpy().astype(np.int32), first)

    counts = TokenCounts(tokens("source_units.parquet"), tokens("target_units.parquet"))
    path = folder / "word_pairs.parquet"
    total = pq.read_metadata(path).num_rows
    read, used, largest = 0, 0, 0.0
    for batch in read_batches(path):
        largest = max(largest, pc.max(batch.column("count")).as_py() or 0.0)
        read += batch.num_rows
        kept = batch.filter(pc.greater_equal(batch.column("count"), config.min_count))
        used += kept.num_rows
        counts.add(*(kept.column(name).to_numpy() for name in ("source_unit", "target_unit", "count")))
        context.progress(read, total, "word pairs")
    if used == 0:
        raise InputError(
            f"none of {read:,} word pairs has a count of at least counts.min_count = {config.min_count:g} (the largest "
            f"is {largest:.3g}): lower counts.min_count or give more parallel text"
        )
    target, source, all_to_all, in_order = counts.result()
    table = pa.table(
        {
            "source_id": pa.array(source, pa.int32()),
            "target_id": pa.array(target, pa.int32()),
            "all_to_all": all_to_all,
            "in_order": in_order,
            "count": (all_to_all + in_order) / 2,
        }
    )
    write_table(table, context.out / "token_pairs.parquet")
    return StageResult(
        summary={
            "word_pairs": read,
            "word_pairs_used": used,
            "token_pairs": table.num_rows,
            "target_tokens": len(np.unique(target)),
            "source_tokens": len(np.unique(source)),
        }
    )


STAGE = Stage(name="counts", version=1, config=CountsConfig, run=run)
