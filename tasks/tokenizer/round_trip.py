"""Whether text comes back from its tokens, for a tokenizer that has no SentencePiece model to be compared with."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from tasks.tokenizer.self_check import AWKWARD, EXAMPLES
from tasks.tokenizer.strategies import Checked


@dataclass
class RoundTrip:
    """What the check found.

    Attributes:
        sentences: validation sentences looked at.
        special_text: of these, how many hold the text of a special token, which is read as that token; not compared.
        same_ids: share of the compared sentences to which transformers gives the ids of tokenizer.json.
        round_trip: share of the compared sentences that decode to themselves.
        unknown_share: share of their tokens that are the unknown token.
        failures: the first sentences that fail.
        awkward: the fixed strings that do not come back, with what comes back.
        special_tokens: ids of bos, eos, unk and pad, those that there are.
        notes: what people should know.
    """

    sentences: int = 0
    special_text: int = 0
    same_ids: float = 1.0
    round_trip: float = 1.0
    unknown_share: float = 0.0
    failures: list[str] = field(default_factory=list)
    awkward: list[dict[str, Any]] = field(default_factory=list)
    special_tokens: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def checked(self) -> Checked:
        """As the result of a strategy's check."""
        summary = {
            "round_trip": self.round_trip,
            "same_ids_as_transformers": self.same_ids,
            "unknown_share": self.unknown_share,
            "awkward_strings_changed": len(self.awkward),
        }
        return Checked(asdict(self), summary, self.sentences)


def check_round_trip(tokenizer: Any, loaded: Any, batches: Iterable[list[str]]) -> RoundTrip:
    """What becomes of `batches` of texts and of the fixed awkward strings.

    Args:
        tokenizer: the `tokenizers.Tokenizer` of tokenizer.json.
        loaded: the same as transformers loads it.
        batches: lists of texts; one list at a time is held.
    """
    names = {name: getattr(loaded, f"{name}_token_id") for name in ("bos", "eos", "unk", "pad")}
    check = RoundTrip(special_tokens={name: i for name, i in names.items() if i is not None})
    added = [token.content for token in loaded.added_tokens_decoder.values() if token.special]
    lost = different = compared = unknown = tokens = 0
    for texts in batches:
        plain = [text for text in texts if not any(token in text for token in added)]
        rows = _ids(tokenizer, plain)
        back = _decoded(tokenizer, rows)
        theirs = loaded(plain, add_special_tokens=False)["input_ids"] if plain else []
        same = [row == other for row, other in zip(rows, theirs, strict=True)]
        whole = [text == out for text, out in zip(plain, back, strict=True)]
        check.sentences += len(texts)
        check.special_text += len(texts) - len(plain)
        compared += len(plain)
        lost += len(whole) - sum(whole)
        different += len(same) - sum(same)
        tokens += sum(map(len, rows))
        unknown += sum(row.count(names["unk"]) for row in rows) if names["unk"] is not None else 0
        bad = (text for text, ok, ids in zip(plain, whole, same, strict=True) if not (ok and ids))
        check.failures += list(bad)[: EXAMPLES - len(check.failures)]
    check.round_trip = 1.0 - lost / max(1, compared)
    check.same_ids = 1.0 - different / max(1, compared)
    check.unknown_share = unknown / max(1, tokens)
    back = _decoded(tokenizer, _ids(tokenizer, list(AWKWARD)))
    check.awkward = [{"text": text, "decoded": out} for text, out in zip(AWKWARD, back, strict=True) if text != out]
    return check


def _ids(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]


def _decoded(tokenizer: Any, rows: list[list[int]]) -> list[str]:
    texts: list[str] = tokenizer.decode_batch(rows, skip_special_tokens=False)
    return texts
