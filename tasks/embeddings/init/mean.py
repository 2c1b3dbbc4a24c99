"""Mean initialisation (fast vocabulary transfer, Gee et al. 2022): a new token is the mean of its old pieces."""

from tasks.embeddings.copied_rows import OwnRows, completed, copied_rows, pieces_of
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.token_mapping import TokenMapping


def build(given: Ingredients) -> TokenMapping:
    """Special tokens one to one, shared tokens copied, all others the mean of the source tokenizer's pieces.

    The pieces are those of the token's text with its word start; a token that holds part of a character takes the
    source's byte tokens. A token without pieces takes the source's unknown token, or stays uncovered where the source
    has none.

    Differs from the published code, which cuts the vocabulary's own string: " house" of a byte-level vocabulary as the
    text "Ġhouse", a token inside a word as if it started one.
    """
    copied = copied_rows(given.target, given.source)
    rows = copied.rest[~given.target.special[copied.rest]]
    return completed(given, copied, [OwnRows("mean", rows, pieces_of(given, rows))])


METHOD = Initialiser(
    name="mean", build=build, paper="FVT, Gee et al. 2022; Mean in low-resource vocabulary expansion 2024"
)
