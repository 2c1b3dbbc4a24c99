"""What a person writes (a language, a recipe), and the run that they make."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from configs.sections.alignment import AlignmentConfig, CountsConfig
from configs.sections.base import CODE_PATTERN, NAME_PATTERN, REPOSITORY_PATTERN, Config
from configs.sections.evaluation import EvaluationConfig
from configs.sections.initial_model import EmbeddingsConfig, InitialModelConfig
from configs.sections.mapping import ESTIMATES_SHARED, MappingConfig
from configs.sections.source_model import HelperModel, ModelConfig
from configs.sections.text import BitextConfig, CorpusConfig
from configs.sections.tokenizer import FertilityConfig, TokenizerConfig
from configs.sections.training import TrainingConfig

Bitexts = dict[Annotated[str, Field(pattern=CODE_PATTERN)], BitextConfig]


class LanguageConfig(Config):
    """A target language and its text (configs/languages/<code>.yaml)."""

    code: str = Field(pattern=CODE_PATTERN, description="BCP 47 language code, for instance 'sw'.")
    name: str = Field(min_length=1, description="English name of the language.")
    source_language: str = Field(
        default="en", pattern=CODE_PATTERN, description="Language of the bitext's source side."
    )
    corpus: CorpusConfig = Field(description="Monolingual text.")
    bitext: BitextConfig | None = Field(default=None, description="Parallel text; trans-tokenization needs it.")
    further_bitexts: Bitexts = Field(
        default_factory=dict,
        description="Parallel text with further source languages, by code, for methods that merge several.",
    )
    helper: HelperModel | None = Field(
        default=None, description="A model of this language whose tokenizer or embeddings a method takes."
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict, description="Recipe values that this language changes (sizes that fit its data)."
    )

    @property
    def bitexts(self) -> dict[str, BitextConfig]:
        """All parallel text, by the code of its source language."""
        return _bitexts(self)

    @model_validator(mode="after")
    def _further_bitexts_are_of_other_languages(self) -> "LanguageConfig":
        for code in {self.code, self.source_language} & set(self.further_bitexts):
            raise ValueError(f"further_bitexts names {code!r}; the text with {self.source_language!r} is `bitext`")
        return self


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
    further_bitexts: Bitexts = Field(
        default_factory=dict, description="Parallel text with further source languages, by code."
    )
    helper: HelperModel | None = Field(
        default=None,
        description="A model of the target language, whose tokenizer (strategy 'existing') or embeddings (the "
        "initialisers that need a helper) are read; its own code never runs.",
    )
    group: dict[str, CorpusConfig] = Field(
        default_factory=dict, description="Corpora of the languages in `tokenizer.group`, by code."
    )
    mixed: dict[str, CorpusConfig] = Field(
        default_factory=dict,
        description="Corpora that the mixtures of `training` name beside 'target' and the languages of the group.",
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
    push_to: str | None = Field(
        default=None,
        pattern=REPOSITORY_PATTERN,
        description="Repository of the Hugging Face hub ('owner/name') that the final model is pushed to when the run "
        "is complete; made private where it is not there. Null: none.",
    )

    @property
    def bitexts_read(self) -> dict[str, BitextConfig]:
        """The parallel texts that the initialiser reads, by the code of the source language."""
        wanted, bitexts = self.mapping.languages(self.source_language), _bitexts(self)
        return {code: bitexts[code] for code in wanted if code in bitexts}

    @model_validator(mode="after")
    def _method_has_its_data(self) -> "RunConfig":
        for code in self.mapping.languages(self.source_language):
            if code in _bitexts(self):
                continue
            if code == self.source_language:
                raise ValueError(
                    f"recipe {self.recipe!r} aligns parallel text, but language {self.language!r} has no `bitext`; "
                    "add it to the language's YAML or take the recipe 'mean'"
                )
            raise ValueError(
                f"recipe {self.recipe!r} merges the mapping of source language {code!r}, but language "
                f"{self.language!r} has no parallel text with it; add it to `further_bitexts` of the language's YAML, "
                "or take it out of mapping.trans_tokenization.source_languages"
            )
        return self

    @model_validator(mode="after")
    def _expansion_keeps_the_source_rows(self) -> "RunConfig":
        mapping = self.mapping
        if self.tokenizer.strategy != "expand" or mapping.method not in ESTIMATES_SHARED:
            return self
        if mapping.copy_shared is False:
            raise ValueError(
                f"tokenizer.strategy 'expand' adds to the source vocabulary, and mapping.method {mapping.method!r} "
                "would change the rows of the source's own tokens too; take out mapping.copy_shared or set it to true"
            )
        object.__setattr__(self, "mapping", mapping.model_copy(update={"copy_shared": True}))
        return self

    @model_validator(mode="after")
    def _merging_has_merges(self) -> "RunConfig":
        tokenizer = self.tokenizer
        if self.mapping.method == "merge" and tokenizer.strategy == "train" and tokenizer.algorithm == "unigram":
            raise ValueError(
                "mapping.method 'merge' follows the merges of the new vocabulary, and tokenizer.algorithm 'unigram' "
                "has none; take 'bpe' or 'byte-bpe', or another method"
            )
        return self

    @model_validator(mode="after")
    def _group_has_its_corpora(self) -> "RunConfig":
        if self.language in self.tokenizer.group:
            raise ValueError(f"tokenizer.group names {self.language!r}, whose corpus is there already")
        if set(self.group) != set(self.tokenizer.group):
            raise ValueError(f"tokenizer.group is {list(self.tokenizer.group)}, but group has {sorted(self.group)}")
        return self

    @model_validator(mode="after")
    def _mixtures_have_their_corpora(self) -> "RunConfig":
        for phase in self.training.resolved():
            known = {"target", *self.group, *self.mixed}
            names = () if phase.mixture is None else phase.mixture.names
            for name in names:
                if name == self.language:
                    raise ValueError(f"the mixture of phase {phase.name!r} names {name!r}: call it 'target'")
                if name not in known:
                    raise ValueError(f"the mixture of phase {phase.name!r} names {name!r}, whose corpus is not known")
        return self

    @model_validator(mode="after")
    def _phases_fit_the_initial_model(self) -> "RunConfig":
        for phase in self.training.resolved():
            if phase.trainable == "adapter" and self.initial_model.norms != "keep":
                raise ValueError(
                    f"phase {phase.name!r} trains adapters, whose rows are as the mapping makes them: "
                    f"initial_model.norms {self.initial_model.norms!r} would not hold for them; set it to 'keep'"
                )
            if phase.trainable == "new-rows" and self.tokenizer.strategy == "source":
                raise ValueError(
                    f"phase {phase.name!r} trains the rows of new tokens, and tokenizer.strategy 'source' has none"
                )
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
        known = [source.name for bitext in _bitexts(self).values() for source in bitext.sources]
        unknown = sorted(set(self.counts.corpus_weights) - set(known))
        if unknown and known:
            raise ValueError(
                f"counts.corpus_weights names {unknown[0]!r}, which is no source of bitext; its sources are: "
                f"{', '.join(dict.fromkeys(known))}"
            )
        return self

    @model_validator(mode="after")
    def _bitext_holds_out_what_the_corpus_does(self) -> "RunConfig":
        for code, bitext in self.bitexts_read.items():
            key = "bitext" if code == self.source_language else f"further_bitexts.{code}"
            for name in ("seed", "validation_share", "test_share"):
                own, other = getattr(bitext, name), getattr(self.corpus, name)
                if own != other:
                    raise ValueError(
                        f"{key}.{name} is {own} and corpus.{name} is {other}: they must be the same, or the alignment "
                        "would see sentences that the evaluation holds out"
                    )
        return self


def _bitexts(config: LanguageConfig | RunConfig) -> dict[str, BitextConfig]:
    own = {} if config.bitext is None else {config.source_language: config.bitext}
    return {**own, **config.further_bitexts}
