"""Tokenizers as a report needs them: token text that a person can read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.report.artifacts import Artifact, of_stage

SPACE = "\u2581"


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer with the readable text of its tokens.

    Attributes:
        tokenizer: the `tokenizers.Tokenizer`.
        byte_level: its tokens are written in the byte alphabet of byte-level BPE.
    """

    tokenizer: Any
    byte_level: bool

    def token(self, token_id: int) -> str:
        """Readable text of a token, the start of a word marked with '▁'."""
        token: str | None = self.tokenizer.id_to_token(token_id)
        if token is None:
            return f"#{token_id}"
        return from_byte_alphabet(token) if self.byte_level else token

    def segment(self, text: str) -> list[str]:
        """The tokens of `text`, readable, spaces as '▁'.

        Tokens of byte-level BPE are shown as the stretch of text they stand for; of a character that is cut into
        several, the first shows it and the others are '…'.
        """
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        if not self.byte_level:
            return list(encoding.tokens)
        pieces: list[str] = []
        shown = 0
        for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
            surface = text[max(start, shown) : end].replace(" ", SPACE)
            starts = token.startswith("Ġ") and not surface.startswith(SPACE)
            pieces.append(SPACE + surface if starts else surface or "…")
            shown = max(shown, end)
        return pieces


def load_vocabulary(folder: Path | None) -> Vocabulary | None:
    """The fast tokenizer in `folder`; None where there is no tokenizer.json."""
    from tokenizers import Tokenizer

    path = None if folder is None else folder / "tokenizer.json"
    if path is None or not path.is_file():
        return None
    decoder = json.loads(path.read_text(encoding="utf-8")).get("decoder") or {}
    parts = decoder.get("decoders", [decoder])
    return Vocabulary(Tokenizer.from_file(str(path)), any(part.get("type") == "ByteLevel" for part in parts))


def byte_alphabet() -> dict[str, int]:
    """The byte that each character of the byte alphabet of byte-level BPE stands for (GPT-2)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTES = byte_alphabet()


def from_byte_alphabet(token: str) -> str:
    """Readable text of a token of byte-level BPE; an incomplete character stays in the byte alphabet."""
    if any(character not in BYTES for character in token):
        return token
    try:
        return bytes(BYTES[character] for character in token).decode().replace(" ", SPACE)
    except UnicodeDecodeError:
        return token


def source_vocabulary(artifacts: Sequence[Artifact], inputs: Mapping[str, Path]) -> Vocabulary | None:
    """The source model's tokenizer.

    Looked for in the inputs 'source_tokenizer' and 'source_model' (a person's folder), then in the artifacts whose
    node ids begin with 'source.' (a source model built in this run).
    """
    folders = [inputs.get("source_tokenizer"), inputs.get("source_model")]
    folders += [artifact.folder for artifact in of_stage(artifacts, "tokenizer", "pretraining") if _of_source(artifact)]
    return _first(folders)


def target_vocabulary(artifacts: Sequence[Artifact]) -> Vocabulary | None:
    """The new tokenizer: the artifact of stage 'tokenizer' whose node id does not begin with 'source.'."""
    return _first([artifact.folder for artifact in of_stage(artifacts, "tokenizer") if not _of_source(artifact)])


def _of_source(artifact: Artifact) -> bool:
    return artifact.node.startswith("source.")


def _first(folders: Sequence[Path | None]) -> Vocabulary | None:
    vocabularies = (load_vocabulary(folder) for folder in folders)
    return next((vocabulary for vocabulary in vocabularies if vocabulary is not None), None)
