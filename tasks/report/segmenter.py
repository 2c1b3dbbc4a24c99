"""Tokenizers as a report needs them: text cut into tokens that a person can read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.embeddings.canonical import kind_of
from tasks.embeddings.token_text import WORD_START
from tasks.pretrained import has_tokenizer, load_backend
from tasks.report.artifacts import Artifact, of_stage


@dataclass(frozen=True)
class Segmenter:
    """A tokenizer, and how it writes its tokens.

    Attributes:
        tokenizer: the `tokenizers.Tokenizer`.
        byte_level: its tokens are written in the byte alphabet of byte-level BPE.
    """

    tokenizer: Any
    byte_level: bool

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
            surface = text[max(start, shown) : end].replace(" ", WORD_START)
            starts = token.startswith("Ġ") and not surface.startswith(WORD_START)
            pieces.append(WORD_START + surface if starts else surface or "…")
            shown = max(shown, end)
        return pieces


def load_segmenter(folder: Path | None) -> Segmenter | None:
    """The tokenizer in `folder`; None where there is none."""
    if folder is None or not has_tokenizer(folder):
        return None
    tokenizer = load_backend(folder, "tokenizer")
    return Segmenter(tokenizer, kind_of(json.loads(tokenizer.to_str())) == "byte-level")


def source_segmenter(artifacts: Sequence[Artifact], inputs: Mapping[str, Path]) -> Segmenter | None:
    """The source model's tokenizer.

    Looked for in the inputs 'source_tokenizer' and 'source_model' (a person's folder), then in the artifacts whose
    node ids begin with 'source.' (a source model built in this run).
    """
    folders = [inputs.get("source_tokenizer"), inputs.get("source_model")]
    folders += [artifact.folder for artifact in of_stage(artifacts, "tokenizer", "pretraining") if _of_source(artifact)]
    return _first(folders)


def target_segmenter(artifacts: Sequence[Artifact]) -> Segmenter | None:
    """The new tokenizer: the artifact of stage 'tokenizer' whose node id does not begin with 'source.'."""
    return _first([artifact.folder for artifact in of_stage(artifacts, "tokenizer") if not _of_source(artifact)])


def _of_source(artifact: Artifact) -> bool:
    return artifact.node.startswith("source.")


def _first(folders: Sequence[Path | None]) -> Segmenter | None:
    found = (load_segmenter(folder) for folder in folders)
    return next((segmenter for segmenter in found if segmenter is not None), None)
