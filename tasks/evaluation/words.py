"""Words of a text: what tokens a word are counted over."""

import regex

WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")


def count_words(text: str) -> int:
    """Runs of letters, combining marks and digits in `text`."""
    return sum(1 for _ in WORD.finditer(text))
