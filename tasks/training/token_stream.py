"""A corpus as one row of tokens on disk, with the boundaries of its documents."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from storage.tables import read_batches
from tasks.contract import Progress, no_progress
from tasks.training.array_folder import ArrayFolderWriter, open_arrays
from tasks.training.text_encoder import TextEncoder

BATCH_ROWS = 1024
CHECKED = 100  # texts
DTYPES = {"tokens": "int32", "documents": "int64"}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenStream:
    """The tokens of a corpus, document after document, mapped from disk.

    Attributes:
        tokens: [tokens] int32.
        offsets: [documents + 1] int64; document i is `tokens[offsets[i]:offsets[i + 1]]`.
    """

    tokens: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return len(self.offsets) - 1


def encode_corpus(corpus: Path, encoder: TextEncoder, work: Path, progress: Progress = no_progress) -> TokenStream:
    """Encode the column `text` of the Parquet file `corpus`, each document as `BOS text EOS`, in file order.

    The tokens are written to `work`/tokens once; a later call with the same `work` reads them.

    Raises:
        InputError: transformers gives other tokens for the first texts.
    """
    folder = work / "tokens"
    arrays = open_arrays(folder, DTYPES)
    if arrays is not None:
        log.info("the text is already encoded: %d tokens", len(arrays["tokens"]))
        return TokenStream(arrays["tokens"], arrays["documents"])
    rows = pq.read_metadata(corpus).num_rows
    documents = tokens = 0
    with ArrayFolderWriter(folder, DTYPES) as writer:
        writer.append("documents", np.zeros(1, dtype=np.int64))
        for batch in read_batches(corpus, columns=["text"], batch_rows=BATCH_ROWS):
            texts = batch.column("text").to_pylist()
            if documents == 0:
                encoder.check(texts[:CHECKED])
            encoded, lengths = encode_documents(encoder, texts)
            writer.append("tokens", encoded)
            writer.append("documents", tokens + np.cumsum(lengths))
            documents, tokens = documents + batch.num_rows, tokens + len(encoded)
            progress(documents, rows, "documents", f"encoding, {tokens} tokens")
        arrays = writer.publish({"documents": documents, "tokens": tokens})
    return TokenStream(arrays["tokens"], arrays["documents"])


def encode_documents(encoder: TextEncoder, texts: Sequence[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """As `TextEncoder.encode`, with lengths: [tokens] int32, all `texts` in a row; [texts] int64, tokens of each."""
    encodings = encoder.encodings(texts)
    marks = (encoder.bos is not None) + (encoder.eos is not None)
    lengths = np.fromiter((len(encoding) for encoding in encodings), dtype=np.int64, count=len(encodings)) + marks
    ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), dtype=np.int32)
    tokens = np.empty(int(lengths.sum()), dtype=np.int32)
    ends = np.cumsum(lengths)
    inside = np.ones(len(tokens), dtype=bool)
    for mark, places in ((encoder.bos, ends - lengths), (encoder.eos, ends - 1)):
        if mark is not None:
            tokens[places] = mark
            inside[places] = False
    tokens[inside] = ids
    return tokens, lengths
