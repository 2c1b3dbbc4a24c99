"""The stage `bitext`: parallel text, cleaned, deduplicated, sampled and split, its sides kept in step."""

from configs.schema import BitextConfig
from tasks.contract import Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Write train/validation/test.parquet (source, target, corpus), rejections.parquet and rejection_examples.parquet.

    The split of a pair is that of its target side's text: with the seed and shares of `corpus`, a sentence held out
    there is held out here.

    Raises:
        InputError: a source cannot be read, or nothing is left to train on.
        OSError: a hub or the network failed.
    """
    from tasks.corpus.build import build

    return build(context)


STAGE = Stage(name="bitext", version=1, config=BitextConfig, run=run, isolated=True, retries=2)
