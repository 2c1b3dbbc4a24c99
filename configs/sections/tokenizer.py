"""The target vocabulary, and its comparison with the source's."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from configs.sections.base import CODE_PATTERN, NOT_IN_KEY, Config

Strategy = Literal["train", "expand", "existing", "source"]


class TokenizerConfig(Config):
    """The target vocabulary: trained on text, the source's with or without new tokens, or a helper model's.

    A strategy refuses the settings that it does not read (`unused_settings`).
    """

    strategy: Strategy = Field(
        default="train",
        description="'train': a new vocabulary from the corpus; 'expand': the source vocabulary with the most frequent "
        "new tokens of an auxiliary one; 'existing': the tokenizer of the `helper` model; 'source': the source's own "
        "(the baseline without another vocabulary).",
    )
    algorithm: Literal["bpe", "unigram", "byte-bpe"] = Field(
        default="bpe",
        description="'train': SentencePiece BPE or unigram with byte fallback, or byte-level BPE. 'expand' follows the "
        "source tokenizer.",
    )
    vocab_size: int = Field(
        default=32_000,
        ge=300,
        description="'train': tokens in the vocabulary; bytes, BOS, EOS and unknown token included.",
    )
    character_coverage: float = Field(
        default=1.0,
        gt=0.9,
        le=1.0,
        description="'bpe' and 'unigram': share of the text's characters that get a token; the rest become bytes.",
    )
    split_digits: bool = Field(default=True, description="'train': every digit is its own token.")
    keep_added_tokens: bool = Field(
        default=True,
        description="'train': keep the source tokenizer's special and added tokens (chat markers), which come after "
        "the `vocab_size` trained ones, its names of BOS, EOS and the unknown token, and its chat template.",
    )
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
    training = {"algorithm", "vocab_size", "character_coverage", "split_digits", "keep_added_tokens"}
    expansion = {"new_tokens", "auxiliary_size"}
    sampling = {"group", "max_tokens_per_language", "max_sentences", "seed"}
    unused = {
        "train": expansion | ({"character_coverage"} if algorithm == "byte-bpe" else set()),
        "expand": training,
        "existing": training | expansion | sampling,
        "source": training | expansion | sampling,
    }
    return frozenset(unused.get(strategy, set()))


class FertilityConfig(Config):
    """Comparison of the source and the target tokenizer on held-out text."""

    max_sentences: int = Field(
        default=5000, gt=0, description="Validation sentences measured, first in the split's order."
    )
