"""Stage `alignment`: word alignment of the bitext, and counts of word pairs."""

from configs.schema import AlignmentConfig
from tasks.contract import WITHOUT_TORCH, Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Write source_units, target_units, links, word_pairs, corpora, iterations and the diagnostics (all .parquet).

    Raises:
        InputError: no pair can be aligned, no tokenizer can be loaded, or the aligner cannot do what is asked.
    """
    from tasks.alignment.align_bitext import align_bitext

    return align_bitext(context)


STAGE = Stage(name="alignment", version=2, config=AlignmentConfig, run=run, isolated=True, environment=WITHOUT_TORCH)
