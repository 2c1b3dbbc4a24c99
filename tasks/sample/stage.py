"""Stage `sample`: the bundled sentence pairs as one table."""

import time

from configs.schema import SampleConfig
from tasks.contract import Stage, StageContext, StageResult

BATCH_ROWS = 8192


def run(context: StageContext) -> StageResult:
    """Write `pairs.parquet`: source, target and alignment (Pharaoh, over `split_words`)."""
    from tasks.sample.table import write_pairs

    config: SampleConfig = context.config
    start = time.perf_counter()
    summary = write_pairs(config, context.out / "pairs.parquet", context.progress, BATCH_ROWS)
    seconds = time.perf_counter() - start
    measurement = {"pairs": config.sentences, "seconds": seconds, "pairs_per_second": config.sentences / seconds}
    return StageResult(summary=summary, measurements=[measurement])


STAGE = Stage(name="sample", version=1, config=SampleConfig, run=run)
