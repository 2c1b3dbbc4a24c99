"""Esperanto inflection; it has no exceptions."""

ENDINGS = {"present": "as", "past": "is", "future": "os", "conditional": "us", "imperative": "u"}

ONES = ("nul", "unu", "du", "tri", "kvar", "kvin", "ses", "sep", "ok", "naŭ")


def inflect(word: str, plural: bool, accusative: bool) -> str:
    """`word` (noun, adjective, correlative or possessive in its base form) with -j and -n."""
    return word + ("j" if plural else "") + ("n" if accusative else "")


def finite(stem: str, tense: str) -> str:
    """The finite form of the verb with `stem` in a tense or mood of `ENDINGS`."""
    return stem + ENDINGS[tense]


def tens_and_ones(number: int) -> list[str]:
    """The words of a number below 100: 12 -> ['dek', 'du'], 40 -> ['kvardek']."""
    tens, ones = divmod(number, 10)
    words = [] if tens == 0 else ["dek" if tens == 1 else ONES[tens] + "dek"]
    if ones or not words:
        words.append(ONES[ones])
    return words


def hundreds(count: int) -> str:
    """The word of `count` hundreds (1-9): 'cent', 'ducent'."""
    return "cent" if count == 1 else ONES[count] + "cent"
