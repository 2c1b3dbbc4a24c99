"""Bits per byte of held-out text while a model is trained, as the stage `evaluation` defines them."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from configs.schema import EvaluationConfig
from tasks.contract import InputError
from tasks.evaluation.batches import batches, padded
from tasks.evaluation.loading import read_texts
from tasks.evaluation.windows import Window, cut
from tasks.pretrained import load_tokenizer
from tasks.training.evaluation_mode import evaluating
from tasks.training.packed_batch import PADDING
from tasks.training.ranks import ALONE, Ranks

WINDOW = int(EvaluationConfig.model_fields["window"].default)


@dataclass(frozen=True)
class HeldOut:
    """Held-out text, ready to be scored.

    Attributes:
        windows: its tokens; the first of each is context only.
        bytes: UTF-8 bytes of the text.
    """

    windows: list[Window]
    bytes: int

    @property
    def tokens(self) -> int:
        """Tokens read to score it, context included."""
        return sum(len(window.ids) for window in self.windows)


def held_out(corpus: Path, tokenizer: Path, sentences: int, positions: int | None) -> HeldOut:
    """The first `sentences` texts of the validation split of `corpus`, each by itself.

    Args:
        corpus: folder with validation.parquet.
        tokenizer: folder with a tokenizer.
        sentences: at most so many texts.
        positions: tokens that the model can read at once; None: any number.

    Raises:
        InputError: there is no validation text.
    """
    texts = read_texts(corpus, "validation", sentences)
    encoder = load_tokenizer(tokenizer, "tokenizer")
    prefix = encoder.eos_token_id if encoder.bos_token_id is None else encoder.bos_token_id
    window = min(WINDOW, positions or WINDOW)
    ids = encoder(texts, add_special_tokens=False)["input_ids"]
    windows = [part for number, tokens in enumerate(ids) for part in cut(number, tokens, prefix, window)]
    size = sum(len(text.encode()) for text in texts)
    if size == 0 or not any(part.scored for part in windows):
        raise InputError(
            f"validation: the first {len(texts)} texts of the validation split have nothing to score: raise "
            "validation.sentences, or leave out validation"
        )
    return HeldOut(windows, size)


def bits_per_byte(
    objective: Any,
    text: HeldOut,
    tokens: int,
    device: torch.device,
    precision: AbstractContextManager[object],
    ranks: Ranks = ALONE,
) -> float:
    """Bits that the LM head of `objective` needs for a byte of `text`, to the bit the same in every process.

    Args:
        objective: `Objective` or `AdaptedObjective`; its modules are in the modes they were in at the end.
        text: what is scored.
        tokens: tokens in a forward pass, padding included (one window at least).
        device: where the objective is.
        precision: context of the forward passes.
        ranks: the processes that share the text; each makes as many forward passes.
    """
    parts = list(_parts(text.windows, tokens))
    sums = torch.zeros(len(parts), dtype=torch.float64)
    with evaluating(objective), torch.no_grad():
        for turn in range(0, len(parts), ranks.count):
            number = turn + ranks.rank
            with precision:  # anew in each pass: autocast keeps its copies of weights as long
                ids, documents = _on_device(parts[min(number, len(parts) - 1)], device)
                ones = torch.ones_like(ids)  # no mask is needed, since padding is at the right
                losses = objective.token_losses(ids, documents, attention_mask=ones)
            if number < len(parts):
                sums[number] = losses.double().sum()
    return math.fsum(ranks.sum(sums).tolist()) / math.log(2) / text.bytes


def _parts(windows: list[Window], tokens: int) -> Iterator[list[Window]]:
    """The windows, longest first, in parts of at most `tokens` tokens."""
    longest = max(len(window.ids) for window in windows)
    for numbers in batches(windows, max(1, tokens // longest)):
        yield [windows[number] for number in numbers]


def _on_device(windows: list[Window], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and documents [windows, longest]; padding is at the right, where no token can see it."""
    ids, mask = padded(windows)
    return ids.to(device), torch.where(mask, 0, PADDING).to(device)
