"""New pieces in a SentencePiece model file, and whether it then cuts text as the tokenizer.json does.

SentencePiece joins the neighbours whose joined string has the best score, so pieces with scores below all others join
last, as appended merges do. One difference remains: SentencePiece may join a new piece and another to an old one that
its old pieces never made. Where a text shows it, the model file is given up.

A message of protocol buffers is extended by writing further fields behind it, so nothing of the file is rewritten.
"""

import struct
from collections.abc import Mapping, Sequence

import numpy as np
import sentencepiece as spm
from tokenizers import Tokenizer

_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of ModelProto
_NORMAL, _CONTROL = 1, 3  # SentencePiece.Type


def with_pieces(model: bytes, tokens: Sequence[str], first_id: int, fillers: Mapping[int, str]) -> bytes:
    """The model file `model` with `tokens` as pieces from `first_id` on, scores falling below all others.

    Args:
        model: content of a SentencePiece tokenizer.model.
        tokens: the new pieces, best first.
        first_id: id of the first.
        fillers: tokens by id that the model file lacks (added tokens); they become control pieces, which text never
            gives, so that the ids agree.

    Raises:
        ValueError: the file has pieces beyond `first_id`.
    """
    processor = spm.SentencePieceProcessor(model_proto=model)
    size = processor.get_piece_size()
    if size > first_id:
        raise ValueError(f"the file has {size} pieces, but the first new id is {first_id}")
    lowest = min((processor.get_score(i) for i in range(size) if _is_joined(processor, i)), default=0.0)
    step = max(1.0, 2.0 * float(np.spacing(np.float32(abs(lowest)))))  # Llama-2's runs of spaces have -1e9
    gap = [_piece(fillers.get(i, f"<no token {i}>"), 0.0, _CONTROL) for i in range(size, first_id)]
    new = [_piece(token, lowest - step * (rank + 1), _NORMAL) for rank, token in enumerate(tokens)]
    vocabulary_size = _field(_TRAINER, _number(4, first_id + len(tokens)))
    return b"".join([model, *gap, *new, vocabulary_size])


def without_normalization(model: bytes) -> bytes:
    """`model` so that it cuts strings in its own writing as they are: no prefix, no rules, spaces kept."""
    return model + _field(_NORMALIZER, _field(2, b"") + _number(3, 0) + _number(4, 0))


def same_cuts(model: bytes, bare: Tokenizer, strings: Sequence[str]) -> list[bool]:
    """For each string in the model's own writing: whether the file `model` and the tokenizer `bare` cut it alike."""
    slow = spm.SentencePieceProcessor(model_proto=without_normalization(model)).encode(list(strings), num_threads=1)
    fast = bare.encode_batch_fast(list(strings), add_special_tokens=False)
    return [list(a) == b.ids for a, b in zip(slow, fast, strict=True)]


def _is_joined(processor: spm.SentencePieceProcessor, i: int) -> bool:
    """Whether piece i can come of joining two others (single characters have scores without meaning)."""
    special = processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i) or processor.is_unused(i)
    return not special and len(processor.id_to_piece(i)) > 1


def _piece(token: str, score: float, kind: int) -> bytes:
    return _field(_PIECES, _field(1, token.encode()) + b"\x15" + struct.pack("<f", score) + _number(3, kind))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
