"""What a training reads: the target text alone, or a mixture of texts; which rows each step takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from configs.schema import MixtureConfig, PhaseConfig
from tasks.contract import InputError, Progress, no_progress
from tasks.training.mixing import MixedText, TextShare, temperature_shares
from tasks.training.order import Passes
from tasks.training.packed_batch import Batch
from tasks.training.packing import PackedDocuments, PackedText, pack, pack_documents
from tasks.training.text_encoder import TextEncoder

TARGET = "target"

Text = PackedText | PackedDocuments


class Rows(Protocol):
    """Rows in the order in which a training takes them."""

    def read(self, first: int, count: int) -> Batch:
        """The rows of the draws `first`…`first + count - 1`, counted from 0 over the whole training."""

    def seen(self, draws: int) -> list[TextShare]:
        """What each text gave to the first `draws` draws."""


class OneText:
    """A single text, passed through again and again, each time in an order of its own."""

    def __init__(self, text: Text, seed: int) -> None:
        self._text = text
        self._passes = Passes(len(text), seed)

    def read(self, first: int, count: int) -> Batch:
        """The rows of the draws `first`…`first + count - 1`."""
        return self._text.read(self._passes.at(np.arange(first, first + count)))

    def seen(self, draws: int) -> list[TextShare]:
        """What the text gave to the first `draws` draws."""
        whole, rest = divmod(draws, len(self._text))
        last = self._passes.at(np.arange(whole * len(self._text), draws))
        tokens = whole * self._text.tokens_in_rows + int(self._text.filled(last).sum())
        return [TextShare(TARGET, 1.0, 1.0, tokens, whole + rest / len(self._text))]


@dataclass(frozen=True)
class TrainingText:
    """The text of a training.

    Attributes:
        rows: its rows, in the order of the training.
        texts: the texts by name, 'target' among them.
        shares: share of the tokens of each.
    """

    rows: Rows
    texts: Mapping[str, Text]
    shares: Mapping[str, float]

    @property
    def tokens_per_row(self) -> float:
        """Tokens of a row without padding, the mean over draws."""
        per_row = {name: text.tokens_in_rows / len(text) for name, text in self.texts.items()}
        return 1 / sum(share / per_row[name] for name, share in self.shares.items())

    def rows_of_epochs(self, epochs: float) -> float:
        """Draws in which the target text is passed through `epochs` times."""
        tokens = epochs * self.texts[TARGET].tokens_in_rows / self.shares[TARGET]
        return tokens / self.tokens_per_row

    @property
    def length(self) -> int:
        """Tokens of a row, padding included."""
        return self.texts[TARGET].length


def training_text(
    corpora: Mapping[str, Path], encoder: TextEncoder, config: PhaseConfig, work: Path, progress: Progress = no_progress
) -> TrainingText:
    """Encode and pack the texts, each once: a later call with the same `work` reads what is there.

    Args:
        corpora: Parquet file of each text by name, 'target' among them.
        encoder: the tokenizer.
        config: the phase: packing, sequence length, mixture, seed.
        work: folder for tokens and rows; the texts beside the target have folders in `work`/texts.
        progress: told the documents done.

    Raises:
        InputError: a text is too short, or the mixture does not go with the texts.
    """
    if config.mixture is None:
        text = _packed(corpora[TARGET], encoder, config, work, progress)
        return TrainingText(OneText(text, config.seed), {TARGET: text}, {TARGET: 1.0})
    wanted = set(config.mixture.names) | (set() if config.mixture.shares else set(corpora))
    missing = sorted(wanted - set(corpora))
    if missing:
        raise InputError(f"the mixture names {missing}, but the texts are {sorted(corpora)}: correct the name")
    places = {name: work if name == TARGET else work / "texts" / name for name in corpora}
    texts = {
        name: _packed(file, encoder, config, places[name], progress, f"text {name!r} of the mixture: ")
        for name, file in corpora.items()
        if name in wanted
    }
    shares = _shares(config.mixture, texts)
    return TrainingText(MixedText(texts, shares, config.seed), texts, shares)


def _packed(
    corpus: Path, encoder: TextEncoder, config: PhaseConfig, work: Path, progress: Progress, what: str = ""
) -> Text:
    """One text, packed; `what` it is begins the message of an error."""
    work.mkdir(parents=True, exist_ok=True)
    try:
        if config.packing == "documents":
            return pack_documents(corpus, encoder, config.sequence_length, work, config.seed, progress)
        return pack(corpus, encoder, config.sequence_length, work, progress)
    except InputError as error:
        raise InputError(f"{what}{error}") from error


def _shares(mixture: MixtureConfig, texts: Mapping[str, Text]) -> dict[str, float]:
    if mixture.shares is not None:
        total = sum(mixture.shares.values())
        return {name: mixture.shares[name] / total for name in texts}
    sizes = {name: float(text.tokens_in_rows) for name, text in texts.items()}
    return temperature_shares(sizes, mixture.temperature or 1.0, mixture.fixed)
