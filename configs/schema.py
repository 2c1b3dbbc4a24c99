"""The configuration of a run, as Pydantic models: frozen, unknown keys refused, units in the descriptions.

A run is *language x model x recipe* plus overrides. The three YAML files are read into `LanguageConfig`, `ModelConfig`
and a recipe tree; merged, they become one `RunConfig`, whose parts are handed to the stages. A stage's key is made
from exactly the part it reads, so a value that a stage does not read can change without running that stage again.

Fields marked with `NOT_IN_KEY` steer how a stage works (threads, memory, log intervals) and never what it answers;
`key_fields` leaves them out of the key.
"""

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

NOT_IN_KEY: dict[str, Any] = {"not_in_key": True}
CODE_PATTERN = r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Config(BaseModel):
    """Base of every configuration model: immutable, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)


def key_fields(config: BaseModel) -> dict[str, Any]:
    """The values of `config` that decide its stage's answer, as plain JSON types, nested models included.

    Fields declared with `json_schema_extra=NOT_IN_KEY` are left out.
    """
    return {
        name: _key_value(getattr(config, name))
        for name, field in type(config).model_fields.items()
        if field.json_schema_extra != NOT_IN_KEY
    }


def _key_value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return key_fields(value)
    if isinstance(value, (list, tuple)):
        return [_key_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _key_value(item) for key, item in value.items()}
    return value


# ---------------------------------------------------------------------------------------------------------------- data


def _relative_path(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not path.strip():
        raise ValueError(
            f"{path!r} must be a relative path inside the data root, without '..'; "
            "set the data root with --data-root or LANGADAPT_DATA_ROOT"
        )
    return path


Split = Literal["train", "validation", "test"]


class FileSource(Config):
    """Local text: one file, or a pair of files for parallel text (Moses)."""

    kind: Literal["file"] = "file"
    name: str = Field(pattern=NAME_PATTERN, description="Name of this source in tables and reports.")
    path: str = Field(
        description="File relative to the data root; plain, .gz or .zst. Its content is in the key, its path is not.",
        json_schema_extra=NOT_IN_KEY,
    )
    target_path: str | None = Field(
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

    _inside = field_validator("path")(_relative_path)

    @field_validator("target_path")
    @classmethod
    def _target_inside(cls, value: str | None) -> str | None:
        return None if value is None else _relative_path(value)

    @model_validator(mode="after")
    def _moses_has_two_files(self) -> "FileSource":
        if (self.format == "moses") != (self.target_path is not None):
            raise ValueError(f"source {self.name!r}: format 'moses' and target_path belong together")
        return self


class HubSource(Config):
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


class SampleSource(Config):
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


# ----------------------------------------------------------------------------------------------------------- tokenizer


Strategy = Literal["train", "expand", "existing"]


class TokenizerConfig(Config):
    """The target vocabulary: trained on text, the source's with new tokens, or a helper model's.

    A strategy refuses the settings that it does not read (`unused_settings`).
    """

    strategy: Strategy = Field(
        default="train",
        description="'train': a new vocabulary from the corpus; 'expand': the source vocabulary with the most frequent "
        "new tokens of an auxiliary one; 'existing': the tokenizer of the `helper` model.",
    )
    algorithm: Literal["bpe", "unigram", "byte-bpe"] = Field(
        default="bpe",
        description="'train': SentencePiece BPE or unigram with byte fallback, or byte-level BPE. 'expand' follows the "
        "source tokenizer.",
    )
    vocab_size: int = Field(
        default=32_000, ge=300, description="'train': tokens in the vocabulary, bytes and special tokens included."
    )
    character_coverage: float = Field(
        default=1.0,
        gt=0.9,
        le=1.0,
        description="'bpe' and 'unigram': share of the text's characters that get a token; the rest become bytes.",
    )
    split_digits: bool = Field(default=True, description="'train': every digit is its own token.")
    group: tuple[Annotated[str, Field(pattern=CODE_PATTERN)], ...] = Field(
        default=(),
        description="Codes of further languages whose corpora the vocabulary is trained on too; the corpora are in the "
        "key, the codes by the names of the inputs.",
        json_schema_extra=NOT_IN_KEY,
    )
    max_tokens_per_language: int | None = Field(
        default=None,
        gt=0,
        description="Train on at most this many words of each language: white-space words, but each character of "
        "a script written without spaces (Han, kana, Thai, Lao, Khmer, Myanmar, Tibetan) counts as one.",
    )
    max_sentences: int = Field(
        default=1_000_000, gt=0, description="Train on at most this many sentences a language, sampled with the seed."
    )
    new_tokens: int = Field(default=100, ge=1, description="'expand': tokens added to the source vocabulary.")
    auxiliary_size: int = Field(
        default=50_000, ge=300, description="'expand': tokens of the auxiliary vocabulary that new ones are taken from."
    )
    seed: int = Field(default=0, ge=0, description="Seed of the sample.")
    threads: int = Field(default=0, ge=0, description="Threads; 0 means all.", json_schema_extra=NOT_IN_KEY)

    @model_validator(mode="after")
    def _every_setting_is_read(self) -> "TokenizerConfig":
        unused = unused_settings(self.strategy, self.algorithm)
        faults = [name for name in sorted(unused) if getattr(self, name) != type(self).model_fields[name].default]
        if faults:
            kind = f"strategy {self.strategy!r}"
            kind += f" with algorithm {self.algorithm!r}" if self.strategy == "train" else ""
            said = ", ".join(f"{name} (set to {getattr(self, name)!r})" for name in faults)
            raise ValueError(f"{kind} does not read {said}; take it out")
        if len(set(self.group)) != len(self.group):
            raise ValueError(f"group names a language twice: {list(self.group)}")
        return self


def unused_settings(strategy: str, algorithm: str) -> frozenset[str]:
    """Names of the settings of `TokenizerConfig` that a strategy (for 'train', with its algorithm) does not read."""
    training = {"algorithm", "vocab_size", "character_coverage", "split_digits"}
    expansion = {"new_tokens", "auxiliary_size"}
    sampling = {"group", "max_tokens_per_language", "max_sentences", "seed"}
    unused = {
        "train": expansion | ({"character_coverage"} if algorithm == "byte-bpe" else set()),
        "expand": training,
        "existing": training | expansion | sampling,
    }
    return frozenset(unused.get(strategy, set()))


class FertilityConfig(Config):
    """Comparison of the source and the target tokenizer on held-out text."""

    max_sentences: int = Field(
        default=5000, gt=0, description="Validation sentences measured, first in the split's order."
    )


# ----------------------------------------------------------------------------------------------------------- alignment


Aligner = Literal["builtin", "builtin-plus", "fast_align", "eflomal", "dictionary"]
Symmetrization = Literal[
    "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and", "forward", "reverse"
]


class AlignmentConfig(Config):
    """Word alignment of the parallel text, and how its counts are made."""

    aligner: Aligner = Field(
        default="builtin",
        description="'builtin' and 'builtin-plus' are this package's own; 'fast_align' and 'eflomal' run those "
        "programs; 'dictionary' links the words that the word list `dictionary` translates.",
    )
    model: Literal["diagonal", "model1"] = Field(
        default="diagonal", description="Dyer et al. 2013 (diagonal prior), or plain IBM Model 1."
    )
    unit: Literal["words", "tokens"] = Field(
        default="words", description="Align words rebuilt from tokens, or tokens (ideographic scripts)."
    )
    iterations: int = Field(default=5, ge=1, le=100, description="EM iterations.")
    variational_bayes: bool = Field(default=False, description="Dirichlet prior on the translation table.")
    alpha: float = Field(default=0.01, gt=0, description="Concentration of the Dirichlet prior.")
    p_null: float = Field(default=0.08, ge=0, lt=1, description="Probability that a word has no counterpart.")
    optimize_tension: bool = Field(default=True, description="Fit the diagonal prior's tension.")
    tension: float = Field(default=4.0, ge=1e-6, le=500, description="Initial tension of the diagonal prior.")
    lowercase: bool = Field(default=False, description="Align lower-cased words (counts are kept by cased token).")
    symmetrization: Symmetrization = Field(
        default="intersection", description="How the two directions' links are joined."
    )
    counts: Literal["expected", "links"] = Field(
        default="links",
        description="'expected': posterior counts (own aligners only); 'links': links of the symmetrised alignment.",
    )
    max_words: int = Field(
        default=200, ge=1, le=32767, description="Pairs with a longer side (in units) are left out and counted."
    )
    dictionary: str | None = Field(
        default=None,
        description="'dictionary': word list, one `source<TAB>target` entry a line, below the data root; plain, .gz or "
        ".zst. Its content is in the key, its path is not.",
        json_schema_extra=NOT_IN_KEY,
    )
    priors: str | None = Field(
        default=None,
        description="'eflomal': file of priors made by eflomal-makepriors, below the data root. Its content is in the "
        "key, its path is not.",
        json_schema_extra=NOT_IN_KEY,
    )
    memory_gib: float | None = Field(
        default=None,
        gt=0,
        description="Memory the aligner may use, in GiB; None: half of what the machine has.",
        json_schema_extra=NOT_IN_KEY,
    )
    threads: int = Field(default=0, ge=0, description="CPU threads; 0 means all.", json_schema_extra=NOT_IN_KEY)


class CountsConfig(Config):
    """From counts of word pairs to counts of token pairs."""

    min_count: float = Field(default=10.0, ge=0, description="Word pairs with a smaller count are dropped.")
    direction: Literal["forward", "reverse", "mean"] = Field(
        default="forward",
        description="Which expected counts: of target given source, source given target, or their mean.",
    )
    corpus_weights: dict[str, float] = Field(
        default_factory=dict, description="Factor of each parallel corpus's counts, by its name; 1 where not named."
    )


# ------------------------------------------------------------------------------------------------------------- mapping


Method = Literal[
    "trans-tokenization", "mean", "random", "avg", "merge", "align", "focus", "wechsel", "clp", "sava", "ofa", "vocadt",
    "blend",
]  # fmt: skip
Need = Literal["counts", "corpus", "source_model", "helper", "alignment", "bitext"]
# What each initialiser reads beside the two tokenizers; kept here so that a plan is made without loading any of them.
METHOD_NEEDS: dict[str, tuple[Need, ...]] = {
    "random": (),
    "mean": (),
    "avg": ("source_model",),
    "merge": (),
    "align": ("corpus",),
    "clp": ("source_model", "helper"),
    "sava": ("source_model", "helper"),
    "trans-tokenization": ("counts",),
    "focus": ("corpus",),
    "wechsel": ("corpus", "bitext", "alignment"),
    "vocadt": ("source_model",),
    "blend": (),
}


class MethodConfig(Config):
    """Base of the sections that hold the parameters of one initialiser."""

    @classmethod
    def holds_defaults(cls, value: Any) -> bool:
        """Whether `value` is this section with every parameter at its default."""
        try:
            return cls.model_validate(value) == cls()
        except ValidationError:
            return False

    def needs(self, usual: tuple[Need, ...]) -> tuple[Need, ...]:
        """What the initialiser reads with these parameters; `usual` is its line of `METHOD_NEEDS`."""
        return usual

    def files(self) -> dict[str, str]:
        """The local files that the initialiser reads: name -> path relative to the data root."""
        return {}


class AlignInitConfig(MethodConfig):
    """Align (low-resource vocabulary expansion 2024, section 4.3)."""

    max_sentences: int = Field(
        default=30_000, gt=0, description="Training sentences read, spread evenly over the corpus."
    )
    unseen: Literal["merge", "mean"] = Field(
        default="merge", description="The initialiser of new tokens that occur in none of them."
    )


class ClpConfig(MethodConfig):
    """CLP-Transfer (Ostendorff and Rehm 2023)."""

    negative: Literal["keep", "drop"] = Field(
        default="keep",
        description="Shared tokens with a negative cosine: kept with a negative weight, as published, or left out. Take "
        "'drop' where the helper's cosines nearly cancel out, which makes the new rows too long.",
    )


class SavaConfig(MethodConfig):
    """SAVA (Moroni et al. 2025, section 3.1 and appendix A)."""

    learning_rate: float = Field(default=1e-3, gt=0, description="Adam's learning rate.")
    steps: int = Field(default=1000, ge=1, description="Full-batch steps of Adam.")
    anchors: int | None = Field(
        default=None, gt=0, description="Fit on this many shared tokens, drawn with the seed; None: on all of them."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Where it is fitted.", json_schema_extra=NOT_IN_KEY
    )


def _optional_relative_path(path: str | None) -> str | None:
    return None if path is None else _relative_path(path)


_InputPath = Annotated[str | None, AfterValidator(_optional_relative_path)]


def _paths(**paths: str | None) -> dict[str, str]:
    return {name: path for name, path in paths.items() if path is not None}


class TransTokenizationConfig(MethodConfig):
    """Trans-tokenization (Remy et al. 2024): where its counts come from and which version turns them into a mapping."""

    compat: Literal["published"] | None = Field(
        default=None,
        description="'published': the mapping that the published code makes of the same expected counts (integers, "
        "p_max^4 pruning, chained smoothing); set alignment.model to model1, iterations to 6 and counts to expected.",
    )
    min_count: int = Field(default=10, ge=1, description="'published': word pairs with a smaller count are dropped.")
    dictionary: _InputPath = Field(
        default=None,
        description="Word list below the data root, one `source<TAB>target` entry a line, that stands in for parallel "
        "text: each entry counts once. Plain, .gz or .zst. Its content is in the key, its path is not.",
        json_schema_extra=NOT_IN_KEY,
    )
    translation_table: _InputPath = Field(
        default=None,
        description="'published': the aligner's table below the data root instead of an alignment made here, lines of "
        "`source<TAB>target<TAB>ln p(target|source)<TAB>count`, tokens of a word joined by an em dash.",
        json_schema_extra=NOT_IN_KEY,
    )
    weights: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict,
        description="Several source languages: weight of each one's mapping, by its code; 1 where not named.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> "TransTokenizationConfig":
        if self.translation_table is not None and self.compat is None:
            raise ValueError("mapping.trans_tokenization.translation_table is read with compat 'published' only")
        if self.dictionary is not None and self.compat is not None:
            raise ValueError("mapping.trans_tokenization: a dictionary has no published counts; remove compat")
        return self

    def needs(self, usual: tuple[Need, ...]) -> tuple[Need, ...]:
        """Counts; the alignment for the published code's; nothing where a file gives them."""
        if self.dictionary is not None or self.translation_table is not None:
            return ()
        return usual if self.compat is None else ("alignment",)

    def files(self) -> dict[str, str]:
        """The dictionary or the translation table."""
        return _paths(dictionary=self.dictionary, translation_table=self.translation_table)


class FastTextConfig(Config):
    """Training of fastText vectors (CBOW with character n-grams; Bojanowski et al. 2017)."""

    dimension: int = Field(default=300, ge=2, description="Dimensions.")
    epochs: int = Field(default=3, ge=1, description="Passes over the text.")
    window: int = Field(default=5, ge=1, description="Words on each side that are context.")
    negative: int = Field(default=10, ge=1, description="Negative samples of a word.")
    min_count: int = Field(default=10, ge=1, description="Words that occur less often have no vector of their own.")
    min_n: int = Field(default=3, ge=1, description="Shortest character n-gram.")
    max_n: int = Field(default=6, ge=1, description="Longest character n-gram.")
    buckets: int = Field(
        default=2_000_000, ge=1000, description="Rows that n-grams share by their hash; 4 bytes x dimension each."
    )


class FocusConfig(MethodConfig):
    """FOCUS (Dobler and de Melo 2023), with the values of low-resource vocabulary expansion 2024."""

    vectors: _InputPath = Field(
        default=None,
        description="Vectors of the target tokens below the data root, in word2vec's text format (plain, .gz, .zst), "
        "words being the tokenizer's own strings; none: trained on the corpus.",
        json_schema_extra=NOT_IN_KEY,
    )
    fasttext: FastTextConfig = Field(default=FastTextConfig(), description="Training of the vectors.")

    def needs(self, usual: tuple[Need, ...]) -> tuple[Need, ...]:
        """The corpus, unless vectors are given."""
        return usual if self.vectors is None else ()

    def files(self) -> dict[str, str]:
        """The vectors."""
        return _paths(vectors=self.vectors)


class WechselConfig(MethodConfig):
    """WECHSEL (Minixhofer et al. 2022)."""

    neighbours: int = Field(default=10, ge=1, description="Source tokens that a new token is made of.")
    temperature: float = Field(default=0.1, gt=0, description="Temperature of the softmax over their cosines.")
    subwords: Literal["ngrams", "words"] = Field(
        default="ngrams",
        description="A token's vector: from its character n-grams, where the word vectors have them, or the mean of "
        "the words that hold it, weighted by frequency.",
    )
    dictionary: _InputPath = Field(
        default=None,
        description="Word list below the data root, one `source<TAB>target` entry a line; none: derived from the "
        "alignment.",
        json_schema_extra=NOT_IN_KEY,
    )
    min_count: float = Field(
        default=10.0, ge=0, description="Dictionary derived from the alignment: least count of a pair of words."
    )
    source_vectors: _InputPath = Field(
        default=None,
        description="Word vectors of the source language below the data root: word2vec's text format, or fastText's "
        ".bin; none: trained on the source side of the parallel text.",
        json_schema_extra=NOT_IN_KEY,
    )
    target_vectors: _InputPath = Field(
        default=None,
        description="Word vectors of the target language; none: trained on the corpus.",
        json_schema_extra=NOT_IN_KEY,
    )
    fasttext: FastTextConfig = Field(default=FastTextConfig(), description="Training of the vectors.")

    def needs(self, usual: tuple[Need, ...]) -> tuple[Need, ...]:
        """What no file stands in for."""
        given = {
            "alignment": self.dictionary is not None,
            "bitext": self.source_vectors is not None,
            "corpus": self.target_vectors is not None,
        }
        return tuple(need for need in usual if not given.get(need, False))

    def files(self) -> dict[str, str]:
        """The dictionary and the word vectors."""
        return _paths(
            dictionary=self.dictionary, source_vectors=self.source_vectors, target_vectors=self.target_vectors
        )


class BlendPart(Config):
    """One initialiser of a blend."""

    method: Method = Field(description="The initialiser.")
    weight: float = Field(default=1.0, gt=0, description="Weight of its rows.")
    settings: dict[str, Any] = Field(default_factory=dict, description="What else its `mapping` section would hold.")

    def config(self, seed: int) -> "MappingConfig":
        """The configuration of this part alone."""
        return MappingConfig.model_validate({"seed": seed, **self.settings, "method": self.method})


class BlendConfig(MethodConfig):
    """A weighted mean of initialisers, row by row over those that cover the row."""

    parts: tuple[BlendPart, ...] = Field(
        default=(BlendPart(method="trans-tokenization"), BlendPart(method="mean")),
        min_length=1,
        description="The initialisers.",
    )

    @model_validator(mode="after")
    def _parts_can_be_read(self) -> "BlendConfig":
        if any(part.method == "blend" for part in self.parts):
            raise ValueError("mapping.blend.parts: a blend cannot hold a blend")
        for part in self.parts:
            part.config(seed=0)
        return self

    def needs(self, usual: tuple[Need, ...]) -> tuple[Need, ...]:
        """What any part needs."""
        return tuple(dict.fromkeys(need for part in self.parts for need in part.config(0).needs()))

    def files(self) -> dict[str, str]:
        """The files of all parts, names led by the part's number and a dot."""
        return {
            f"{number}.{name}": path
            for number, part in enumerate(self.parts)
            for name, path in part.config(0).files().items()
        }


class MappingConfig(Config):
    """How the rows of the new vocabulary are made from the old one (the initialiser)."""

    method: Method = Field(default="trans-tokenization", description="The initialiser.")
    smoothing: float = Field(
        default=1.0,
        ge=0,
        description="Trans-tokenization: count added to pairs that need no evidence (identical, digits).",
    )
    copy_shared: bool = Field(
        default=False, description="Random: tokens found in both vocabularies keep their rows instead of being drawn."
    )
    seed: int = Field(default=0, ge=0, description="Seed of the random rows, and of what else an initialiser draws.")
    align: AlignInitConfig | None = Field(default=None, description="Parameters of 'align'.")
    clp: ClpConfig | None = Field(default=None, description="Parameters of 'clp'.")
    sava: SavaConfig | None = Field(default=None, description="Parameters of 'sava'.")
    trans_tokenization: TransTokenizationConfig | None = Field(
        default=None, description="Parameters of 'trans-tokenization'."
    )
    focus: FocusConfig | None = Field(default=None, description="Parameters of 'focus'.")
    wechsel: WechselConfig | None = Field(default=None, description="Parameters of 'wechsel'.")
    blend: BlendConfig | None = Field(default=None, description="Parameters of 'blend'.")

    @model_validator(mode="before")
    @classmethod
    def _section_of_the_method(cls, data: Any) -> Any:
        """The method's own section is always there; one of another method is an error, unless it holds defaults."""
        if not isinstance(data, dict):
            return data
        own = str(data.get("method", "trans-tokenization")).replace("-", "_")
        sections = method_sections()
        kept = dict(data)
        for name, section in sections.items():
            value = data.get(name)
            if name == own or value is None:
                kept.update({} if name != own or value is not None else {name: {}})
            elif section.holds_defaults(value):
                kept[name] = None  # a recipe's values laid under another method
            else:
                raise ValueError(
                    f"mapping.{name} holds parameters of {name!r}, but mapping.method is "
                    f"{data.get('method', 'trans-tokenization')!r}; remove mapping.{name} or change the method"
                )
        return kept

    def section(self) -> MethodConfig | None:
        """The parameters of the method; None where it has none."""
        section = getattr(self, self.method.replace("-", "_"), None)
        return section if isinstance(section, MethodConfig) else None

    def needs(self) -> tuple[Need, ...]:
        """What the method reads beside the two tokenizers."""
        usual, section = METHOD_NEEDS.get(self.method, ()), self.section()
        return usual if section is None else section.needs(usual)

    def files(self) -> dict[str, str]:
        """The local files that the method reads: name -> path relative to the data root."""
        section = self.section()
        return {} if section is None else section.files()


def method_sections() -> dict[str, type[MethodConfig]]:
    """The sections of `MappingConfig` that hold one initialiser's parameters, by key."""
    kinds = {name: get_args(field.annotation) for name, field in MappingConfig.model_fields.items()}
    return {
        name: kind
        for name, parts in kinds.items()
        for kind in parts
        if isinstance(kind, type) and issubclass(kind, MethodConfig)
    }


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


# ------------------------------------------------------------------------------------------------------------ training

Trainable = Literal["embeddings", "embeddings+head", "bottom-top", "all"]
Schedule = Literal["constant", "linear", "cosine"]


class Phase(Config):
    """One training phase; a value left out is taken from the `training` section."""

    name: str = Field(pattern=NAME_PATTERN, description="Name of the phase in tables and reports.")
    trainable: Trainable = Field(
        description="'embeddings', 'embeddings+head', 'bottom-top' (embeddings, head and outer layers) or 'all'."
    )
    layers: int = Field(default=2, ge=1, description="'bottom-top': layers trained at each end.")
    share: float = Field(default=1.0, gt=0, description="Weight of this phase in dividing `training.steps`.")
    learning_rate: float | None = Field(default=None, gt=0, description="Peak learning rate of this phase.")
    schedule: Schedule | None = Field(default=None, description="Learning-rate schedule of this phase, after warm-up.")
    schedule_steps: int | None = Field(
        default=None, gt=0, description="Steps the schedule assumes (it may end early); None: the phase's own steps."
    )
    warmup_steps: int | None = Field(default=None, ge=0, description="Warm-up steps of this phase.")


class OptimizationConfig(Config):
    """What the training of a phase and the pretraining of a source model share."""

    sequence_length: int = Field(default=512, ge=8, description="Tokens in a packed sequence.")
    batch_size: int = Field(default=32, ge=1, description="Sequences in an optimizer step.")
    micro_batch_size: int = Field(default=8, ge=1, description="Sequences in a forward pass; the rest is accumulated.")
    learning_rate: float = Field(default=2e-5, gt=0, description="Peak learning rate.")
    schedule: Schedule = Field(default="constant", description="Learning-rate schedule after warm-up.")
    warmup_steps: int = Field(default=75, ge=0, description="Steps of linear warm-up from 0.")
    weight_decay: float = Field(default=0.0, ge=0, description="AdamW weight decay (not on norms).")
    adam_beta1: float = Field(default=0.9, ge=0, lt=1, description="AdamW beta 1.")
    adam_beta2: float = Field(default=0.999, ge=0, lt=1, description="AdamW beta 2.")
    max_gradient_norm: float = Field(default=1.0, gt=0, description="Gradients are clipped to this norm.")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="'auto': bfloat16 autocast on a GPU that has it, else float32."
    )
    seed: int = Field(default=0, ge=0, description="Seed of the order of the text and of initial weights.")
    log_every: int = Field(
        default=10, ge=1, description="Steps between progress reports.", json_schema_extra=NOT_IN_KEY
    )
    checkpoint_every: int = Field(
        default=200, ge=1, description="Steps between checkpoints.", json_schema_extra=NOT_IN_KEY
    )
    threads: int = Field(default=0, ge=0, description="CPU threads; 0 means all.", json_schema_extra=NOT_IN_KEY)
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Where it runs.", json_schema_extra=NOT_IN_KEY
    )


class PhaseConfig(OptimizationConfig):
    """One phase with everything filled in: what the training stage reads."""

    name: str = Field(pattern=NAME_PATTERN, description="Name of the phase.", json_schema_extra=NOT_IN_KEY)
    trainable: Trainable = Field(description="Which parameters are trained.")
    layers: int = Field(default=2, ge=1, description="'bottom-top': layers trained at each end.")
    steps: int = Field(ge=1, description="Optimizer steps.")
    schedule_steps: int | None = Field(default=None, gt=0, description="Steps the schedule assumes.")


class TrainingConfig(OptimizationConfig):
    """Training in phases; the phases share `steps` by their weights."""

    steps: int = Field(default=6500, ge=0, description="Optimizer steps over all phases; 0 trains nothing.")
    phases: tuple[Phase, ...] = Field(description="The phases, in order.")

    @model_validator(mode="after")
    def _schedules_are_long_enough(self) -> "TrainingConfig":
        for number, phase in enumerate(self.resolved()):
            if phase.schedule != "constant" and phase.schedule_steps is not None and phase.schedule_steps < phase.steps:
                raise ValueError(
                    f"phases.{number} ({phase.name}) has {phase.steps} steps and a schedule of {phase.schedule_steps}: "
                    "the learning rate would be 0 before the end; lower steps or raise schedule_steps"
                )
        return self

    def resolved(self) -> tuple[PhaseConfig, ...]:
        """The phases with every value filled in; steps are divided by largest remainder, at least 1 a phase."""
        if not self.phases or self.steps == 0:
            return ()
        total = sum(phase.share for phase in self.phases)
        exact = [self.steps * phase.share / total for phase in self.phases]
        steps = [int(value) for value in exact]
        order = sorted(range(len(exact)), key=lambda i: (steps[i] - exact[i], i))
        for i in order[: self.steps - sum(steps)]:
            steps[i] += 1
        base = {name: getattr(self, name) for name in OptimizationConfig.model_fields}
        resolved = []
        for phase, count in zip(self.phases, steps, strict=True):
            own = {
                name: getattr(phase, name)
                for name in ("learning_rate", "schedule", "warmup_steps")
                if getattr(phase, name) is not None
            }
            resolved.append(
                PhaseConfig(
                    **{**base, **own},
                    name=phase.name,
                    trainable=phase.trainable,
                    layers=phase.layers if phase.trainable == "bottom-top" else 2,
                    steps=max(1, count),
                    schedule_steps=phase.schedule_steps,
                )
            )
        return tuple(resolved)


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


# ---------------------------------------------------------------------------------------------------------- evaluation


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


# ------------------------------------------------------------------------------------------------------ what one writes


class LocalModel(Config):
    """A source model in a folder."""

    kind: Literal["local"] = "local"
    name: str = Field(pattern=NAME_PATTERN, description="Name of the model in tables and reports.")
    path: str = Field(description="Folder with config.json, safetensors weights and a tokenizer.")
    overrides: dict[str, Any] = Field(default_factory=dict, description="Recipe values that this model changes.")


class HubModel(Config):
    """A source model on the Hugging Face hub."""

    kind: Literal["hub"] = "hub"
    name: str = Field(pattern=NAME_PATTERN, description="Name of the model in tables and reports.")
    repository: str = Field(description="Model id on the hub, for instance 'mistralai/Mistral-7B-v0.1'.")
    revision: str = Field(default="main", description="Commit, tag or branch; resolved to a commit, which is recorded.")
    trust_remote_code: bool = Field(default=False, description="Run the model's own Python code. Off unless you must.")
    overrides: dict[str, Any] = Field(default_factory=dict, description="Recipe values that this model changes.")


class BuiltModel(Config):
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


class LanguageConfig(Config):
    """A target language and its text (configs/languages/<code>.yaml)."""

    code: str = Field(pattern=CODE_PATTERN, description="BCP 47 language code, for instance 'sw'.")
    name: str = Field(min_length=1, description="English name of the language.")
    source_language: str = Field(
        default="en", pattern=CODE_PATTERN, description="Language of the bitext's source side."
    )
    corpus: CorpusConfig = Field(description="Monolingual text.")
    bitext: BitextConfig | None = Field(default=None, description="Parallel text; trans-tokenization needs it.")
    helper: HelperModel | None = Field(
        default=None, description="A model of this language whose tokenizer or embeddings a method takes."
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict, description="Recipe values that this language changes (sizes that fit its data)."
    )


class Recipe(Config):
    """A method with its hyperparameters (configs/recipes/<name>.yaml)."""

    name: str = Field(pattern=NAME_PATTERN, description="Name of the recipe.")
    paper: str = Field(default="", description="Where the values come from.")
    tokenizer: TokenizerConfig = Field(description="The new vocabulary.")
    alignment: AlignmentConfig = Field(default=AlignmentConfig(), description="Word alignment.")
    counts: CountsConfig = Field(default=CountsConfig(), description="Token counts from word counts.")
    mapping: MappingConfig = Field(description="The initialiser.")
    training: TrainingConfig = Field(description="Training phases.")
    evaluation: EvaluationConfig = Field(default=EvaluationConfig(), description="Evaluation.")


class RunConfig(Config):
    """Everything one run reads: language x model x recipe, overrides applied."""

    language: str = Field(pattern=CODE_PATTERN, description="Code of the target language.")
    language_name: str = Field(description="English name of the target language.")
    source_language: str = Field(pattern=CODE_PATTERN, description="Language of the bitext's source side.")
    recipe: str = Field(description="Name of the recipe.")
    paper: str = Field(default="", description="Where the recipe's values come from.")
    model: ModelConfig = Field(description="The source model.")
    corpus: CorpusConfig = Field(description="Monolingual text of the target language.")
    bitext: BitextConfig | None = Field(default=None, description="Parallel text.")
    helper: HelperModel | None = Field(
        default=None,
        description="A model of the target language, whose tokenizer (strategy 'existing') or embeddings (the "
        "initialisers that need a helper) are read; its own code never runs.",
    )
    group: dict[str, CorpusConfig] = Field(
        default_factory=dict, description="Corpora of the languages in `tokenizer.group`, by code."
    )
    tokenizer: TokenizerConfig = Field(description="The new vocabulary.")
    fertility: FertilityConfig = Field(default=FertilityConfig(), description="Comparison of the two tokenizers.")
    alignment: AlignmentConfig = Field(description="Word alignment.")
    counts: CountsConfig = Field(description="Token counts from word counts.")
    mapping: MappingConfig = Field(description="The initialiser.")
    initial_model: InitialModelConfig = Field(default=InitialModelConfig(), description="The model before training.")
    embeddings: EmbeddingsConfig = Field(default=EmbeddingsConfig(), description="Old and new embeddings compared.")
    training: TrainingConfig = Field(description="Training phases.")
    evaluation: EvaluationConfig = Field(description="Evaluation.")

    @property
    def reads_bitext(self) -> bool:
        """Whether the initialiser reads parallel text, or what is counted on it."""
        return not {"counts", "alignment", "bitext"}.isdisjoint(self.mapping.needs())

    @model_validator(mode="after")
    def _method_has_its_data(self) -> "RunConfig":
        if self.reads_bitext and self.bitext is None:
            raise ValueError(
                f"recipe {self.recipe!r} aligns parallel text, but language {self.language!r} has no `bitext`; "
                "add it to the language's YAML or take the recipe 'mean'"
            )
        return self

    @model_validator(mode="after")
    def _helper_brings_no_code(self) -> "RunConfig":
        if isinstance(self.helper, HubModel) and self.helper.trust_remote_code:
            raise ValueError("helper.trust_remote_code: a helper's tokenizer and tables are read without its code")
        return self

    @model_validator(mode="after")
    def _group_has_its_corpora(self) -> "RunConfig":
        if self.language in self.tokenizer.group:
            raise ValueError(f"tokenizer.group names {self.language!r}, whose corpus is there already")
        if set(self.group) != set(self.tokenizer.group):
            raise ValueError(f"tokenizer.group is {list(self.tokenizer.group)}, but group has {sorted(self.group)}")
        return self

    @model_validator(mode="after")
    def _published_counts(self) -> "RunConfig":
        section, alignment = self.mapping.trans_tokenization, self.alignment
        if section is None or section.compat is None or "alignment" not in self.mapping.needs():
            return self
        if (alignment.aligner, alignment.model, alignment.counts) != ("builtin", "model1", "expected"):
            raise ValueError(
                "mapping.trans_tokenization.compat 'published' reads expected counts of Model 1; set alignment.aligner "
                "to builtin, alignment.model to model1 (6 iterations) and alignment.counts to expected"
            )
        return self

    @model_validator(mode="after")
    def _weighted_corpora_are_read(self) -> "RunConfig":
        known = [] if self.bitext is None else [source.name for source in self.bitext.sources]
        unknown = sorted(set(self.counts.corpus_weights) - set(known))
        if unknown and self.bitext is not None:
            raise ValueError(
                f"counts.corpus_weights names {unknown[0]!r}, which is no source of bitext; its sources are: "
                f"{', '.join(known)}"
            )
        return self

    @model_validator(mode="after")
    def _bitext_holds_out_what_the_corpus_does(self) -> "RunConfig":
        corpus, bitext = self.corpus, self.bitext
        if not self.reads_bitext or bitext is None:
            return self
        for name in ("seed", "validation_share", "test_share"):
            if getattr(bitext, name) != getattr(corpus, name):
                raise ValueError(
                    f"bitext.{name} is {getattr(bitext, name)} and corpus.{name} is {getattr(corpus, name)}: they must "
                    "be the same, or the alignment would see sentences that the evaluation holds out"
                )
        return self


class ReportNode(Config):
    """One node of a run, as the report shows it."""

    node: str = Field(min_length=1, description="Id of the node in the plan, for instance 'evaluation.initial'.")
    stage: str = Field(min_length=1, description="Stage that made it, for instance 'evaluation'.")
    label: str = Field(default="", description="Heading of its table or column; empty: the node's id.")
    model: str = Field(default="", description="Evaluation: heading of the measured model's column; empty: made up.")


class ReportConfig(Config):
    """What a run's report says of the run, and the nodes it shows, in order."""

    title: str = Field(min_length=1, description="Heading of the report.")
    language: str = Field(pattern=CODE_PATTERN, description="BCP 47 code of the target language.")
    language_name: str = Field(default="", description="English name of the target language.")
    model: str = Field(default="", description="Name of the source model.")
    recipe: str = Field(default="", description="Name of the recipe.")
    paper: str = Field(default="", description="Where the recipe's values come from.")
    nodes: tuple[ReportNode, ...] = Field(default=(), description="The nodes shown, in the order of the run.")


class Skipped(Config):
    """An initialiser that a comparison leaves out."""

    initialiser: str = Field(description="Its name.")
    reason: str = Field(description="Why it cannot run.")


class ComparisonConfig(ReportConfig):
    """What a comparison of initialisers says, and the nodes it shows."""

    initialisers: tuple[str, ...] = Field(description="Names, in the order of the table.")
    skipped: tuple[Skipped, ...] = Field(default=(), description="Those that could not run.")
    embeddings: EmbeddingsConfig = Field(default=EmbeddingsConfig(), description="How two tables are compared.")


def valid_code(code: str) -> bool:
    """Whether `code` is a language code that may name files and artifacts."""
    return re.fullmatch(CODE_PATTERN, code) is not None
