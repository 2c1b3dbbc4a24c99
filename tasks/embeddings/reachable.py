"""Which tokens of a vocabulary a tokenizer can produce."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.canonical import Vocabulary, kind_of
from tasks.embeddings.token_text import ordinary


def unreachable_tokens(backend: Any, vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Ids of the tokens that `backend` produces for no text: int64, ascending.

    A token is reachable when the model cuts the token's own string into that token alone, the normaliser keeps its text
    and the pre-tokenizer does not cut it. Byte-pair encoding merges inside a token as it does without what stands
    around it, so a token that is not produced from its own string is produced nowhere. Added tokens are looked for in
    the encoding of their text. Special tokens, byte tokens and, in WordPiece, parts of a character are not asked about.

    Args:
        backend: tokenizers' own tokenizer.
        vocabulary: its vocabulary.
    """
    spec = json.loads(backend.to_str())
    kind = kind_of(spec)
    prefix = spec["model"].get("continuing_subword_prefix") or "\0"
    added = {entry["id"] for entry in spec.get("added_tokens", ())}
    whole = ordinary(vocabulary)
    asked = np.flatnonzero(~vocabulary.special & ~vocabulary.byte)
    return np.array(
        [
            i
            for i in asked.tolist()
            if not (
                _added_found(backend, vocabulary, i)
                if i in added
                else vocabulary.tokens[i].startswith(prefix)
                or _found(backend, vocabulary, i, kind == "byte-level", bool(whole[i]))
            )
        ],
        dtype=np.int64,
    )


def _added_found(backend: Any, vocabulary: Vocabulary, token_id: int) -> bool:
    return token_id in backend.encode(vocabulary.surfaces[token_id].decode(), add_special_tokens=False).ids


def _found(backend: Any, vocabulary: Vocabulary, token_id: int, byte_level: bool, whole: bool) -> bool:
    token = vocabulary.tokens[token_id]
    pieces = backend.model.tokenize(token)
    if len(pieces) != 1 or pieces[0].id != token_id:
        return False
    if not whole:
        return True
    text = vocabulary.surfaces[token_id].decode()
    if backend.normalizer is not None:
        kept = backend.normalizer.normalize_str(text).replace("▁", " ")
        if text.strip(" ") not in kept:
            return False
    return backend.pre_tokenizer is None or (
        len(backend.pre_tokenizer.pre_tokenize_str(text if byte_level else token)) <= 1
    )
