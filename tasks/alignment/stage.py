"""Stage `alignment`: word alignment of the bitext, and counts of word pairs."""

from configs.schema import AlignmentConfig
from tasks.contract import Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Write source_units, target_units, links, word_pairs, corpora, iterations and the diagnostics (all .parquet).

    Raises:
        InputError: no pair can be aligned, no tokenizer can be loaded, or the aligner cannot do what is asked.
    """
    from tasks.alignment.align_bitext import align_bitext

    return align_bitext(context)


# Tokenizers need no torch, which takes transformers seconds to load.
WITHOUT_TORCH = {"USE_TORCH": "0", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1"}
STAGE = Stage(name="alignment", version=2, config=AlignmentConfig, run=run, isolated=True, environment=WITHOUT_TORCH)
