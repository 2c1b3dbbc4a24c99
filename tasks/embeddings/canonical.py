"""Tokens of different tokenizers in one form: what text they stand for, byte by byte.

`▁house` (SentencePiece), `Ġhouse` (byte-level BPE) and `house` (WordPiece) are the same token, b" house": it starts a
word and spells "house". `<0xC3>` and the byte alphabet's `Ã` are the same byte. Vocabularies are only ever compared in
this form, never as the tokenizers' own strings.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROLES = ("eos", "bos", "unk", "pad", "cls", "sep", "mask")
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary in canonical form; position = token id.

    Attributes:
        tokens: the tokenizer's own strings ("" for an id that no token has).
        surfaces: the text each token stands for, as UTF-8 bytes; a leading space means that it starts a word. Empty
            for special tokens and unused ids. A token may hold part of a character.
        byte: bool [size]: SentencePiece's byte tokens (`<0x41>`).
        special: bool [size]: special tokens and unused ids, which stand for no text.
        roles: ids of the special tokens by role ("bos", "eos", "unk", "pad", "cls", "sep", "mask").
    """

    tokens: Sequence[str]
    surfaces: Sequence[bytes]
    byte: NDArray[np.bool_]
    special: NDArray[np.bool_]
    roles: dict[str, int]

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def keys(self) -> list[str]:
        """The surfaces as strings in which a byte that is no whole character is one code point (surrogateescape)."""
        return [surface.decode("utf-8", "surrogateescape") for surface in self.surfaces]

    @cached_property
    def starts_word(self) -> NDArray[np.bool_]:
        """Which tokens start a word: bool [size]."""
        return np.array([surface.startswith(b" ") for surface in self.surfaces], dtype=bool)

    @cached_property
    def texts(self) -> list[bytes]:
        """The surfaces without the word-start space."""
        return [surface.removeprefix(b" ") for surface in self.surfaces]


def vocabulary_of(tokenizer: Any) -> Vocabulary:
    """The canonical form of a fast tokenizer's vocabulary; its kind is read from its tokenizer.json.

    Args:
        tokenizer: transformers' fast tokenizer.

    Raises:
        ValueError: two tokens have one id.
    """
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    by_token: dict[str, int] = tokenizer.get_vocab()
    size = max(by_token.values(), default=-1) + 1
    tokens = [""] * size
    present = np.zeros(size, dtype=bool)
    for token, i in by_token.items():
        if present[i]:
            raise ValueError(f"token id {i} stands for both {tokens[i]!r} and {token!r}")
        tokens[i] = token
        present[i] = True
    surfaces, byte = surfaces_of(tokens, spec)
    special = ~present
    for added in spec.get("added_tokens", ()):
        surfaces[added["id"]] = added["content"].encode("utf-8", "surrogatepass")
        byte[added["id"]] = False
        special[added["id"]] |= bool(added["special"])
    special[[i for i in tokenizer.all_special_ids if 0 <= i < size]] = True
    for i in np.flatnonzero(special):
        surfaces[i] = b""
    found = {role: getattr(tokenizer, f"{role}_token_id", None) for role in ROLES}
    roles = {role: int(i) for role, i in found.items() if i is not None and 0 <= i < size}
    return Vocabulary(tokens, surfaces, byte, special, roles)


def surfaces_of(tokens: Sequence[str], spec: dict[str, Any]) -> tuple[list[bytes], NDArray[np.bool_]]:
    """The text of each token, and which are byte tokens.

    Args:
        tokens: a model's token strings.
        spec: the content of its tokenizer.json (all but the vocabulary is read).

    Returns:
        UTF-8 bytes, a leading space where a word starts; bool [tokens].
    """
    kind = kind_of(spec)
    byte = np.zeros(len(tokens), dtype=bool)
    if kind == "byte-level":
        return [_from_byte_alphabet(token) for token in tokens], byte
    if kind == "wordpiece":
        prefix = spec["model"].get("continuing_subword_prefix") or "##"
        return [
            (token.removeprefix(prefix) if token.startswith(prefix) else " " + token).encode() for token in tokens
        ], byte
    if kind == "plain":
        return [token.encode("utf-8", "surrogatepass") for token in tokens], byte
    surfaces = [token.replace("▁", " ").encode("utf-8", "surrogatepass") for token in tokens]
    for i, token in enumerate(tokens):
        if len(token) == 6 and (match := _BYTE_TOKEN.fullmatch(token)):
            surfaces[i] = bytes([int(match[1], 16)])
            byte[i] = True
    return surfaces, byte


def kind_of(spec: dict[str, Any]) -> str:
    """How a tokenizer.json writes word starts and bytes: "byte-level", "sentencepiece", "wordpiece" or "plain"."""
    parts = [part for name in ("normalizer", "pre_tokenizer", "decoder") for part in components(spec.get(name))]
    types = {part.get("type") for part in parts}
    model = spec.get("model", {})
    if "ByteLevel" in types:
        return "byte-level"
    if model.get("type") == "WordPiece" or "WordPiece" in types:
        return "wordpiece"
    replaced = any(part.get("type") == "Replace" and "▁" in json.dumps(part, ensure_ascii=False) for part in parts)
    if replaced or types & {"Metaspace", "ByteFallback"} or model.get("byte_fallback"):
        return "sentencepiece"
    return "plain"


def components(part: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The parts of a normalizer, pre-tokenizer or decoder, sequences flattened."""
    if part is None:
        return
    inner = part.get("normalizers") or part.get("pretokenizers") or part.get("decoders")
    if part.get("type") != "Sequence":
        yield part
    for child in inner or ():
        yield from components(child)


def _byte_alphabet() -> dict[int, str]:
    """From the characters that byte-level BPE writes bytes with to the code points of those bytes."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(shown)]
    return {byte: chr(byte) for byte in shown} | {256 + n: chr(byte) for n, byte in enumerate(hidden)}


_BYTES = _byte_alphabet()


def _from_byte_alphabet(token: str) -> bytes:
    try:
        return token.translate(_BYTES).encode("latin-1")
    except UnicodeEncodeError:  # not written in the byte alphabet
        return token.encode("utf-8", "surrogatepass")
