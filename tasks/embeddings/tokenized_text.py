"""The texts of a corpus as lists of tokens or words, gone through as often as wanted."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from storage.tables import read_batches

WORD = re.compile(r"\w+(?:[-'’]\w+)*")
_BATCH = 4096


class TokenizedText:
    """The texts of a Parquet file as lists of a tokenizer's tokens.

    They are tokenised once; the ids are kept in two files, so that going through them again costs little and nothing
    holds the corpus in memory.

    Args:
        path: the Parquet file.
        column: the column of the text.
        tokenizer: transformers' fast tokenizer.
        work: empty folder for the two files.
    """

    def __init__(self, path: Path, column: str, tokenizer: Any, work: Path) -> None:
        backend = tokenizer.backend_tokenizer
        self._files = (work / "ids", work / "lengths")
        size = max(tokenizer.get_vocab().values(), default=-1) + 1
        self._tokens = [backend.id_to_token(i) or "" for i in range(size)]
        with self._files[0].open("wb") as ids, self._files[1].open("wb") as lengths:
            for batch in read_batches(path, [column], _BATCH):
                encodings = backend.encode_batch(batch.column(0).to_pylist(), add_special_tokens=False)
                lengths.write(np.array([len(encoding) for encoding in encodings], dtype=np.int64).tobytes())
                ids.write(np.array([i for encoding in encodings for i in encoding.ids], dtype=np.int32).tobytes())

    def __iter__(self) -> Iterator[list[str]]:
        with self._files[0].open("rb") as ids, self._files[1].open("rb") as lengths:
            while len(counts := np.frombuffer(lengths.read(8 * _BATCH), dtype=np.int64)):
                block = np.frombuffer(ids.read(4 * int(counts.sum())), dtype=np.int32)
                tokens = [self._tokens[i] for i in block.tolist()]
                ends = np.cumsum(counts).tolist()
                for start, end in zip([0, *ends[:-1]], ends, strict=True):
                    yield tokens[start:end]


class WordText:
    """The texts of a Parquet file as lists of words.

    Args:
        path: the Parquet file.
        column: the column of the text.
    """

    def __init__(self, path: Path, column: str) -> None:
        self._path, self._column = path, column

    def __iter__(self) -> Iterator[list[str]]:
        for batch in read_batches(self._path, [self._column], _BATCH):
            for text in batch.column(0).to_pylist():
                yield WORD.findall(text)
