"""The words over which the gold alignments count."""

import re

_WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")


def split_words(text: str) -> list[str]:
    """The words of `text`, in order: runs of letters and digits (inner hyphens and apostrophes kept) or one mark each.

    Args:
        text: a sentence in any script.

    Returns:
        The words; without white space, no character is lost.
    """
    return _WORD.findall(text)
