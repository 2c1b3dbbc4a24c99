"""Texts longer than the context are cut into windows that are scored one by one."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """A stretch of one sentence that goes through the model at once.

    Attributes:
        sentence: number of the sentence, counted from 0.
        ids: token ids; the first is context only (the prefix token, or an unscored token where there is none).
    """

    sentence: int
    ids: tuple[int, ...]

    @property
    def scored(self) -> int:
        """Tokens of the text that get a loss."""
        return len(self.ids) - 1


def cut(sentence: int, ids: Sequence[int], prefix: int | None, window: int) -> list[Window]:
    """The windows of one sentence, in order, without overlap.

    With a prefix token every window is that token and at most `window - 1` tokens of the text, so every token is
    scored, the first of each window given the prefix alone. Without one a window is at most `window` tokens of the
    text, and the first of each is not scored.

    Args:
        sentence: number of the sentence.
        ids: tokens of the text, without special tokens.
        prefix: id put before every window (BOS, or EOS for a tokenizer without BOS); None: nothing.
        window: longest context in tokens, prefix included; at least 2.

    Returns:
        The windows; none for a text without tokens.

    Raises:
        ValueError: `window` is less than 2.
    """
    if window < 2:
        raise ValueError(f"window must be at least 2 tokens, got {window}: one of context and one to score")
    head = () if prefix is None else (prefix,)
    step = window - len(head)
    return [Window(sentence, (*head, *ids[start : start + step])) for start in range(0, len(ids), step)]


def unscored_tokens(windows: Sequence[Window], prefix: int | None) -> int:
    """Tokens of the text that no window scores: none with a prefix, one a window without."""
    return 0 if prefix is not None else len(windows)
