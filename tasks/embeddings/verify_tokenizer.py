"""Checks of the new tokenizer beside the initial model: the same, reachable tokens, round trip, fertility."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tasks.embeddings.canonical import ROLES, vocabulary_of
from tasks.embeddings.check import Check
from tasks.embeddings.reachable import unreachable_tokens

LEAST_REACHABLE = 0.9
LEAST_ROUND_TRIP = 0.5
_FERTILITY = ("tokens_per_word", "tokens_per_byte", "continued_word_share")


def check_reachable(tokenizer: Any) -> Check:
    """Every token can be produced; less than 90 % is a failure, any that cannot a warning."""
    vocabulary = vocabulary_of(tokenizer)
    lost = unreachable_tokens(tokenizer.backend_tokenizer, vocabulary)
    asked = int((~vocabulary.special & ~vocabulary.byte).sum())
    share = 1 - len(lost) / asked if asked else 1.0
    figures = {"tokens": asked, "unreachable": len(lost), "reachable share": round(share, 6)}
    if not len(lost):
        return Check("reachable tokens", "passed", figures=figures)
    message = f"the tokenizer produces {len(lost)} of {asked} tokens for no text"
    if share < LEAST_REACHABLE:
        message += f"; at least {LEAST_REACHABLE:.0%} must be reachable"
    return Check("reachable tokens", "failed" if share < LEAST_REACHABLE else "warning", message, figures, rows=lost)


def check_same(given: Any, written: Any, texts: Sequence[str]) -> Check:
    """The tokenizer that transformers finds in the model's folder is the one that was given.

    With a config.json beside it, transformers may take another class for the same files.

    Args:
        given: the tokenizer as loaded from its own folder.
        written: as loaded from the model's.
        texts: held-out text, on which both must give the same ids.
    """
    name = "tokenizer in the model's folder"
    ids = [
        tokenizer(list(texts), add_special_tokens=False)["input_ids"] if texts else [] for tokenizer in (given, written)
    ]
    changed = [n for n, (one, two) in enumerate(zip(*ids, strict=True)) if one != two]
    roles = [role for role in ROLES if getattr(given, f"{role}_token_id") != getattr(written, f"{role}_token_id")]
    figures = {"texts": len(texts), "changed": len(changed)}
    faults = [
        *(["it has other tokens"] if given.get_vocab() != written.get_vocab() else []),
        *([f"other special tokens ({', '.join(roles)})"] if roles else []),
        *(
            [f"{len(changed)} of {len(texts)} texts get other ids, for instance {texts[changed[0]][:40]!r}"]
            if changed
            else []
        ),
    ]
    if faults:
        message = f"{'; '.join(faults)}; add a tokenizer_config.json that names its tokenizer_class"
        return Check(name, "failed", message, figures)
    return Check(name, "passed", figures=figures)


def check_rows(tokenizer: Any, tokens: int) -> Check:
    """No token has an id beyond the tokens that have rows."""
    ids = np.array(sorted(tokenizer.get_vocab().values()))
    beyond = ids[ids >= tokens]
    figures = {"tokens": len(ids), "rows": tokens, "beyond": len(beyond)}
    if len(beyond):
        return Check("rows for all tokens", "failed", f"{len(beyond)} tokens have no row", figures, rows=beyond)
    return Check("rows for all tokens", "passed", figures=figures)


def check_round_trip(tokenizer: Any, texts: Sequence[str]) -> Check:
    """Held-out text is the same after encoding and decoding; less than half is a failure, any change a warning.

    A space that the tokenizer puts before every text is no change.
    """
    name = "round trip"
    if not texts:
        return Check(name, "skipped", "no held-out text")
    ids = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    decoded = tokenizer.batch_decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    changed = [n for n, (text, again) in enumerate(zip(texts, decoded, strict=True)) if again not in (text, " " + text)]
    figures = {"texts": len(texts), "changed": len(changed)}
    if not changed:
        return Check(name, "passed", figures=figures)
    text, again = texts[changed[0]], decoded[changed[0]]
    place = next((n for n, (a, b) in enumerate(zip(text, again, strict=False)) if a != b), min(len(text), len(again)))
    window = slice(max(0, place - 10), place + 10)
    message = (
        f"{len(changed)} of {len(texts)} texts change, for instance text {changed[0]} at character {place}: "
        f"{text[window]!r} becomes {again[window]!r}"
    )
    failed = 1 - len(changed) / len(texts) < LEAST_ROUND_TRIP
    return Check(name, "failed" if failed else "warning", message, figures)


def check_fertility(before: Mapping[str, float] | None, after: Mapping[str, float] | None) -> Check:
    """The new tokenizer needs fewer tokens a word than the old one on held-out text.

    Args:
        before: tokens_per_word, tokens_per_byte and continued_word_share of the source tokenizer, None: not known.
        after: those of the new one.
    """
    if after is None:
        return Check("fertility", "skipped", "no held-out text")
    figures: dict[str, Any] = {"after": {key: round(after[key], 6) for key in _FERTILITY}}
    if before is None:
        return Check("fertility", "passed", figures=figures)
    figures["before"] = {key: round(before[key], 6) for key in _FERTILITY}
    if after["tokens_per_word"] > before["tokens_per_word"]:
        message = (
            f"the new tokenizer needs {after['tokens_per_word']:.3f} tokens a word, the source tokenizer "
            f"{before['tokens_per_word']:.3f}: the new vocabulary fits the text worse"
        )
        return Check("fertility", "warning", message, figures)
    return Check("fertility", "passed", figures=figures)
