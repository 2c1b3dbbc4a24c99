"""The model with new embeddings, before training."""

from typing import Literal

from pydantic import Field

from configs.sections.base import Config


class InitialModelConfig(Config):
    """The source model with new embeddings."""

    dtype: Literal["source", "float32", "bfloat16"] = Field(
        default="source", description="Number format of the saved weights; 'source' keeps the source model's."
    )
    norms: Literal["keep", "match"] = Field(
        default="keep",
        description="Lengths of the rows that are no copies: as the mapping makes them ('keep'), or scaled to the "
        "distribution of the source rows' lengths ('match').",
    )
    pad_to_multiple: Literal[64] | None = Field(
        default=None,
        description="Fill the tables up to a multiple of 64 rows (faster on GPUs). The rows added are means of the "
        "tokens' rows, and generation is told to suppress them.",
    )


class EmbeddingsConfig(Config):
    """The new embedding tables beside the old ones, to look at."""

    anchors: int = Field(
        default=128,
        ge=1,
        description="Anchor tokens of each kind (start of a word, inside a word) of the similarity of two tables.",
    )
    tokens: int = Field(default=1000, ge=1, description="New tokens, most frequent first, whose neighbours are listed.")
    neighbours: int = Field(default=5, ge=1, le=100, description="Nearest source tokens of each.")
    points: int = Field(default=400, ge=2, le=2000, description="Tokens of each vocabulary in the picture.")
    seed: int = Field(default=0, ge=0, description="Seed of the anchors and of the tokens in the picture.")
