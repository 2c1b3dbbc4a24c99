"""Cleaning against a slow implementation, and script shares on sentences of several scripts."""

import unicodedata

import numpy as np
import pyarrow as pa
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tasks.contract import InputError
from tasks.corpus.clean import clean
from tasks.corpus.code_points import class_table

INVISIBLE = regex.compile(
    r"[\x00-\x08\x0E-\x1F\x7F-\x84\x86-\x9F\u00AD\u061C\u180E\u200B\u200E\u200F\u202A-\u202E\u2060-\u206F\uFEFF"
    r"\uFFF9-\uFFFB\U000E0000-\U000E007F]"
)
PIECES = st.sampled_from(
    [" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\x00", "\x07", "\u200b", "\u200d", "\ufeff", "a",
     "Ж", "e\u0301", "\u0301", "é", "का", "क\u093c", "字", "ا", "1", ".", "\U0001f600", "각",
     "\u1100\u1161\u11a8", "\u212b"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=12).map("".join)).filter(
    lambda text: not any(0xD800 <= ord(char) < 0xE000 for char in text)
)


def slow_clean(text: str) -> str:
    spaced = regex.sub(r"\p{White_Space}+", " ", INVISIBLE.sub("", regex.sub(r"\p{White_Space}", " ", text)))
    return unicodedata.normalize("NFC", spaced.strip(" "))


@given(st.lists(TEXTS, max_size=8))
def test_clean_agrees_with_a_slow_implementation(texts: list[str]) -> None:
    cleaned = clean(pa.array(texts, pa.string()), class_table(("Latin",)))
    assert cleaned.texts.to_pylist() == [slow_clean(text) for text in texts]
    assert cleaned.characters.tolist() == [len(slow_clean(text)) for text in texts]
    assert cleaned.has_nul.tolist() == ["\x00" in text for text in texts]
    letters = [len(regex.findall(r"(?V1)[\p{L}--[\p{Zyyy}\p{Zinh}]]", slow_clean(text))) for text in texts]
    latin = [len(regex.findall(r"(?V1)[\p{L}&&\p{Script=Latin}]", slow_clean(text))) for text in texts]
    assert cleaned.letters.tolist() == letters
    assert cleaned.wanted_letters.tolist() == latin


@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_cleaning_twice_changes_nothing(texts: list[str]) -> None:
    once = clean(pa.array(texts, pa.string()), class_table(())).texts
    assert clean(once, class_table(())).texts.equals(once)


def test_clean_reads_slices_of_arrays() -> None:
    texts = pa.array(["x", " ñ\u0301 a ", "z\t", "w"])[1:3]
    assert clean(texts, class_table(())).texts.to_pylist() == [unicodedata.normalize("NFC", "ñ\u0301 a"), "z"]


def test_joiners_of_indic_and_arabic_script_stay() -> None:
    texts = ["क्\u200dष", "می\u200cخواهم", "\U0001f468\u200d\U0001f469"]
    assert clean(pa.array(texts), class_table(())).texts.to_pylist() == texts


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("Latin", "La suno brilas."),
        ("Cyrillic", "Солнце светит, 12 раз."),
        ("Devanagari", "सूरज चमकता है।"),
        ("Arabic", "تشرق الشمس ١٢٣."),
        ("Han", "太阳照耀着大地。"),
        ("Hangul", "해가 빛난다."),
        ("Hiragana", "ひかり。"),
        ("Katakana", "カメラ"),
        ("Greek", "Ο ήλιος λάμπει."),
        ("Armenian", "Արևը փայլում է։"),
    ],
)
def test_letters_of_one_script(script: str, text: str) -> None:
    others = {"Latin", "Cyrillic", "Han", "Arabic"} - {script}
    in_script = clean(pa.array([text]), class_table((script,)))
    assert in_script.letters[0] > 0
    assert in_script.wanted_letters[0] == in_script.letters[0]
    assert clean(pa.array([text]), class_table(tuple(sorted(others)))).wanted_letters[0] == 0


def test_several_scripts_count_together() -> None:
    cleaned = clean(pa.array(["カメラと写真 abc"]), class_table(("Han", "Hiragana", "Katakana")))
    assert (cleaned.wanted_letters[0], cleaned.letters[0]) == (6, 9)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("Cyrilic", "did you mean 'Cyrillic'"), ("korean", "'Hangul'"), ("CJK", "'Han'"), ("Common", "no script 'Common'"),
     ("Latin}x", "no script"), ("", "no script ''")],
)  # fmt: skip
def test_unknown_scripts_are_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=hint):
        class_table((name,))


def test_short_names_of_scripts_are_known() -> None:
    assert np.array_equal(class_table(("Latn",)), class_table(("Latin",)))
