"""Tokens of two vocabularies that need no evidence to be paired: the same text, or the same special role."""

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.canonical import ROLES, Vocabulary

NONE = -1
# What stands in for a special token that the source does not have.
_STAND_INS = {"bos": "cls", "eos": "sep", "cls": "bos", "sep": "eos", "mask": "pad"}


def identical_tokens(target: Vocabulary, source: Vocabulary) -> NDArray[np.int64]:
    """For each target token, the source token of the same text, or -1: int64 [target size].

    Special tokens are not compared. Where a text has two source tokens (`A` and `<0x41>`), a byte token is paired with
    a byte token and any other with another, then the same token string is preferred, then the first by string.
    """
    by_text: list[dict[str, int]] = [{}, {}]
    by_token: list[dict[tuple[str, str], int]] = [{}, {}]
    order = sorted(np.flatnonzero(~source.special).tolist(), key=lambda i: source.tokens[i])
    for i in order:
        byte = int(source.byte[i])
        by_text[byte].setdefault(source.keys[i], i)
        by_token[byte].setdefault((source.keys[i], source.tokens[i]), i)
    found = np.full(len(target), NONE, dtype=np.int64)
    for i in np.flatnonzero(~target.special).tolist():
        key, byte = target.keys[i], int(target.byte[i])
        for kind in (byte, 1 - byte):
            match = by_token[kind].get((key, target.tokens[i]), by_text[kind].get(key, NONE))
            if match != NONE:
                found[i] = match
                break
    return found


def special_tokens(target: Vocabulary, source: Vocabulary) -> NDArray[np.int64]:
    """For each special target token, the source's special token that takes its place, or -1: int64 [target size].

    By role (bos, eos, unk, pad, cls, sep, mask), else the special token of the same string, else the stand-in of the
    role (bos and cls, eos and sep, mask and pad). A token with several roles is taken as eos before bos.
    """
    strings = {source.tokens[i]: i for i in np.flatnonzero(source.special).tolist() if source.tokens[i]}
    roles: dict[int, list[str]] = {}
    for role in ROLES:
        if role in target.roles:
            roles.setdefault(target.roles[role], []).append(role)
    found = np.full(len(target), NONE, dtype=np.int64)
    for i in np.flatnonzero(target.special).tolist():
        own = roles.get(i, [])
        by_role = [source.roles[role] for role in own if role in source.roles]
        by_string = [strings[target.tokens[i]]] if target.tokens[i] in strings else []
        stand_in = [source.roles[_STAND_INS[role]] for role in own if _STAND_INS.get(role) in source.roles]
        for match in [*by_role, *by_string, *stand_in][:1]:
            found[i] = match
    return found
