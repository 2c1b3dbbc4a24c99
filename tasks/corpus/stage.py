"""The stage `corpus`: monolingual text, cleaned, deduplicated, sampled and split."""

from configs.schema import CorpusConfig
from tasks.contract import Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Write train/validation/test.parquet (text, corpus), rejections.parquet and rejection_examples.parquet.

    Raises:
        InputError: a source cannot be read, or nothing is left to train on.
        OSError: a hub or the network failed.
    """
    from tasks.corpus.build import build

    return build(context)


STAGE = Stage(name="corpus", version=1, config=CorpusConfig, run=run, isolated=True, retries=2)
