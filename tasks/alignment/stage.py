"""Stage `alignment`: word alignment of the bitext, and counts of word pairs."""

from configs.schema import AlignmentConfig
from tasks.contract import Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Write source_units, target_units, word_pairs, iterations and links (all .parquet).

    Raises:
        InputError: no pair can be aligned, no tokenizer can be loaded, or the aligner cannot do what is asked.
    """
    from tasks.alignment.align_bitext import align_bitext

    return align_bitext(context)


STAGE = Stage(name="alignment", version=1, config=AlignmentConfig, run=run, isolated=True)
