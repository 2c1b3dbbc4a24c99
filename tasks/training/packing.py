"""A corpus as one row of tokens on disk, cut into sequences of one length without padding."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from storage.tables import read_batches
from tasks.contract import InputError, Progress, no_progress
from tasks.training.durable import empty_folder, publish_folder
from tasks.training.text_encoder import TextEncoder

BATCH_ROWS = 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PackedText:
    """Packed text.

    Attributes:
        sequences: [sequences, length] int32, mapped from disk.
        documents: documents read.
        tokens: tokens of all documents, those of the incomplete last sequence included.
    """

    sequences: npt.NDArray[np.int32]
    documents: int
    tokens: int


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
    folder = work / "tokens"
    counts = _read_counts(folder)
    if counts is None:
        counts = _write_tokens(corpus, encoder, folder, progress)
    if counts["tokens"] < length:
        raise InputError(
            f"the training text has {counts['tokens']} tokens in {counts['documents']} documents, fewer than one "
            f"sequence of {length}: lower sequence_length to at most {counts['tokens']}, or add text to the corpus"
        )
    tokens = np.memmap(folder / "tokens.int32", dtype=np.int32, mode="r")
    return PackedText(cut(tokens, length), counts["documents"], counts["tokens"])


def _read_counts(folder: Path) -> dict[str, int] | None:
    try:
        counts: dict[str, int] = json.loads((folder / "counts.json").read_text(encoding="utf-8"))
        size = (folder / "tokens.int32").stat().st_size
    except (OSError, ValueError):
        return None
    if size != 4 * counts["tokens"]:
        log.warning("%s has %d bytes, not those of %d tokens: encoding again", folder, size, counts["tokens"])
        return None
    log.info("the text is already encoded: %d tokens", counts["tokens"])
    return counts


def _write_tokens(corpus: Path, encoder: TextEncoder, folder: Path, progress: Progress) -> dict[str, int]:
    unfinished = empty_folder(folder.with_name("tokens.unfinished"))
    rows = pq.read_metadata(corpus).num_rows
    documents = tokens = 0
    with (unfinished / "tokens.int32").open("wb") as file:
        for batch in read_batches(corpus, columns=["text"], batch_rows=BATCH_ROWS):
            encoded = encoder.encode(batch.column("text").to_pylist())
            encoded.tofile(file)
            documents += batch.num_rows
            tokens += len(encoded)
            progress(documents, rows, "documents", f"encoding, {tokens} tokens")
    counts = {"documents": documents, "tokens": tokens}
    (unfinished / "counts.json").write_text(json.dumps(counts), encoding="utf-8")
    publish_folder(unfinished, folder)
    return counts
