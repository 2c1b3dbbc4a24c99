"""Align (low-resource vocabulary expansion 2024, section 4.3): a new token as the old tokens found in its place."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from configs.schema import AlignInitConfig
from storage.tables import read_batches
from tasks.embeddings.copied_rows import OwnRows, completed, copied_rows
from tasks.embeddings.init.merge import merge_rules, merged_rows
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.sparse_rows import SparseRows
from tasks.embeddings.token_mapping import TokenMapping
from tasks.embeddings.token_spans import SpanReader, Spans, joined, matched

_SENTENCES = 2048
_Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def build(given: Ingredients) -> TokenMapping:
    """Special and shared tokens copied; a new token is the mean over its occurrences of the source tokens in its place.

    For a new token with source tuples tau of frequency f: sum over tau of (f / sum of f) times the mean of tau's rows,
    which is the mean over occurrences of the mean of the tuple found there (special tokens, such as the unknown one,
    left out of it). A new token that occurs nowhere is made by `config.align.unseen`: along the merge rules (where the
    target tokenizer has some), or the mean of its pieces.

    Differs from the published code, which lets the beginning-of-sentence token into the mean of sentence-initial tokens
    and counts one occurrence of a token in a sentence.

    Raises:
        ValueError: the tokenizers or the corpus were not given.
    """
    if given.tokenizers is None or given.corpus is None:
        raise ValueError("align needs the tokenizers and the corpus")
    config = given.config.align or AlignInitConfig()
    copied = copied_rows(given.target, given.source)
    new = np.zeros(len(given.target), dtype=bool)
    new[copied.rest] = True
    new &= ~given.target.special
    found = _occurrences(given, new, _texts(given.corpus / "train.parquet", config.max_sentences))
    rows = np.flatnonzero(new)
    own = [OwnRows("align", rows, found.take(rows).normalised())]
    rules = merge_rules(given.tokenizers[0], given.target) if config.unseen == "merge" else None
    if rules is not None:
        own += merged_rows(given, copied, rules)
    return completed(given, copied, own)


def _texts(path: Path, limit: int) -> Iterator[list[str]]:
    """At most `limit` texts, evenly spread over the file, in its order."""
    rows = pq.read_metadata(path).num_rows
    wanted = np.arange(rows) if rows <= limit else np.arange(limit) * rows // limit
    start = 0
    for batch in read_batches(path, ["text"], _SENTENCES if rows <= limit else 65_536):
        here = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, start + batch.num_rows)] - start
        texts = batch.column(0).take(here).to_pylist()
        for first in range(0, len(texts), _SENTENCES):
            yield texts[first : first + _SENTENCES]
        start += batch.num_rows


def _occurrences(given: Ingredients, new: NDArray[np.bool_], batches: Iterator[list[str]]) -> SparseRows:
    """For each new token, the summed weights of the source tokens in its places, 1 for each occurrence.

    Entries are summed whenever those not yet summed are more than those that are: memory grows with the pairs of tokens
    that occur, not with the text.
    """
    target_tokenizer, source_tokenizer = given.tokenizers or (None, None)
    target = SpanReader(target_tokenizer, given.target)
    source = SpanReader(source_tokenizer, given.source)
    size = len(given.target)
    total = SparseRows.from_coo(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), size)
    waiting: list[_Entries] = []
    for texts in batches:
        waiting.append(_found(*_both(target, source, texts), new, ~given.source.special))
        if sum(len(rows) for rows, _, _ in waiting) > len(total.ids):
            total, waiting = _summed(total, waiting), []
    return _summed(total, waiting)


def _found(target: Spans, source: Spans, new: NDArray[np.bool_], usable: NDArray[np.bool_]) -> _Entries:
    """(new token, source token, share) of the usable source tokens in the places of new tokens, shared out equally."""
    wanted = new[target.ids]
    first, last = matched(target, source, wanted)
    counts = last - first
    occurrence = np.repeat(np.arange(len(counts)), counts)
    ids = source.ids[first[occurrence] + np.arange(len(occurrence)) - (np.cumsum(counts) - counts)[occurrence]]
    occurrence, ids = occurrence[usable[ids]], ids[usable[ids]]
    shares = 1.0 / np.bincount(occurrence, minlength=len(counts))[occurrence]
    return target.ids[wanted][occurrence], ids, shares


def _summed(total: SparseRows, waiting: list[_Entries]) -> SparseRows:
    entries = [(total.row_of_entry(), total.ids.astype(np.int64), total.weights), *waiting]
    rows, ids, weights = (np.concatenate(column) for column in zip(*entries, strict=True))
    return SparseRows.from_coo(rows, ids, weights, len(total))


def _both(target: SpanReader, source: SpanReader, texts: list[str]) -> tuple[Spans, Spans]:
    """The tokens of both tokenizers on `texts`; on each text either both by bytes or both by characters."""
    encodings = [reader.encode(texts) for reader in (target, source)]
    data = [text.encode("utf-8", "surrogatepass") for text in texts]
    spans = [reader.byte_spans(own, data) for reader, own in zip((target, source), encodings, strict=True)]
    pairs = [
        (left, right)
        if left is not None and right is not None
        else (target.character_spans(one), source.character_spans(other))
        for left, right, one, other in zip(*spans, *encodings, strict=True)
    ]
    widths = [len(text) + 2 for text in data]
    return joined([pair[0] for pair in pairs], widths), joined([pair[1] for pair in pairs], widths)


METHOD = Initialiser(
    name="align", build=build, paper="low-resource vocabulary expansion 2024, section 4.3", needs=("corpus",)
)
