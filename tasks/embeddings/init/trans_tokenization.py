"""Trans-tokenization (Remy et al. 2024, section 3): new tokens as the old tokens they are aligned with."""

import numpy as np
import regex
from numpy.typing import NDArray

from configs.schema import TransTokenizationConfig
from tasks.embeddings.bilingual_dictionary import read_dictionary
from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.contained_tokens import contained_tokens
from tasks.embeddings.copied_rows import OwnRows, completed, copied_rows
from tasks.embeddings.dictionary_pairs import dictionary_pairs
from tasks.embeddings.matching import NONE, identical_tokens
from tasks.embeddings.published_mapping import published_mapping
from tasks.embeddings.registry import Ingredients, Initialiser, TokenPairs
from tasks.embeddings.source_pieces import SourcePieces
from tasks.embeddings.sparse_rows import SparseRows
from tasks.embeddings.token_mapping import TokenMapping
from tasks.embeddings.word_counts import read_translation_table, word_counts_of_alignment

_NUMBER_OR_PUNCTUATION = regex.compile(r" ?(?:\p{N}+|[\p{P}\p{S}]+)")

Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def build(given: Ingredients) -> TokenMapping:
    """Counts normalised row by row, special tokens one to one, and a fallback for tokens without counts.

    1. Special tokens: weight 1 on the source's token of the same role, whatever was counted.
    2. Counts: aligned pairs (those with a special token are left out), plus `config.smoothing` on the source token of
       the same text; a number or punctuation that the source does not have with this word start gets it on the same
       text with the other word start, else shared out over its source pieces (white space left out).
       With several source languages, a token's row is the weighted mean of the rows of those languages that have
       aligned pairs of it, each divided by its sum; smoothing alone counts only where no language has any.
    3. A token without counts: the mean of the rows of the longest tokens with counts that it contains, not
       overlapping (`contained_tokens`); else the mean of its source pieces; else the source's unknown token; uncovered
       where the source has none. Fallbacks read only rows of step 2, so no order of the vocabulary matters.

    With a dictionary, its entries take the place of aligned pairs. With `compat: published`, see `published_mapping`.

    Differs from the published code, which reads rows that were themselves filled in, in an order that changes from run
    to run, cuts counts to integers, and weights sources that start a word twice.

    Raises:
        InputError: a dictionary or translation table cannot be read.
        ValueError: no aligned pairs were given, or an id of theirs is out of range.
    """
    settings = given.config.trans_tokenization or TransTokenizationConfig()
    if settings.compat == "published":
        return _published(given, settings)
    target = given.target
    copied = copied_rows(target, given.source).without_shared()
    languages = _languages(given, settings)
    aligned = [_aligned(pairs, target, given.source) for pairs, _ in languages]
    identical, smoothed = _without_evidence(given)
    counted = _counted(aligned, [weight for _, weight in languages], [identical, smoothed], len(target))
    reasons = {"aligned": _joined(aligned), "identical": identical, "smoothed": smoothed}
    rows_of = {name: np.unique(entries[0]) for name, entries in reasons.items()}
    own = [OwnRows(name, rows, counted.take(rows)) for name, rows in rows_of.items()]
    left = np.flatnonzero((counted.counts() == 0) & ~target.special)
    return completed(given, copied, [*own, OwnRows("fallback-parts", left, _mean_of_parts(target, left, counted))])


def _published(given: Ingredients, settings: TransTokenizationConfig) -> TokenMapping:
    if given.tokenizers is None:
        raise ValueError("trans-tokenization with compat 'published' needs both tokenizers")
    if "translation_table" in given.files:
        words = read_translation_table(given.files["translation_table"])
    elif given.alignment is not None:
        words = word_counts_of_alignment(given.alignment, given.source.tokens, given.target.tokens)
    else:
        raise ValueError("trans-tokenization with compat 'published' needs an alignment, or the aligner's table")
    return published_mapping(words, given.tokenizers, (given.target, given.source), settings.min_count)


def _languages(given: Ingredients, settings: TransTokenizationConfig) -> list[tuple[TokenPairs, float]]:
    """The aligned pairs of each source language, with its weight."""
    if "dictionary" in given.files:
        if given.tokenizers is None:
            raise ValueError("trans-tokenization with a dictionary needs both tokenizers")
        cut = SourcePieces(given.tokenizers[0], given.target)
        entries = read_dictionary(given.files["dictionary"])
        return [(dictionary_pairs(entries, given.pieces, cut, len(given.source)), 1.0)]
    if settings.source_languages:
        missing = sorted(set(settings.source_languages) - set(given.pairs_of))
        if missing:
            raise ValueError(f"trans-tokenization needs aligned token pairs of source language {missing[0]!r}")
        return [(given.pairs_of[code], weight) for code, weight in sorted(settings.source_languages.items())]
    if given.pairs is None:
        raise ValueError("trans-tokenization needs aligned token pairs")
    return [(given.pairs, 1.0)]


def _counted(aligned: list[Entries], weights: list[float], without_evidence: list[Entries], size: int) -> SparseRows:
    """Rows of counts; over several languages, each row divided by its sum, their weighted sum."""
    extra = _joined(without_evidence)
    by_any = np.zeros(size, dtype=bool)
    parts: list[Entries] = []
    for own, weight in zip(aligned, weights, strict=True):
        covered = np.zeros(size, dtype=bool)
        covered[own[0]] = True
        by_any |= covered
        rows = SparseRows.from_coo(*_joined([own, _of_rows(extra, covered)]), size).positive()
        scaled = rows if len(aligned) == 1 else rows.normalised()
        parts.append((rows.row_of_entry(), rows.ids.astype(np.int64), weight * scaled.weights))
    parts.append(_of_rows(extra, ~by_any))
    return SparseRows.from_coo(*_joined(parts), size).positive()


def _of_rows(entries: Entries, rows: NDArray[np.bool_]) -> Entries:
    kept = rows[entries[0]]
    return entries[0][kept], entries[1][kept], entries[2][kept]


def _joined(entries: list[Entries]) -> Entries:
    rows, ids, weights = zip(*entries, strict=True)
    return np.concatenate(rows), np.concatenate(ids), np.concatenate(weights)


def _aligned(pairs: TokenPairs, target: Vocabulary, source: Vocabulary) -> Entries:
    """The aligned pairs of two tokens that stand for text, with a count above 0."""
    for side, ids, size in (("target", pairs.target_ids, len(target)), ("source", pairs.source_ids, len(source))):
        if len(ids) and not 0 <= ids.min() <= ids.max() < size:
            raise ValueError(f"{side} ids of aligned pairs must be 0 to {size - 1}, got {ids.min()} to {ids.max()}")
    kept = (pairs.counts > 0) & ~target.special[pairs.target_ids] & ~source.special[pairs.source_ids]
    return pairs.target_ids[kept], pairs.source_ids[kept], pairs.counts[kept]


def _without_evidence(given: Ingredients) -> tuple[Entries, Entries]:
    """Smoothing counts on identical tokens, and on numbers and punctuation that have none."""
    target, source = given.target, given.source
    match = identical_tokens(target, source)
    rows = np.flatnonzero(match != NONE)
    amount = given.config.smoothing
    identical = (rows, match[rows], np.full(len(rows), amount))
    rest = [
        i
        for i in np.flatnonzero((match == NONE) & ~target.special).tolist()
        if _NUMBER_OR_PUNCTUATION.fullmatch(target.keys[i])
    ]
    other = _other_word_start(target, source, rest)
    found = [(i, other[i]) for i in rest if i in other]
    rest = [i for i in rest if i not in other]
    positions, pieces = given.pieces.decompose([target.keys[i] for i in rest])
    spelled = np.array([bool(source.surfaces[i].strip()) for i in pieces.tolist()], dtype=bool)
    positions, pieces = positions[spelled], pieces[spelled]
    share = amount / np.maximum(1, np.bincount(positions, minlength=len(rest)))
    smoothed = (
        np.concatenate([np.array([i for i, _ in found], dtype=np.int64), np.array(rest, dtype=np.int64)[positions]]),
        np.concatenate([np.array([s for _, s in found], dtype=np.int64), pieces]),
        np.concatenate([np.full(len(found), amount), share[positions]]),
    )
    return identical, smoothed


def _other_word_start(target: Vocabulary, source: Vocabulary, rows: list[int]) -> dict[int, int]:
    """For those of `rows` whose text the source has with the other word start, that source token."""
    wanted = {i: key[1:] if (key := target.keys[i]).startswith(" ") else " " + key for i in rows}
    texts = set(wanted.values())
    order = sorted(
        (i for i, key in enumerate(source.keys) if key in texts and not source.special[i]),
        reverse=True,
        key=lambda i: (bool(source.byte[i]), source.tokens[i]),
    )
    by_text = {source.keys[i]: i for i in order}
    return {i: by_text[text] for i, text in wanted.items() if text in by_text}


def _mean_of_parts(target: Vocabulary, rows: NDArray[np.int64], counted: SparseRows) -> SparseRows:
    """For each of `rows`, the mean of the rows of the tokens with counts that it contains; empty where it has none."""
    known = np.flatnonzero((counted.counts() > 0) & ~target.special)
    positions, parts = contained_tokens(target, rows, known)
    taken = counted.take(parts).normalised()
    return SparseRows.from_coo(positions[taken.row_of_entry()], taken.ids, taken.weights, len(rows)).normalised()


METHOD = Initialiser(
    name="trans-tokenization", build=build, paper="Remy et al. 2024, section 3 and appendix E", needs=("counts",)
)
