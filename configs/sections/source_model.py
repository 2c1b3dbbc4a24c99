"""Source models and helper models: local, on the hub, or built here."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from configs.sections.base import CODE_PATTERN, NAME_PATTERN
from configs.sections.pretraining import PretrainConfig
from configs.sections.text import CorpusConfig, Described
from configs.sections.tokenizer import TokenizerConfig


class LocalModel(Described):
    """A source model in a folder."""

    kind: Literal["local"] = "local"
    name: str = Field(pattern=NAME_PATTERN, description="Name of the model in tables and reports.")
    path: str = Field(description="Folder with config.json, safetensors weights and a tokenizer.")
    overrides: dict[str, Any] = Field(default_factory=dict, description="Recipe values that this model changes.")


class HubModel(Described):
    """A source model on the Hugging Face hub."""

    kind: Literal["hub"] = "hub"
    name: str = Field(pattern=NAME_PATTERN, description="Name of the model in tables and reports.")
    repository: str = Field(description="Model id on the hub, for instance 'mistralai/Mistral-7B-v0.1'.")
    revision: str = Field(default="main", description="Commit, tag or branch; resolved to a commit, which is recorded.")
    overrides: dict[str, Any] = Field(default_factory=dict, description="Recipe values that this model changes.")


class BuiltModel(Described):
    """A source model pretrained here, in cached stages of its own."""

    kind: Literal["built"] = "built"
    name: str = Field(pattern=NAME_PATTERN, description="Name of the model in tables and reports.")
    language: str = Field(default="en", pattern=CODE_PATTERN, description="Language of the model.")
    corpus: CorpusConfig = Field(description="Text it is trained on.")
    tokenizer: TokenizerConfig = Field(description="Its tokenizer.")
    pretraining: PretrainConfig = Field(description="Its shape and training.")
    overrides: dict[str, Any] = Field(default_factory=dict, description="Recipe values that this model changes.")

    @model_validator(mode="after")
    def _tokenizer_is_trained_on_its_corpus(self) -> "BuiltModel":
        if self.tokenizer.strategy != "train" or self.tokenizer.group:
            raise ValueError("tokenizer of a built model: strategy must be 'train' and group empty")
        return self


ModelConfig = Annotated[LocalModel | HubModel | BuiltModel, Field(discriminator="kind")]
HelperModel = Annotated[LocalModel | HubModel, Field(discriminator="kind")]
