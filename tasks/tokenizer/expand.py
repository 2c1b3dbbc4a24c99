"""The source vocabulary with the most frequent new tokens of an auxiliary one (Yamaguchi et al. 2024, section 3).

V_t = V_s and the k most frequent tokens of a vocabulary trained on the target text that V_s lacks. Source ids stay;
new ids come after all of them. New tokens join what the source tokenizer cuts and change nothing else, which is proven
on the text before the tokenizer is handed out.
"""

import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from configs.schema import TokenizerConfig
from tasks.contract import InputError
from tasks.embeddings.canonical import surfaces_of
from tasks.pretrained import load_tokenizer
from tasks.tokenizer.cuts import Cuts, aligned_occurrences, cut, occurrences, token_characters
from tasks.tokenizer.expand_auxiliary import Units, count_units, train_auxiliary
from tasks.tokenizer.expand_files import source_spec, write_expanded
from tasks.tokenizer.expand_proof import Proof, prove
from tasks.tokenizer.expand_select import Candidate, Selection, Supply, bridges, select
from tasks.tokenizer.expand_spec import bare_model, expandable_kind, token_ids
from tasks.tokenizer.self_check import AWKWARD
from tasks.tokenizer.tokenizer_copy import copy_settled

Batches = Callable[[], Iterator[list[str]]]
LEAST_PRODUCED = 0.99
_ROLE = "source tokenizer"
_DECODED = 2_000
_COMPARED_UNITS = 50_000
_LISTED = 20


def expand_tokenizer(
    source: Path, texts: Batches, source_texts: Batches | None, config: TokenizerConfig, out: Path
) -> dict[str, Any]:
    """Write the source tokenizer with `config.new_tokens` new tokens into `out`, proven on the texts.

    Exactly `new_tokens` tokens are added. Parts that a frequent token needs to be joined from old pieces count among
    them; those that the auxiliary tokenizer lacks or never produces ("bridges") are reported.

    Args:
        source: folder of the source tokenizer (byte-level BPE, or SentencePiece BPE with byte fallback).
        texts: gives the target language's text from its start, in batches; read three times.
        source_texts: the same of the source language's text, on which unchanged cuts are proven; read twice; None
            where there is none.
        config: `new_tokens` and `auxiliary_size` are read.
        out: folder to write into.

    Returns:
        What was added and proven, as JSON types.

    Raises:
        InputError: the source is no BPE that can be expanded, the text has too few new tokens, or fewer than 99 % of
            the new tokens are produced.
        RuntimeError: text is cut otherwise than by joining the source's tokens, or a source id moved.
    """
    copy_settled(source, out, _ROLE)
    loaded = load_tokenizer(out, _ROLE)
    spec = source_spec(out, loaded)
    kind = expandable_kind(spec)
    old: Tokenizer = loaded.backend_tokenizer
    units = count_units(old, kind, texts())
    selection, sizes = choose_tokens(old, spec, kind, units, texts, config)
    first_id = max(loaded.get_vocab().values()) + 1
    pieces = cut(Tokenizer.from_str(bare_model(spec)), selection.tokens)
    strings = [*units.strings[:_COMPARED_UNITS], *selection.tokens]
    if source_texts is not None:
        strings += count_units(old, kind, source_texts()).strings[:_COMPARED_UNITS]
    fate = write_expanded(out, spec, selection.tokens, first_id, strings)
    written = load_tokenizer(out, "expanded tokenizer")
    _check_ids(loaded.get_vocab(), written.get_vocab(), selection.tokens, first_id)
    compared = {"target": texts(), "awkward": iter([list(AWKWARD)])}
    if source_texts is not None:
        compared["source"] = source_texts()
    new: Tokenizer = written.backend_tokenizer
    proofs = {name: prove(old, new, pieces, first_id, batches, _DECODED) for name, batches in compared.items()}
    for name, proof in proofs.items():
        _check_cuts(name, proof)
    _check_produced(selection.tokens, proofs["target"])
    return {
        "strategy": "expand",
        "kind": kind,
        "vocab_size": first_id + len(selection.tokens),
        "first_new_id": first_id,
        **sizes,
        "tokenizer_model": fate,
        **_selection_report(selection, proofs["target"]),
        **{key: value for name, proof in proofs.items() for key, value in _proof_report(name, proof).items()},
    }


def choose_tokens(
    tokenizer: Tokenizer, spec: dict[str, Any], kind: str, units: Units, texts: Batches, config: TokenizerConfig
) -> tuple[Selection, dict[str, int]]:
    """The new tokens, and the sizes of the auxiliary vocabulary and of what it has that the source lacks.

    Args:
        tokenizer: the source tokenizer.
        spec: its tokenizer.json.
        kind: "byte-level" or "sentencepiece".
        units: the distinct stretches of the texts.
        texts: the texts.
        config: `new_tokens` and `auxiliary_size` are read.

    Raises:
        InputError: fewer than `new_tokens` tokens can be had from the texts.
    """
    if not units.strings:
        raise InputError("tokenizer: the training split has no text; check corpus.sources and their rejections")
    auxiliary = train_auxiliary(tokenizer, kind, texts(), config.auxiliary_size, _joins_digits(spec))
    characters = sorted(token for token in auxiliary.get_vocab() if len(token) == 1)
    base = Tokenizer.from_str(bare_model(spec, characters))
    cuts = cut(base, units.strings)
    candidates = _candidates(auxiliary, base, spec, units, cuts)
    strings = [""] * (max(base.get_vocab().values()) + 1)
    for token, i in base.get_vocab().items():
        strings[i] = token
    new_pieces = frozenset(base.token_to_id(c) for c in characters if c not in spec["model"]["vocab"])
    bridge = bridges(cuts, units.counts, strings, frozenset(token_ids(spec)))
    supply = Supply({candidate.pieces: candidate for candidate in candidates}, new_pieces, bridge)
    selection = select(supply, config.new_tokens, units, cuts)
    if len(selection.tokens) < config.new_tokens:
        raise InputError(
            f"tokenizer.new_tokens is {config.new_tokens}, but the text gives only {len(selection.tokens)} new tokens "
            f"(auxiliary vocabulary of {auxiliary.get_vocab_size()}); set new_tokens to {len(selection.tokens)} or "
            "less, or add text"
        )
    return selection, {"auxiliary_size": auxiliary.get_vocab_size(), "candidates": len(candidates)}


def _candidates(
    auxiliary: Tokenizer, base: Tokenizer, spec: dict[str, Any], units: Units, cuts: Cuts
) -> list[Candidate]:
    """Tokens of the auxiliary vocabulary that may be added, the most frequent first.

    Left out: what the source has, in whatever writing; tokens that never fall on boundaries of old tokens; tokens with
    a white-space or control character that the source writes as bytes (they belong to no language).
    """
    found = cut(auxiliary, units.strings)
    by_id = {i: token for token, i in auxiliary.get_vocab().items()}
    counts = occurrences(found, units.counts, len(by_id))
    aligned = aligned_occurrences(found, token_characters(auxiliary), cuts, token_characters(base), units.counts)
    ids = [int(i) for i in np.argsort(-counts, kind="stable") if aligned[i] > 0]
    surfaces, _ = surfaces_of([by_id[i] for i in ids], spec)
    known = set(surfaces_of(list(token_ids(spec)), spec)[0])
    known |= {added["content"].encode() for added in spec.get("added_tokens", ())}
    vocabulary = spec["model"]["vocab"]
    kept = [
        i
        for i, surface in zip(ids, surfaces, strict=True)
        if surface not in known and not any(_is_blank(c) for c in by_id[i] if c not in vocabulary)
    ]
    pieces = cut(base, [by_id[i] for i in kept])
    ends = np.cumsum(pieces.lengths)
    return [
        Candidate(by_id[i], tuple(pieces.ids[start:end].tolist()), int(aligned[i]))
        for i, start, end in zip(kept, (ends - pieces.lengths).tolist(), ends.tolist(), strict=True)
    ]


def _is_blank(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) == "Cc"


def _joins_digits(spec: dict[str, Any]) -> bool:
    """Whether the model has a token of two digits (SentencePiece's split_digits was off)."""
    return any(token.isdecimal() for token in spec["model"]["vocab"] if len(token) > 1)


def _check_ids(old: dict[str, int], new: dict[str, int], tokens: list[str], first_id: int) -> None:
    wanted = old | {token: first_id + n for n, token in enumerate(tokens)}
    moved = [(token, i, new.get(token)) for token, i in wanted.items() if new.get(token) != i]
    if moved or len(new) != len(wanted):
        raise RuntimeError(f"tokenizer expansion: {len(moved)} ids are not as intended, as {moved[:3]}")


def _check_cuts(name: str, proof: Proof) -> None:
    if proof.differences or proof.decoded_otherwise:
        raise RuntimeError(
            f"tokenizer expansion: of {proof.lines} {name} texts, {proof.differences} are cut otherwise than by joining"
            f" old tokens and {proof.decoded_otherwise} decode to another text; the first is {proof.examples[0]!r}"
        )


def _check_produced(tokens: list[str], proof: Proof) -> None:
    missing = [token for token, count in zip(tokens, proof.produced, strict=True) if not count]
    if len(tokens) - len(missing) < LEAST_PRODUCED * len(tokens):
        raise InputError(
            f"tokenizer.strategy expand: encoding the text produces {len(tokens) - len(missing)} of {len(tokens)} new "
            f"tokens, fewer than 99 %; set tokenizer.new_tokens lower, or add text. Not produced: {' '.join(missing)}"
        )


def _selection_report(selection: Selection, proof: Proof) -> dict[str, Any]:
    missing = [token for token, count in zip(selection.tokens, proof.produced, strict=True) if not count]
    return {
        "new_tokens": len(selection.tokens),
        "new_tokens_produced": len(selection.tokens) - len(missing),
        "new_tokens_not_produced": missing,
        "bridges": len(selection.bridges),
        "bridges_first": selection.bridges[:_LISTED],
        "passed_over": len(selection.passed_over),
        "passed_over_first": selection.passed_over[:_LISTED],
    }


def _proof_report(name: str, proof: Proof) -> dict[str, int]:
    return {
        f"{name}_lines": proof.lines,
        f"{name}_lines_with_new_tokens": proof.lines_with_new_tokens,
        f"{name}_tokens_before": proof.tokens_before,
        f"{name}_tokens_after": proof.tokens_after,
        f"{name}_differences": proof.differences,
    }
