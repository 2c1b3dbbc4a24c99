"""Random initialisation: new rows drawn like old ones, special tokens and (by choice) shared tokens kept."""

from tasks.embeddings.copied_rows import assembled, copied_rows
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.token_mapping import TokenMapping


def build(given: Ingredients) -> TokenMapping:
    """Special tokens one to one; with `copy_shared`, tokens of the same text too; all other rows uncovered.

    Uncovered rows are drawn when the mapping is applied, from N(mean, standard deviation) of the source table in each
    dimension, with `config.seed`.
    """
    copied = copied_rows(given.target, given.source)
    if not given.config.copy_shared:
        copied = copied.without_shared()
    return assembled(copied, [], len(given.source), "random")


METHOD = Initialiser(
    name="random", build=build, paper="baseline of trans-tokenization (Remy et al. 2024) and SAVA (2025)"
)
