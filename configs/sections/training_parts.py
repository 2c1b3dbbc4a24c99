"""Parts of a training phase: what is added to the model, which texts are mixed, what is scored on the way."""

from typing import Literal

from pydantic import Field, model_validator

from configs.sections.base import Config, Share


class LoraConfig(Config):
    """Low-rank adaptation of the decoder layers (Hu et al. 2022)."""

    rank: int = Field(default=8, ge=1, description="Rank of the matrices added to each linear layer.")
    alpha: float = Field(default=16.0, gt=0, description="The added product is scaled by alpha / rank.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout on what the added matrices read.")


class AdapterConfig(Config):
    """Vocabulary adapters over a frozen model (Han et al. 2025)."""

    kind: Literal["dense", "sparse"] = Field(
        default="sparse", description="'dense': every source token has a weight; 'sparse': those of the mapping only."
    )
    auxiliary: float = Field(
        default=0.0, ge=0, description="Weight of the loss that keeps rows of shared tokens where they began."
    )
    nearest: int = Field(
        default=0, ge=0, description="'sparse': so many most similar source tokens are added to each token's row."
    )
    draws: int = Field(
        default=16, ge=0, description="'sparse': random source tokens of a row that the mapping leaves empty."
    )

    @model_validator(mode="after")
    def _support_is_of_a_sparse_adapter(self) -> "AdapterConfig":
        if self.kind == "dense" and self.nearest:
            raise ValueError("nearest adds to the support of a sparse adapter; leave it out, or set kind to sparse")
        return self


class ValidationConfig(Config):
    """Held-out text scored while a model is trained; the weights of the best score are those that are kept."""

    every: int = Field(ge=1, description="Steps between two scores; the first step and the last are scored too.")
    sentences: int = Field(
        default=500, ge=1, description="At most this many sentences of the validation split, the first ones."
    )
    patience: int | None = Field(
        default=None, ge=1, description="Training ends after so many scores in a row without a better one; null: never."
    )


class ProcessesConfig(Config):
    """Several processes that train one model; a launcher (torchrun, `accelerate launch`) says itself how many."""

    count: int | Literal["gpus"] = Field(
        default=1, description="Processes on this machine; 'gpus': one for each of its GPUs."
    )
    sharding: Literal["none", "full"] = Field(
        default="none",
        description="'none': every process has the whole model (DDP); 'full': every process has a part of each weight "
        "and of the optimizer's state, and gets the others while it needs them (FSDP).",
    )

    @model_validator(mode="after")
    def _there_is_one(self) -> "ProcessesConfig":
        if self.count != "gpus" and self.count < 1:
            raise ValueError(f"count is {self.count}: give 1 or more, or 'gpus'")
        return self


class MixtureConfig(Config):
    """Several texts in one training. Names: 'target', 'source' (the source model's language), or language codes."""

    shares: dict[str, float] | None = Field(
        default=None, description="Share of the tokens of each text; 'target' among them. Scaled to sum to 1."
    )
    temperature: float | None = Field(
        default=None,
        gt=0,
        description="Shares are proportional to size^(1/T) over 'target', the languages of tokenizer.group and those "
        "in `fixed`: 1 keeps the proportions, a large T makes all equal.",
    )
    fixed: dict[str, Share] = Field(
        default_factory=dict, description="With `temperature`: shares that do not depend on sizes."
    )

    @model_validator(mode="after")
    def _one_rule(self) -> "MixtureConfig":
        if (self.shares is None) == (self.temperature is None):
            raise ValueError("give either shares (of each text) or temperature (shares from the sizes)")
        if self.fixed and self.temperature is None:
            raise ValueError("fixed goes with temperature; with shares, put the text there")
        if self.shares is not None and ("target" not in self.shares or not min(self.shares.values()) > 0):
            raise ValueError(
                f"shares must be above 0 and name 'target', the text of the target language: {self.shares}"
            )
        total = sum(self.fixed.values())
        if self.fixed and not (min(self.fixed.values()) > 0 and (total < 1 or "target" in self.fixed)):
            raise ValueError(f"fixed shares must be above 0 and their sum below 1, not {total:g}: the rest needs some")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The texts that it names."""
        return tuple(self.shares or self.fixed)
