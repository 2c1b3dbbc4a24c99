"""The pretraining of a small source model."""

from pydantic import Field

from configs.sections.base import Config
from configs.sections.optimization import OptimizationConfig


class ArchitectureConfig(Config):
    """Shape of a Llama model built from nothing."""

    hidden_size: int = Field(default=256, ge=8, description="Width of the hidden states.")
    intermediate_size: int = Field(default=704, ge=8, description="Width of the feed-forward layers.")
    layers: int = Field(default=4, ge=1, description="Decoder layers.")
    heads: int = Field(default=4, ge=1, description="Attention heads.")
    key_value_heads: int = Field(default=4, ge=1, description="Key-value heads.")
    max_positions: int = Field(default=1024, ge=8, description="Longest sequence in tokens.")
    tied: bool = Field(default=False, description="The LM head shares the input embeddings.")


class PretrainConfig(OptimizationConfig):
    """Pretraining of a small source model."""

    architecture: ArchitectureConfig = Field(default=ArchitectureConfig(), description="Shape of the model.")
    steps: int = Field(ge=1, description="Optimizer steps.")
