"""What a model card says that no artifact holds."""

from typing import Literal

from pydantic import Field

from configs.sections.base import CODE_PATTERN, NAME_PATTERN, Config
from configs.sections.report import ReportConfig


class CardSource(Config):
    """A text that the model was made with."""

    corpus: str = Field(min_length=1, description="Id of the node whose text it is.")
    name: str = Field(pattern=NAME_PATTERN, description="Name of the source in that corpus.")
    kind: Literal["file", "hub", "sample"] = Field(description="Where it comes from.")
    dataset: str | None = Field(default=None, description="Data set on the Hugging Face hub.")
    subset: str | None = Field(default=None, description="Configuration of that data set.")
    license: str | None = Field(default=None, description="Its licence; null: not known.")
    homepage: str | None = Field(default=None, description="Its web page.")


class CardModel(Config):
    """A model that the model was made from."""

    name: str = Field(pattern=NAME_PATTERN, description="Its name.")
    repository: str | None = Field(default=None, description="Its id on the Hugging Face hub.")
    license: str | None = Field(default=None, description="Its licence; null: not known.")
    homepage: str | None = Field(default=None, description="Its web page.")


class CardConfig(ReportConfig):
    """What a model card says of a run, and the nodes it tells about, in order."""

    name: str = Field(min_length=1, description="Name of the model that the card is of.")
    source_language: str = Field(pattern=CODE_PATTERN, description="Language of the bitext's source side.")
    source: CardModel = Field(description="The source model.")
    helper: CardModel | None = Field(
        default=None, description="The model whose tokenizer or embeddings were taken; null: none."
    )
    evaluated: str | None = Field(default=None, description="Id of the node that evaluated the model.")
    sources: tuple[CardSource, ...] = Field(default=(), description="The texts that it was made with.")
