"""Classes of Unicode code points as lookup tables: white space, invisible characters, letters by script."""

import difflib
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import regex

from tasks.contract import InputError

OTHER, SPACE, INVISIBLE, NUL, LETTER, WANTED_LETTER = range(6)

Classes = npt.NDArray[np.uint8]

# Cc (but white space and NUL), and characters without width: soft hyphen, zero-width space, marks and overrides of
# direction, word joiner and invisible operators, byte order mark, interlinear annotation, tags. U+200C and U+200D
# (ZWNJ, ZWJ) change how Indic and Arabic-script text is written and stay; so do variation selectors.
_INVISIBLE = (
    r"[[\p{Cc}--[\p{White_Space}\x00]]\u00AD\u061C\u180E\u200B\u200E\u200F\u202A-\u202E\u2060-\u206F\uFEFF"
    r"\uFFF9-\uFFFB\U000E0000-\U000E007F]+"
)
_LETTER = r"[\p{L}--[\p{Script=Common}\p{Script=Inherited}]]+"

_KNOWN = (
    "Adlam", "Arabic", "Armenian", "Balinese", "Bamum", "Bengali", "Bopomofo", "Braille", "Buginese",
    "Canadian_Aboriginal", "Cham", "Cherokee", "Coptic", "Cyrillic", "Devanagari", "Ethiopic", "Georgian",
    "Glagolitic", "Gothic", "Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana", "Javanese",
    "Kannada", "Katakana", "Kayah_Li", "Khmer", "Lao", "Latin", "Lepcha", "Limbu", "Lisu", "Malayalam", "Mandaic",
    "Meetei_Mayek", "Mongolian", "Myanmar", "New_Tai_Lue", "Nko", "Nyiakeng_Puachue_Hmong", "Ol_Chiki", "Oriya",
    "Osage", "Rejang", "Runic", "Samaritan", "Saurashtra", "Sinhala", "Sundanese", "Syloti_Nagri", "Syriac",
    "Tagalog", "Tai_Le", "Tai_Tham", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Vai", "Wancho",
    "Yi",
)  # fmt: skip
_OFTEN_MEANT = {
    "cjk": ["Han"], "chinese": ["Han"], "kanji": ["Han"], "japanese": ["Han", "Hiragana", "Katakana"],
    "korean": ["Hangul"], "hindi": ["Devanagari"], "russian": ["Cyrillic"], "burmese": ["Myanmar"],
    "persian": ["Arabic"], "roman": ["Latin"], "amharic": ["Ethiopic"], "odia": ["Oriya"], "punjabi": ["Gurmukhi"],
}  # fmt: skip


@lru_cache(maxsize=8)
def class_table(scripts: tuple[str, ...]) -> Classes:
    """Class of every code point, uint8 [0x110000]: `WANTED_LETTER` for letters of `scripts`, `LETTER` for the others.

    A letter has general category L and a script other than Common and Inherited (Unicode Standard Annex 24). Without
    scripts, no letter is wanted.

    Raises:
        InputError: Unicode has no such script.
    """
    table = np.zeros(0x110000, dtype=np.uint8)
    points = np.array([*range(0xD800), *range(0xE000, 0x110000)], dtype=np.int64)
    text = "".join(map(chr, points))
    wanted = [_script_pattern(script) for script in scripts]
    for pattern, value in (
        (_LETTER, LETTER),
        *((pattern, WANTED_LETTER) for pattern in wanted),
        (r"\p{White_Space}+", SPACE),
        (_INVISIBLE, INVISIBLE),
        (r"\x00", NUL),
    ):
        for match in regex.finditer(pattern, text, flags=regex.VERSION1):
            table[points[match.start() : match.end()]] = value
    table.flags.writeable = False
    return table


def _script_pattern(script: str) -> str:
    known = regex.fullmatch(r"[A-Za-z][A-Za-z_ ]*", script) and script.lower() not in (
        "common", "inherited", "unknown", "zyyy", "zinh", "zzzz",
    )  # fmt: skip
    pattern = rf"[\p{{Script={script}}}&&\p{{L}}]+"
    try:
        if known:
            regex.compile(pattern, flags=regex.VERSION1)
            return pattern
    except regex.error:
        pass
    near = _OFTEN_MEANT.get(script.lower()) or difflib.get_close_matches(script.title(), _KNOWN, n=3)
    meant = f"did you mean {' or '.join(map(repr, near))}?" if near else "the names are Unicode's, for instance 'Latin'"
    raise InputError(f"scripts: Unicode has no script {script!r} that letters can be counted in; {meant}")
