"""Text in many scripts, and awkward text, through every strategy and algorithm."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from configs.schema import TokenizerConfig
from tasks.tokenizer.round_trip import check_round_trip

SCRIPTS = {
    "LATIN": "Ĉu vi ŝatas ĉi tiun ĝardenon? Zażółć gęślą jaźń, İstanbul'da.",
    "CYRILLIC": "Съешь ещё этих мягких булок; Җәй җитте, ӨҮһ.",
    "GREEK": "Ο ήλιος λάμπει πάνω από τη θάλασσα· πού πας;",
    "ARMENIAN": "Բարեւ, աշխարհ։ Այսօր եղանակը լավ է՞։",
    "GEORGIAN": "დღეს კარგი ამინდია, ხომ?",
    "HEBREW": "שָׁלוֹם עוֹלָם, מה שלומך היום?",
    "ARABIC": "الطَّقسُ جميلٌ اليوم، أليس كذلك؟ می‌خواهم بروم",
    "SYRIAC": "ܫܠܡܐ ܥܠܡܐ",
    "DEVANAGARI": "आज मौसम अच्छा है, क्‍या चलें?",
    "BENGALI": "আজ আকাশ পরিষ্কার, চলো বেড়াতে যাই।",
    "GURMUKHI": "ਅੱਜ ਮੌਸਮ ਚੰਗਾ ਹੈ।",
    "GUJARATI": "આજે હવામાન સારું છે.",
    "TAMIL": "இன்று வானிலை நன்றாக இருக்கிறது.",
    "TELUGU": "ఈ రోజు వాతావరణం బాగుంది.",
    "KANNADA": "ಇಂದು ಹವಾಮಾನ ಚೆನ್ನಾಗಿದೆ.",
    "MALAYALAM": "ഇന്ന് കാലാവസ്ഥ നല്ലതാണ്.",
    "SINHALA": "අද කාලගුණය හොඳයි, ශ්‍රී.",
    "THAI": "วันนี้อากาศดีมากนะครับ",
    "LAO": "ມື້ນີ້ອາກາດດີຫຼາຍ",
    "KHMER": "ថ្ងៃនេះអាកាសធាតុល្អណាស់",
    "MYANMAR": "ဒီနေ့ ရာသီဥတု ကောင်းတယ်။",
    "TIBETAN": "དེ་རིང་གནམ་གཤིས་ཡག་པོ་འདུག",
    "ETHIOPIC": "ዛሬ አየሩ ጥሩ ነው።",
    "HANGUL": "오늘은 날씨가 참 좋네요.",
    "CJK": "今天天气很好，我们去公园吧。",
    "HIRAGANA": "きょうはいいてんきですね。カタカナもね！",
    "MONGOLIAN": "ᠮᠣᠩᠭᠣᠯ ᠬᠡᠯᠡ",
    "CHEROKEE": "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
}
AWKWARD = {
    "empty": "",
    "one space": " ",
    "leading spaces": "   three spaces first",
    "trailing spaces": "two last  ",
    "spaces between": "a  b   c    d",
    "newlines": "one\ntwo\n\nfour\r\nfive\n",
    "leading newline": "\n\nthen text",
    "tabs": "\tindented\t\ttwice",
    "code": "def f(x):\n    if x > 1:\n\treturn {'a': [x ** 2, \"b\"]}  # note\n",
    "markup": '<p class="a">one &amp; two</p>\n- item\n  - [link](https://example.org/?q=1&r=%20)',
    "emoji": "😀🎉 👍🏽 🇳🇱",
    "joined emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👩🏽‍🚀",
    "combining marks": "e\u0301 a\u0308\u0323 Z\u0351\u036b\u0343 क\u093c",
    "decomposed": unicodedata.normalize("NFD", "Ånge, Việt Nam"),
    "compatibility forms": "ﬁne ① ２ ㎏ ﷺ",
    "joiners": "क्\u200dष \u200bzero\u200cwidth\ufeff",
    "rare spaces": "no-break\u00a0thin\u2009ideographic\u3000line\u2028",
    "direction marks": "\u200fabc\u200e \u202bdef\u202c",
    "controls": "\x00\x01\x07\x1b[0m\x7f",
    "digits": "007 3.14 1,000 ٣٤٥ ५६७ Ⅻ ½",
    "beyond the first plane": "𝕏 𐍈 𠀋 \U0010fffd",
    "like a byte": "<0x41> and <<0x0A>>",
    "runs": "aaaaaaaaaaaaaaaaaaaa ---------- ..........",
}
TRAINING = [*SCRIPTS.values(), "the house and the garden", "a red house in the garden", "the garden of the house"] * 3
VOCABULARY = 700
KINDS = ("bpe", "unigram", "byte-bpe", "existing", "expand")


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request, tmp_path_factory, helpers):
    """The folder of a tokenizer of each kind, made by the stage."""
    folder = tmp_path_factory.mktemp(request.param)
    corpus = helpers["write_corpus"](folder / "corpus", TRAINING, list(SCRIPTS.values()))
    inputs = {"corpus": corpus}
    if request.param in ("existing", "expand"):
        helpers["run"](corpus, folder / "first", TokenizerConfig(algorithm="byte-bpe", vocab_size=400))
        inputs |= {"helper": folder / "first"} if request.param == "existing" else {}
        inputs |= {"source_tokenizer": folder / "first"} if request.param == "expand" else {}
        expansion = {"new_tokens": 10, "auxiliary_size": 600}
        config = TokenizerConfig(strategy=request.param, **(expansion if request.param == "expand" else {}))
    else:
        config = TokenizerConfig(algorithm=request.param, vocab_size=VOCABULARY)
    helpers["run"](corpus, folder / "out", config, inputs)
    return folder / "out"


@pytest.fixture(scope="module")
def loaded(tokenizer):
    return AutoTokenizer.from_pretrained(str(tokenizer))


@pytest.fixture(scope="module")
def raw(tokenizer):
    return Tokenizer.from_file(str(tokenizer / "tokenizer.json"))


@pytest.fixture(scope="module")
def literal(tokenizer):
    """The same, with special tokens in a text read as text."""
    made = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    made.encode_special_tokens = True
    return made


def test_there_are_twenty_scripts_and_each_text_is_in_its_own():
    assert len(SCRIPTS) >= 20
    for name, text in SCRIPTS.items():
        assert sum(unicodedata.name(letter, "").startswith(name) for letter in text) > len(text) / 4, name


@pytest.mark.parametrize("text", [*SCRIPTS.values(), *AWKWARD.values()], ids=[*SCRIPTS, *AWKWARD])
def test_text_comes_back(loaded, raw, text):
    ids = raw.encode(text, add_special_tokens=False).ids
    assert raw.decode(ids, skip_special_tokens=False) == text
    assert loaded(text, add_special_tokens=False)["input_ids"] == ids
    assert loaded.decode(loaded(text)["input_ids"], skip_special_tokens=True) == text


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="▁"), max_size=60))
def test_any_text_comes_back(literal, text):
    assert literal.decode(literal.encode(text, add_special_tokens=False).ids, skip_special_tokens=False) == text


def test_the_mark_of_sentencepiece_comes_back_as_a_space(tokenizer, raw):
    back = raw.decode(raw.encode("a▁b", add_special_tokens=False).ids, skip_special_tokens=False)
    sentencepiece = (tokenizer / "tokenizer.model").is_file()
    assert back == ("a b" if sentencepiece else "a▁b")


def test_bos_stands_first_and_eos_is_named(loaded):
    ids = loaded("the house")["input_ids"]
    assert ids[0] == loaded.bos_token_id
    assert loaded.eos_token_id not in (None, *ids)
    assert loaded.bos_token_id not in ids[1:]


def test_the_check_says_what_is_lost():
    from tokenizers import models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    raw.normalizer = normalizers.Lowercase()
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.train_from_iterator([["a house"]], trainers.WordLevelTrainer(special_tokens=["[UNK]"], show_progress=False))
    loaded = PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="[UNK]")
    found = check_round_trip(raw, loaded, [["a house", "A house"], ["red house", "the [UNK]"]])
    assert (found.sentences, found.special_text) == (4, 1)
    assert found.round_trip == pytest.approx(1 / 3)
    assert found.unknown_share == pytest.approx(1 / 6)
    assert found.failures == ["A house", "red house"]
    assert found.special_tokens == {"unk": 0}
    changed = {row["text"]: row["decoded"] for row in found.awkward}
    assert changed["a tab\there"] == "a [UNK] [UNK]"
