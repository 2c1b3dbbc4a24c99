"""What an evaluation reads and where it runs: the text, the device."""

from itertools import islice
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq
import torch

from tasks.contract import InputError


def pick_device(wanted: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """The device to run on; 'auto' takes a GPU where there is one.

    Raises:
        InputError: 'cuda' was asked for and there is none.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError("evaluation.device is 'cuda' but PyTorch sees no GPU; take 'auto' or 'cpu'")
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def read_texts(corpus: Path, split: str, limit: int) -> list[str]:
    """The first `limit` texts of a split.

    Raises:
        InputError: the split is missing or empty.
    """
    path = corpus / f"{split}.parquet"
    if not path.is_file():
        raise InputError(
            f"corpus: there is no {split}.parquet in {corpus.name!r}; evaluation.split names a split of it"
        )
    with pq.ParquetFile(path) as file:
        columns = file.iter_batches(batch_size=min(limit, 65_536), columns=["text"])
        texts = (text for batch in columns for text in batch.column("text").to_pylist())
        kept = list(islice(texts, limit))
    if not kept:
        raise InputError(
            f"corpus: the {split} split has no text to evaluate on; raise corpus.{split}_share, "
            "or mark one source with `split: " + split + "`"
        )
    return kept


def check_ids(token_ids: list[list[int]], vocabulary: int, folder: Path) -> None:
    """Nothing, if every id has a row in the model's embeddings of `vocabulary` rows.

    Raises:
        InputError: an id is beyond the embeddings: the tokenizer belongs to another model.
    """
    highest = max((max(ids) for ids in token_ids if ids), default=-1)
    if highest >= vocabulary:
        raise InputError(
            f"model: the tokenizer in {folder.name!r} gives token id {highest}, but the model's embeddings have "
            f"{vocabulary} rows (ids 0 to {vocabulary - 1}); model and tokenizer do not belong together"
        )
