"""Proof that the converted tokenizer is the SentencePiece model, and that it loses no text."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import sentencepiece as spm
from tokenizers import Tokenizer

from tasks.tokenizer.sentencepiece_bpe import BOS, BOS_ID, EOS, EOS_ID, SPACE, UNK, UNK_ID

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
_EXAMPLES = 10


@dataclass
class SelfCheck:
    """What the check found.

    Attributes:
        sentences: validation sentences looked at.
        special_text: of these, how many hold the text of a special token, which is read as that token; not compared.
        mark_text: how many hold U+2581, which stands for a space in SentencePiece; not expected to come back.
        same_ids: share of the compared sentences with SentencePiece's ids.
        round_trip: share of the compared sentences that decode to themselves.
        failures: the first sentences that fail.
        awkward: the fixed strings that differ from SentencePiece or do not come back.
        special_tokens: the special tokens by name.
    """

    sentences: int = 0
    special_text: int = 0
    mark_text: int = 0
    same_ids: float = 1.0
    round_trip: float = 1.0
    failures: list[str] = field(default_factory=list)
    awkward: list[dict[str, Any]] = field(default_factory=list)
    special_tokens: dict[str, int] = field(default_factory=lambda: {UNK: UNK_ID, BOS: BOS_ID, EOS: EOS_ID})

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON types."""
        return asdict(self)


def check_tokenizer(model: bytes, tokenizer: Tokenizer, batches: Iterable[list[str]]) -> SelfCheck:
    """Compare `tokenizer` with its SentencePiece `model` on `batches` of sentences and on `AWKWARD`.

    Raises:
        RuntimeError: a special token has another id, a compared sentence gets other ids or does not come back, or an
            encoding does not start with <s> only.
    """
    processor = spm.SentencePieceProcessor(model_proto=model)
    check = SelfCheck()
    _check_special_tokens(processor, tokenizer)
    different = lost = compared_ids = compared_text = 0
    for texts in batches:
        special = [any(token in text for token in (UNK, BOS, EOS)) for text in texts]
        plain = [text for text, is_special in zip(texts, special, strict=True) if not is_special]
        marked = [SPACE in text for text in plain]
        same, back = compare(processor, tokenizer, plain)
        back = [ok or mark for ok, mark in zip(back, marked, strict=True)]
        check.sentences += len(texts)
        check.special_text += sum(special)
        check.mark_text += sum(marked)
        different += len(same) - sum(same)
        lost += len(back) - sum(back)
        compared_ids += len(same)
        compared_text += len(back)
        bad = (text for text, ids, out in zip(plain, same, back, strict=True) if not (ids and out))
        check.failures += list(bad)[: _EXAMPLES - len(check.failures)]
    check.same_ids = 1.0 - different / max(1, compared_ids)
    check.round_trip = 1.0 - lost / max(1, compared_text)
    same, back = compare(processor, tokenizer, list(AWKWARD))
    check.awkward = [
        {"text": text, "same_ids": ids, "round_trip": out}
        for text, ids, out in zip(AWKWARD, same, back, strict=True)
        if not (ids and out)
    ]
    if different or lost:
        raise RuntimeError(
            f"tokenizer self-check: of {compared_ids} validation sentences, {different} get other ids than from "
            f"SentencePiece and {lost} do not decode to themselves; the first is {check.failures[0]!r}"
        )
    return check


def compare(
    processor: spm.SentencePieceProcessor, tokenizer: Tokenizer, texts: list[str]
) -> tuple[list[bool], list[bool]]:
    """For each text: whether the ids are SentencePiece's, and whether decoding gives the text back."""
    encodings = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
    wanted = processor.encode(texts, num_threads=1)
    decoded = tokenizer.decode_batch(encodings, skip_special_tokens=False)
    return (
        [list(ids) == list(want) for ids, want in zip(encodings, wanted, strict=True)],
        [text == out for text, out in zip(texts, decoded, strict=True)],
    )


def _check_special_tokens(processor: spm.SentencePieceProcessor, tokenizer: Tokenizer) -> None:
    found = (processor.unk_id(), processor.bos_id(), processor.eos_id())
    converted = tuple(tokenizer.token_to_id(token) for token in (UNK, BOS, EOS))
    if found != converted or found != (UNK_ID, BOS_ID, EOS_ID):
        raise RuntimeError(f"tokenizer self-check: special ids {converted}, in SentencePiece {found}")
    ids = tokenizer.encode("a").ids
    if ids[:1] != [BOS_ID] or BOS_ID in ids[1:] or EOS_ID in ids:
        raise RuntimeError(f"tokenizer self-check: 'a' encodes to {ids}, expected <s> first and no other special token")
