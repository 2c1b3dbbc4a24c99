"""What every model of the chain is measured on."""

from typing import Literal

from pydantic import Field

from configs.sections.base import NOT_IN_KEY, Config


class EvaluationConfig(Config):
    """What every model of the chain is measured on."""

    split: Literal["validation", "test"] = Field(default="test", description="Split of the corpus measured.")
    max_sentences: int = Field(
        default=2000, gt=0, description="At most this many sentences, first in the split's order."
    )
    window: int = Field(default=512, ge=8, description="Longest context in tokens; longer text is cut into windows.")
    batch_size: int = Field(
        default=16, ge=1, description="Windows in a forward pass; in the key: it may change the last digits."
    )
    precision: Literal["float32", "source"] = Field(
        default="float32",
        description="Number format of the weights: 'float32' gives the same answer on every device; 'source' keeps the "
        "format they are saved in (half the memory of a bfloat16 model).",
    )
    generation_tokens: int = Field(
        default=64, ge=0, description="Tokens generated per prompt for the speed; 0 skips it."
    )
    generation_prompts: int = Field(default=8, ge=1, description="Prompts generated from for the speed.")
    threads: int = Field(default=0, ge=0, description="CPU threads; 0 means all.", json_schema_extra=NOT_IN_KEY)
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Where it runs.", json_schema_extra=NOT_IN_KEY
    )
