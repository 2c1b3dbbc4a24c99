"""Proof that the converted tokenizer is the SentencePiece model, and that it loses no text."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import sentencepiece as spm
from tokenizers import Tokenizer

from tasks.tokenizer.convert import is_unigram
from tasks.tokenizer.sentencepiece_training import SPACE

AWKWARD: tuple[str, ...] = (
    "",
    " ",
    "   ",
    " one space before",
    "one space after ",
    "two  spaces, three   spaces",
    "  spaces all round  ",
    "a line\nand another\r\n\nand a last",
    "a tab\there",
    "no-break\u00a0space, thin\u2009space, ideographic\u3000space",
    "👩‍👩‍👧‍👦 and 👍🏽 and 🏳️‍🌈",
    "e\u0301 o\u0308 n\u0303 (combining marks)",
    "السلام عليكم ورحمة الله",
    "नमस्ते दुनिया, क्या हाल है?",
    "你好,世界。今日は良い天気です。",
    "Привет, мир! Γειά σου Κόσμε!",
    "0123456789 3.14 1,000,000 ٣٤٥ ५६",
    "aaaaaaaaaaaaa ababababa hahahahaha",
    "------- ======= ...... !!!!!",
    "def f(x):\n    return x ** 2  # code",
    "the mark ▁ itself",
    "\x00\x01\x1b control characters",
    "\u200b\u200d\ufeff invisible characters",
    "\U0001d54f \U00010348 \U0002000b beyond the first plane",
    "<0x41> looks like a byte",
    "<s> looks special </s>",
)
EXAMPLES = 10
_CLOSE = 1e-3  # of two log-probabilities: SentencePiece adds them up in float32, tokenizers in float64


@dataclass
class SelfCheck:
    """What the check found.

    Attributes:
        sentences: validation sentences looked at.
        special_text: of these, how many hold the text of a special or added token, which is read as that token; not
            compared.
        mark_text: how many hold U+2581, which stands for a space in SentencePiece; not expected to come back.
        same_ids: share of the compared sentences with SentencePiece's ids.
        round_trip: share of the compared sentences that decode to themselves.
        failures: the first sentences that fail.
        awkward: the fixed strings that differ from SentencePiece or do not come back.
        special_tokens: the special tokens by name.
        equally_likely: unigram: compared sentences cut in another way with the same probability, which floating-point
            numbers cannot tell apart; they count as the same. None for BPE.
    """

    sentences: int = 0
    special_text: int = 0
    mark_text: int = 0
    same_ids: float = 1.0
    round_trip: float = 1.0
    failures: list[str] = field(default_factory=list)
    awkward: list[dict[str, Any]] = field(default_factory=list)
    special_tokens: dict[str, int] = field(default_factory=dict)
    equally_likely: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON types."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def check_tokenizer(model: bytes, tokenizer: Tokenizer, batches: Iterable[list[str]]) -> SelfCheck:
    """Compare `tokenizer` with its SentencePiece `model` on `batches` of sentences and on `AWKWARD`.

    Raises:
        RuntimeError: a special token has another id, a compared sentence gets other ids or does not come back, or an
            encoding does not start with BOS only.
    """
    processor = spm.SentencePieceProcessor(model_proto=model)
    check = SelfCheck(
        special_tokens=_check_special_tokens(processor, tokenizer), equally_likely=0 if is_unigram(model) else None
    )
    different = lost = compared = 0
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    for texts in batches:
        special = [any(token in text for token in added) for text in texts]
        plain = [text for text, is_special in zip(texts, special, strict=True) if not is_special]
        marked = [SPACE in text for text in plain]
        same, back = _compare(processor, tokenizer, plain, check)
        back = [ok or mark for ok, mark in zip(back, marked, strict=True)]
        check.sentences += len(texts)
        check.special_text += sum(special)
        check.mark_text += sum(marked)
        different += len(same) - sum(same)
        lost += len(back) - sum(back)
        compared += len(plain)
        bad = (text for text, ids, out in zip(plain, same, back, strict=True) if not (ids and out))
        check.failures += list(bad)[: EXAMPLES - len(check.failures)]
    check.same_ids = 1.0 - different / max(1, compared)
    check.round_trip = 1.0 - lost / max(1, compared)
    same, back = compare(processor, tokenizer, list(AWKWARD))
    check.awkward = [
        {"text": text, "same_ids": ids, "round_trip": out}
        for text, ids, out in zip(AWKWARD, same, back, strict=True)
        if not (ids and out)
    ]
    if different or lost:
        raise RuntimeError(
            f"tokenizer self-check: of {compared} validation sentences, {different} get other ids than from "
            f"SentencePiece and {lost} do not decode to themselves; the first is {check.failures[0]!r}"
        )
    return check


def compare(
    processor: spm.SentencePieceProcessor, tokenizer: Tokenizer, texts: list[str]
) -> tuple[list[bool], list[bool]]:
    """For each text: whether the ids are SentencePiece's, and whether decoding gives the text back."""
    return _compare(processor, tokenizer, texts, SelfCheck())


def _compare(
    processor: spm.SentencePieceProcessor, tokenizer: Tokenizer, texts: list[str], check: SelfCheck
) -> tuple[list[bool], list[bool]]:
    encodings = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
    wanted = processor.encode(texts, num_threads=1)
    decoded = tokenizer.decode_batch(encodings, skip_special_tokens=False)
    same = [list(ids) == list(want) for ids, want in zip(encodings, wanted, strict=True)]
    if check.equally_likely is not None:
        likely = [
            not ok and _equally_likely(processor, ids, want)
            for ok, ids, want in zip(same, encodings, wanted, strict=True)
        ]
        check.equally_likely += sum(likely)
        same = [ok or tie for ok, tie in zip(same, likely, strict=True)]
    return same, [text == out for text, out in zip(texts, decoded, strict=True)]


def _equally_likely(processor: spm.SentencePieceProcessor, ids: list[int], want: list[int]) -> bool:
    """Whether two segmentations of a text have the same bytes and log-probabilities that differ by rounding only."""
    found, wanted = ([i for i in row if processor.is_byte(i)] for row in (ids, want))
    scores = [math.fsum(processor.get_score(i) for i in row if not processor.is_byte(i)) for row in (ids, want)]
    return found == wanted and abs(scores[0] - scores[1]) <= _CLOSE


def _check_special_tokens(processor: spm.SentencePieceProcessor, tokenizer: Tokenizer) -> dict[str, int]:
    """The special tokens by name, once they are found to be the same in both."""
    found = [i for i in (processor.unk_id(), processor.bos_id(), processor.eos_id()) if i >= 0]
    names = {processor.id_to_piece(i): i for i in found}
    converted = {name: tokenizer.token_to_id(name) for name in names}
    if converted != names:
        raise RuntimeError(f"tokenizer self-check: special ids {converted}, in SentencePiece {names}")
    ids = tokenizer.encode("a").ids
    first, last = processor.bos_id(), processor.eos_id()
    if ids[:1] != [first] or first in ids[1:] or last in ids:
        raise RuntimeError(
            f"tokenizer self-check: 'a' encodes to {ids}, expected {first} first and no other special token"
        )
    return names
