"""The initialisers: their names, what each reads, and the parameters of each."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from configs.sections.base import CODE_PATTERN, NOT_IN_KEY, Config, InputPath, RelativePath

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
    "ofa": (),
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

    def merged_languages(self) -> tuple[str, ...]:
        """The source languages whose counts the initialiser reads one by one (inputs `counts.<code>`)."""
        return ()

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
        description="Shared tokens with a negative cosine: kept with a negative weight, as published, or left out. "
        "Take 'drop' where the helper's cosines nearly cancel out, which makes the new rows too long.",
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
    dictionary: InputPath = Field(
        default=None,
        description="Word list below the data root, one `source<TAB>target` entry a line, that stands in for parallel "
        "text: each entry counts once. Plain, .gz or .zst. Its content is in the key, its path is not.",
        json_schema_extra=NOT_IN_KEY,
    )
    translation_table: InputPath = Field(
        default=None,
        description="'published': the aligner's table below the data root instead of an alignment made here, lines of "
        "`source<TAB>target<TAB>ln p(target|source)<TAB>count`, tokens of a word joined by an em dash.",
        json_schema_extra=NOT_IN_KEY,
    )
    source_languages: dict[Annotated[str, Field(pattern=CODE_PATTERN)], Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict,
        description="Source languages whose mappings are merged, by code, each with its weight: {en: 1, ru: 1}. Their "
        "parallel text is `bitext` or in `further_bitexts`. Empty: the language's own source language alone.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> "TransTokenizationConfig":
        if self.translation_table is not None and self.compat is None:
            raise ValueError("mapping.trans_tokenization.translation_table is read with compat 'published' only")
        if self.dictionary is not None and self.compat is not None:
            raise ValueError("mapping.trans_tokenization: a dictionary has no published counts; remove compat")
        if self.source_languages and not (self.compat is None and self.dictionary is None):
            other = "a dictionary" if self.compat is None else "compat 'published'"
            raise ValueError(f"mapping.trans_tokenization: {other} knows one source language; remove source_languages")
        return self

    def needs(self, usual: tuple[Need, ...]) -> tuple[Need, ...]:
        """Counts; the alignment for the published code's; none of them where a file or merged languages stand in."""
        if self.dictionary is not None or self.translation_table is not None or self.source_languages:
            return ()
        return usual if self.compat is None else ("alignment",)

    def merged_languages(self) -> tuple[str, ...]:
        """Those of `source_languages`, in alphabetical order."""
        return tuple(sorted(self.source_languages))

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

    vectors: InputPath = Field(
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
    dictionary: InputPath = Field(
        default=None,
        description="Word list below the data root, one `source<TAB>target` entry a line; none: derived from the "
        "alignment.",
        json_schema_extra=NOT_IN_KEY,
    )
    min_count: float = Field(
        default=10.0, ge=0, description="Dictionary derived from the alignment: least count of a pair of words."
    )
    source_vectors: InputPath = Field(
        default=None,
        description="Word vectors of the source language below the data root: word2vec's text format, or fastText's "
        ".bin; none: trained on the source side of the parallel text.",
        json_schema_extra=NOT_IN_KEY,
    )
    target_vectors: InputPath = Field(
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


class OfaConfig(MethodConfig):
    """OFA (Liu et al. 2024)."""

    vectors: RelativePath = Field(
        default="multilingual.vec",
        description="Word vectors of both languages in one space, below the data root, in word2vec's text format "
        "(plain, .gz, .zst); a word may name its language, as those of ColexNet+ do: 'eng:house'.",
        json_schema_extra=NOT_IN_KEY,
    )
    neighbours: int = Field(default=10, ge=1, description="Source tokens that a new token is made of.")
    temperature: float = Field(default=0.1, gt=0, description="Temperature of the softmax over their cosines.")

    def files(self) -> dict[str, str]:
        """The word vectors."""
        return {"vectors": self.vectors}
