"""Where text comes from, and what of it is kept."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from configs.sections.base import NAME_PATTERN, NOT_IN_KEY, Config, InputPath, RelativePath, Share

Split = Literal["train", "validation", "test"]
LICENCE_PATTERN = r"^[a-z0-9][a-z0-9.-]*$"
WEB_PATTERN = r"^https?://[^\s()<>]+$"


class Described(Config):
    """Where something may be looked up, and under which licence it is; for model cards."""

    license: str | None = Field(
        default=None,
        pattern=LICENCE_PATTERN,
        description="Its licence as the Hugging Face hub writes it, for instance 'cc-by-4.0'; null: not known.",
        json_schema_extra=NOT_IN_KEY,
    )
    homepage: str | None = Field(
        default=None, pattern=WEB_PATTERN, description="Its web page.", json_schema_extra=NOT_IN_KEY
    )


class FileSource(Described):
    """Local text: one file, or a pair of files for parallel text (Moses)."""

    kind: Literal["file"] = "file"
    name: str = Field(pattern=NAME_PATTERN, description="Name of this source in tables and reports.")
    path: RelativePath = Field(
        description="File relative to the data root; plain, .gz or .zst. Its content is in the key, its path is not.",
        json_schema_extra=NOT_IN_KEY,
    )
    target_path: InputPath = Field(
        default=None,
        description="Second file of a Moses pair: line n is the translation of line n of `path`.",
        json_schema_extra=NOT_IN_KEY,
    )
    format: Literal["txt", "jsonl", "parquet", "tsv", "moses"] = Field(description="How the file is read.")
    text_column: str | int = Field(
        default="text", description="Monolingual: key or column (name, or number counted from 0) that holds the text."
    )
    source_column: str | int = Field(default="src", description="Parallel: column of the source language's text.")
    target_column: str | int = Field(default="tgt", description="Parallel: column of the target language's text.")
    header: bool = Field(default=True, description="TSV: the first line names the columns.")
    split: Split | None = Field(
        default=None, description="Put all of this source into one split; otherwise a hash of the text decides."
    )

    @model_validator(mode="after")
    def _moses_has_two_files(self) -> "FileSource":
        if (self.format == "moses") != (self.target_path is not None):
            raise ValueError(f"source {self.name!r}: format 'moses' and target_path belong together")
        return self


class HubSource(Described):
    """A Hugging Face data set, streamed."""

    kind: Literal["hub"] = "hub"
    name: str = Field(pattern=NAME_PATTERN, description="Name of this source in tables and reports.")
    dataset: str = Field(description="Data set id on the Hugging Face hub, for instance 'oscar-corpus/OSCAR-2301'.")
    config: str | None = Field(default=None, description="Configuration (subset) of the data set.")
    hub_split: str = Field(default="train", description="Split of the data set on the hub.")
    revision: str = Field(default="main", description="Commit, tag or branch; resolved to a commit, which is recorded.")
    text_column: str = Field(
        default="text", description="Monolingual: column of the text; 'a.b' looks inside a struct."
    )
    source_column: str = Field(default="translation.en", description="Parallel: column of the source language's text.")
    target_column: str = Field(default="", description="Parallel: column of the target language's text.")
    limit: int | None = Field(default=None, gt=0, description="Read at most this many rows.")
    trust_remote_code: bool = Field(
        default=False, description="Run the data set's own Python code. Off unless you must."
    )
    split: Split | None = Field(default=None, description="Put all of this source into one split.")


class SampleSource(Described):
    """The bundled English-Esperanto sentence generator."""

    kind: Literal["sample"] = "sample"
    name: str = Field(default="sample", pattern=NAME_PATTERN, description="Name of this source in tables and reports.")
    side: Literal["source", "target", "both"] = Field(
        description="English ('source'), Esperanto ('target'), or the sentence pairs ('both')."
    )
    sentences: int = Field(gt=0, description="Sentence pairs to generate.")
    seed: int = Field(default=0, ge=0, description="Seed of the generator.")
    split: Split | None = Field(default=None, description="Put all of this source into one split.")


class SampleConfig(Config):
    """The bundled English-Esperanto sentence pairs, as one artifact."""

    sentences: int = Field(gt=0, description="Sentence pairs to generate.")
    seed: int = Field(default=0, ge=0, description="Seed of the generator.")


Source = Annotated[FileSource | HubSource | SampleSource, Field(discriminator="kind")]


class Budget(Config):
    """How much text is kept; the sample depends on the text and the seed, not on the order of the input."""

    sentences: int | None = Field(
        default=None, gt=0, description="At most this many sentences (or pairs) of training text."
    )
    bytes: int | None = Field(default=None, gt=0, description="At most this many UTF-8 bytes of training text.")


class CorpusConfig(Config):
    """Monolingual text: what is read, kept and split."""

    sources: tuple[Source, ...] = Field(min_length=1, description="Where the text comes from.")
    scripts: tuple[str, ...] = Field(
        default=(), description="Unicode scripts the language is written in, for instance ['Latin']; empty: no check."
    )
    min_script_share: Share = Field(
        default=0.5, description="Least share of a sentence's letters that are in `scripts`."
    )
    min_characters: int = Field(default=1, ge=1, description="Shortest text kept, in characters.")
    max_characters: int = Field(default=10_000, ge=1, description="Longest text kept, in characters.")
    budget: Budget = Field(default=Budget(), description="How much training text is kept.")
    validation_share: Share = Field(default=0.01, description="Share of distinct texts put into the validation split.")
    test_share: Share = Field(default=0.01, description="Share of distinct texts put into the test split.")
    seed: int = Field(default=0, ge=0, description="Seed of the sample and of the split.")
    memory_mib: int = Field(default=512, ge=64, description="Working memory in MiB.", json_schema_extra=NOT_IN_KEY)

    @model_validator(mode="after")
    def _shares_leave_training_text(self) -> "CorpusConfig":
        if self.validation_share + self.test_share >= 1.0:
            raise ValueError("validation_share + test_share must be less than 1: nothing would be left to train on")
        if self.min_characters > self.max_characters:
            raise ValueError(f"min_characters {self.min_characters} is more than max_characters {self.max_characters}")
        names = [source.name for source in self.sources]
        if len(set(names)) != len(names):
            raise ValueError(f"source names must differ, got {names}")
        return self


class BitextConfig(CorpusConfig):
    """Parallel text: the source language's side and the target language's side, kept in step."""

    source_scripts: tuple[str, ...] = Field(
        default=(), description="Unicode scripts of the source side; `scripts` holds those of the target side."
    )
    max_length_ratio: float = Field(
        default=9.0, ge=1.0, description="Largest ratio of the two sides' lengths in characters (longer / shorter)."
    )
