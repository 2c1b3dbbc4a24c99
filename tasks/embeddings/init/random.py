"""Random initialisation: rows drawn like old ones, special tokens kept."""

from tasks.embeddings.copied_rows import RANDOM, assembled, copied_rows
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.token_mapping import TokenMapping


def build(given: Ingredients) -> TokenMapping:
    """Special tokens one to one, all other rows uncovered.

    Uncovered rows are drawn when the mapping is applied, from N(mean, standard deviation) of the source table in each
    dimension, with `config.seed`.
    """
    copied = copied_rows(given.target, given.source).without_shared()
    return assembled(copied, [], len(given.source), RANDOM)


METHOD = Initialiser(
    name="random", build=build, paper="baseline of trans-tokenization (Remy et al. 2024) and SAVA (2025)"
)
