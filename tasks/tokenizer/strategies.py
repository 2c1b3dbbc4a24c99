"""The strategies by which a target vocabulary is made, by name; each module declares one as `STRATEGY`."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from configs.schema import TokenizerConfig
from tasks.tokenizer.source_tokens import NOTHING, SourceTokens, read_source_tokens

STRATEGIES: dict[str, str] = {
    "bpe": "tasks.tokenizer.strategy_sentencepiece",
    "unigram": "tasks.tokenizer.strategy_sentencepiece",
    "byte-bpe": "tasks.tokenizer.strategy_byte_level",
    "expand": "tasks.tokenizer.strategy_expand",
    "existing": "tasks.tokenizer.strategy_existing",
    "source": "tasks.tokenizer.strategy_existing",
}


@dataclass(frozen=True)
class Job:
    """What a strategy is given.

    Attributes:
        config: the stage's configuration.
        inputs: folders by name: 'source_tokenizer' where the strategy starts from it or keeps tokens of it, 'helper'.
        out: where the tokenizer's files go.
        texts: the training text, from its beginning each time it is called, as lists of texts.
        validation: held-out text, likewise.
        source_texts: text of the source language, likewise; None where there is none.
    """

    config: TokenizerConfig
    inputs: Mapping[str, Path]
    out: Path
    texts: Callable[[], Iterator[list[str]]]
    validation: Callable[[], Iterator[list[str]]]
    source_texts: Callable[[], Iterator[list[str]]] | None = None

    def source_tokens(self) -> SourceTokens:
        """What a new vocabulary keeps of the source tokenizer: nothing where it is not given or not asked for.

        Raises:
            InputError: the source tokenizer cannot be read.
        """
        if "source_tokenizer" not in self.inputs or not self.config.keep_added_tokens:
            return NOTHING
        return read_source_tokens(self.inputs["source_tokenizer"])


@dataclass(frozen=True)
class Made:
    """A tokenizer whose files are written.

    Attributes:
        tokenizer: the `tokenizers.Tokenizer` that its files hold.
        report: what is known of it already, for the check.
    """

    tokenizer: Any
    report: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checked:
    """What the check of a tokenizer found.

    Attributes:
        report: content of self_check.json.
        summary: figures for people.
        sentences: held-out sentences looked at.
    """

    report: dict[str, Any]
    summary: dict[str, Any]
    sentences: int


@dataclass(frozen=True)
class Strategy:
    """A strategy's declaration.

    Attributes:
        make: makes the tokenizer and writes its files.
        check: proves that it does what it should; raises where it does not.
        reads_text: whether `make` reads the training text.
    """

    make: Callable[[Job], Made]
    check: Callable[[Job, Made], Checked]
    reads_text: bool = True


def load_strategy(config: TokenizerConfig) -> Strategy:
    """The strategy that `config` asks for: of 'train', that of its algorithm.

    Raises:
        TypeError: the module declares none.
    """
    module = STRATEGIES[config.algorithm if config.strategy == "train" else config.strategy]
    strategy = importlib.import_module(module).STRATEGY
    if not isinstance(strategy, Strategy):
        raise TypeError(f"{module}.STRATEGY is {strategy!r}, expected a Strategy")
    return strategy
