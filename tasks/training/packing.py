"""A corpus as rows of one number of tokens: cut from one row of text (plain), or put together of whole documents."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tasks.contract import InputError, Progress, no_progress
from tasks.training.array_folder import ArrayFolder, ArrayFolderWriter, open_arrays
from tasks.training.packed_batch import PADDING, Batch, plain_batch
from tasks.training.row_filling import fill_rows
from tasks.training.text_encoder import TextEncoder
from tasks.training.token_stream import TokenStream, encode_corpus

WINDOW = 65_536
DTYPES = {"starts": "int64", "lengths": "int32", "documents": "int64", "rows": "int64", "filled": "int32"}

log = logging.getLogger(__name__)


class TextRows(Protocol):
    """A text in rows of one length."""

    @property
    def length(self) -> int:
        """Tokens of a row, padding included."""

    @property
    def tokens_in_rows(self) -> int:
        """Tokens of all rows, without padding."""

    def __len__(self) -> int:
        """How many rows there are."""

    def read(self, rows: npt.NDArray[np.int64]) -> Batch:
        """The rows with the numbers `rows` ([n] int64)."""

    def filled(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Tokens in each of `rows` ([n] int64), without padding: [n] int64."""


@dataclass(frozen=True)
class PackedText:
    """Plain rows: a sequence may hold several documents or a part of one, and is treated as one document.

    Attributes:
        sequences: [sequences, length] int32, mapped from disk.
        documents: documents read.
        tokens: tokens of all documents, those of the incomplete last sequence included.
    """

    sequences: npt.NDArray[np.int32]
    documents: int
    tokens: int

    @property
    def length(self) -> int:
        """Tokens of a row."""
        return int(self.sequences.shape[1])

    @property
    def tokens_in_rows(self) -> int:
        """Tokens of all rows."""
        return self.sequences.size

    def __len__(self) -> int:
        return len(self.sequences)

    def read(self, rows: npt.NDArray[np.int64]) -> Batch:
        """The rows with the numbers `rows` ([n] int64)."""
        return plain_batch(self.sequences, rows)

    def filled(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Tokens in each of `rows`: [n] int64."""
        return np.full(len(rows), self.length, dtype=np.int64)


def cut(tokens: npt.NDArray[np.int32], length: int) -> npt.NDArray[np.int32]:
    """The row `tokens` ([tokens]) as whole sequences: [tokens // length, length], a view; the rest is left out."""
    count = len(tokens) // length
    return tokens[: count * length].reshape(count, length)


def pack(corpus: Path, encoder: TextEncoder, length: int, work: Path, progress: Progress = no_progress) -> PackedText:
    """Encode the column `text` of the Parquet file `corpus` and cut it into sequences of `length` tokens.

    Documents follow one another in file order as `BOS text EOS`; a sequence may hold several, or a part of one. The
    tokens are written to `work`/tokens once; a later call with the same `work` reads them.

    Raises:
        InputError: the text has fewer tokens than one sequence.
    """
    stream = encode_corpus(corpus, encoder, work, progress)
    tokens = len(stream.tokens)
    if tokens == 0:
        raise InputError("the training text is empty: look at the rejections of its corpus, or add sources")
    if tokens < length:
        raise InputError(
            f"the training text has {tokens} tokens in {stream.documents} documents, fewer than one "
            f"sequence of {length}: lower sequence_length to at most {tokens}, or add text to the corpus"
        )
    return PackedText(cut(stream.tokens, length), stream.documents, tokens)


class PackedDocuments:
    """Rows of whole documents, read from the token stream where they stand.

    Attributes:
        length: tokens of a row, padding included.
        documents: documents read.
        tokens: tokens of all documents.
        tokens_in_rows: tokens of all rows, without padding; pieces of one token are in no row, since nothing in them
            can be predicted.
    """

    def __init__(self, stream: TokenStream, pieces: ArrayFolder, length: int) -> None:
        self._stream, self._pieces = stream, pieces
        self.length = length
        self.documents, self.tokens = stream.documents, len(stream.tokens)
        self.tokens_in_rows = int(pieces.facts["tokens_in_rows"])

    def __len__(self) -> int:
        return len(self._pieces["filled"])

    @property
    def filling(self) -> float:
        """Share of the rows' places that holds tokens; the rest is padding."""
        return self.tokens_in_rows / (len(self) * self.length)

    def filled(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Tokens in each of `rows` ([n] int64), without padding: [n] int64."""
        return self._pieces["filled"][rows].astype(np.int64)

    def read(self, rows: npt.NDArray[np.int64]) -> Batch:
        """The rows with the numbers `rows` ([n] int64)."""
        firsts, lasts = self._pieces["rows"][rows], self._pieces["rows"][rows + 1]
        pieces = _ranges(firsts, lasts - firsts)
        lengths = self._pieces["lengths"][pieces].astype(np.int64)
        filled = self.filled(rows)
        within = _ranges(np.zeros_like(lengths), lengths)
        columns = _ranges(np.zeros_like(filled), filled)
        places = columns + np.repeat(np.arange(len(rows)) * self.length, filled)
        shape = (len(rows), self.length)
        tokens = np.zeros(shape, dtype=np.int64)
        documents = np.full(shape, PADDING, dtype=np.int64)
        positions = np.arange(self.length) - filled[:, None]
        tokens.flat[places] = self._stream.tokens[np.repeat(self._pieces["starts"][pieces], lengths) + within]
        documents.flat[places] = np.repeat(self._pieces["documents"][pieces], lengths)
        positions.flat[places] = within
        return Batch(tokens, documents, positions)


def pack_documents(
    corpus: Path, encoder: TextEncoder, length: int, work: Path, seed: int, progress: Progress = no_progress
) -> PackedDocuments:
    """Encode the column `text` of the Parquet file `corpus` and put its documents together into rows of `length`.

    Every document is `BOS text EOS` and stands in one row; a document longer than a row is split into parts of `length`
    tokens and a rest. Rows are made of documents that are at most `WINDOW` apart in the corpus, so that memory does not
    grow with it. Tokens are written to `work`/tokens, rows to `work`/rows, once; a later call with the same `work`,
    `length` and `seed` reads them.

    Raises:
        InputError: no document has two tokens, so that there is nothing to predict.
    """
    stream = encode_corpus(corpus, encoder, work, progress)
    wanted = {"length": length, "seed": seed, "window": WINDOW, "documents": stream.documents}
    pieces = open_arrays(work / "rows", DTYPES)
    if pieces is None or any(pieces.facts[name] != value for name, value in wanted.items()):
        with ArrayFolderWriter(work / "rows", DTYPES) as writer:
            tokens_in_rows = _write_rows(writer, stream, length, seed, progress)
            pieces = writer.publish({**wanted, "tokens_in_rows": tokens_in_rows})
    if len(pieces["filled"]) == 0:
        raise InputError(
            f"the training text has {len(stream.tokens)} tokens in {stream.documents} documents, none of them with the "
            "two tokens that a prediction needs: add text to the corpus"
        )
    packed = PackedDocuments(stream, pieces, length)
    log.info(
        "%d documents in %d rows of %d, %.2f %% filled", stream.documents, len(packed), length, packed.filling * 100
    )
    return packed


def _write_rows(writer: ArrayFolderWriter, stream: TokenStream, length: int, seed: int, progress: Progress) -> int:
    pieces_so_far = tokens = 0
    writer.append("rows", np.zeros(1, dtype=np.int64))
    for window, first in enumerate(range(0, stream.documents, WINDOW)):
        offsets = np.asarray(stream.offsets[first : first + WINDOW + 1])
        starts, lengths, documents = _split(offsets, length)
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy=seed, spawn_key=(window,))))
        rows = fill_rows(lengths, length, generator)
        order = np.argsort(rows, kind="stable")
        for name, values in (("starts", starts), ("lengths", lengths), ("documents", first + documents)):
            writer.append(name, values[order])
        writer.append("rows", pieces_so_far + np.cumsum(np.bincount(rows)))
        writer.append("filled", np.bincount(rows, weights=lengths))
        pieces_so_far, tokens = pieces_so_far + len(rows), tokens + int(lengths.sum())
        progress(first + len(offsets) - 1, stream.documents, "documents", "putting documents together into rows")
    return tokens


def _split(
    offsets: npt.NDArray[np.int64], length: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Documents between `offsets` as pieces of at most `length` tokens: start, length, document of each, int64."""
    sizes = np.diff(offsets)
    counts = -(-sizes // length)
    documents = np.repeat(np.arange(len(sizes)), counts)
    before = _ranges(np.zeros_like(counts), counts) * length
    lengths = np.minimum(length, sizes[documents] - before)
    kept = lengths > 1
    return (offsets[documents] + before)[kept], lengths[kept], documents[kept]


def _ranges(firsts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """`counts[0]` numbers from `firsts[0]` on, then `counts[1]` from `firsts[1]` on…: [sum of counts] int64."""
    skipped = np.cumsum(counts) - counts
    numbers: npt.NDArray[np.int64] = np.repeat(firsts - skipped, counts) + np.arange(int(counts.sum()))
    return numbers
