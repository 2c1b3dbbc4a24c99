"""Numbers and token text as a person reads them."""

import unicodedata
from datetime import timedelta

JOINERS = "\u200c\u200d"
SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def number(value: float | None, digits: int = 3) -> str:
    """A figure with `digits` decimals, fewer where it is large; '–' for None."""
    if value is None:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:,.1f}"
    return f"{value:,.{digits}f}"


def count(value: float | None) -> str:
    """A whole number with thousands separated; '–' for None."""
    return "–" if value is None else f"{value:,.0f}"


def percent(value: float | None) -> str:
    """A share in percent with one decimal; '–' for None."""
    return "–" if value is None else f"{100 * value:.1f} %"


def size(value: float | None) -> str:
    """Bytes in binary units; '–' for None."""
    if value is None:
        return "–"
    unit = 0
    while value >= 1024 and unit < len(SIZES) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:,.0f} {SIZES[unit]}" if unit == 0 or value >= 100 else f"{value:,.1f} {SIZES[unit]}"


def duration(value: float | None) -> str:
    """Seconds as '0.42 s', '12.3 s', '4:05 min' or '2:03:20 h'; '–' for None."""
    if value is None:
        return "–"
    if value < 60:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    text = str(timedelta(seconds=round(value)))
    return f"{text} h" if value >= 3600 else f"{text.removeprefix('0:').lstrip('0')} min"


def visible(text: str) -> str:
    """`text` with characters that cannot be seen, or that turn others around, written as ⟨U+XXXX⟩.

    Control, format, private and unassigned characters; joiners stay inside a text that shows something, because Indic
    and Arabic scripts need them.
    """
    shown = [character if _shows(character) else f"⟨U+{ord(character):04X}⟩" for character in text]
    if text and all(character in JOINERS for character in text):
        return "".join(f"⟨U+{ord(character):04X}⟩" for character in text)
    return "".join(shown)


def _shows(character: str) -> bool:
    return character in JOINERS or not unicodedata.category(character).startswith("C")


def figure(value: object) -> str:
    """A value of any kind: a count, a number or text."""
    if isinstance(value, str):
        return visible(value)
    return count(value) if isinstance(value, int) else number(value) if isinstance(value, float) else "–"


def label(metric: str) -> str:
    """The name of a metric for people: 'bits_per_byte' is 'bits per byte'."""
    return metric.replace("_", " ")
