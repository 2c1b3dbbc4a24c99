"""A new embedding table (or LM head, or its bias) from the old one, a mapping and rows given as numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.contract import InputError
from tasks.embeddings.row_norms import match_norms, row_norms
from tasks.embeddings.token_mapping import TokenMapping
from tasks.embeddings.weighted_rows import COLUMNS, weighted_rows

_ROWS = 4096
TableName = Literal["input embeddings", "LM head", "LM head's bias"]
# An own stream of random numbers for each table.
_STREAM: dict[str, int] = {"input embeddings": 0, "LM head": 1, "LM head's bias": 2}


@dataclass(frozen=True)
class NewRows:
    """Where the rows of a vocabulary come from in one table.

    Attributes:
        mapping: the weighted means.
        seed: of the rows that neither `mapping` nor `dense` gives.
        dense_ids: int64 [R], ascending: rows given as numbers.
        dense: float32 [R, h], those rows; None only where R is 0, or for a bias (these rows get its mean).
    """

    mapping: TokenMapping
    seed: int
    dense_ids: NDArray[np.int64]
    dense: NDArray[np.float32] | None = None

    @property
    def drawn(self) -> NDArray[np.int64]:
        """Rows drawn at random: int64, ascending."""
        drawn = ~self.mapping.covered()
        drawn[self.dense_ids] = False
        return np.flatnonzero(drawn)

    @property
    def copied(self) -> NDArray[np.int64]:
        """Rows with one source, of which they are copies: int64, ascending."""
        return np.flatnonzero(self.mapping.rows.counts() == 1)

    @property
    def copied_from(self) -> NDArray[np.int64]:
        """The sources of the rows `copied`: int64."""
        return np.asarray(self.mapping.source_ids[self.mapping.indptr[:-1][self.copied]], dtype=np.int64)


def new_table(
    name: TableName,
    table: torch.Tensor,
    parts: Sequence[NewRows],
    norms: Literal["keep", "match"] = "keep",
    size: int | None = None,
) -> torch.Tensor:
    """The rows of the vocabularies in `parts`, one vocabulary after the other, made of those of `table`.

    A row of the mapping is the weighted mean; a dense row is as given; any other is drawn from N(mean, standard
    deviation) of `table`'s own rows in each dimension. Rows of `table` beyond the source vocabulary (padding to a round
    number) count in no figure. With `norms` 'match', the rows of each part that are no copies are scaled by
    `match_norms`. Rows from the last part's end to `size` are the mean of all rows before them.

    Args:
        name: which table it is.
        table: [rows, h], or [rows] for the bias; floating.
        parts: the vocabularies; one, or two for a model that reads both (the second's ids follow the first's).
        norms: what is done with the rows' lengths; a bias keeps its numbers.
        size: rows of the result; None: those of the parts.

    Returns:
        [size, h] or [size], the table's type.

    Raises:
        InputError: a mapping reads rows that `table` does not have or that are not finite, or dense rows are of another
            width.
    """
    sizes = [part.mapping.target_size for part in parts]
    total = sum(sizes)
    result = torch.empty(total if size is None else size, *table.shape[1:], dtype=table.dtype)
    start = 0
    for part, rows in zip(parts, sizes, strict=True):
        check_source(name, table, part.mapping)
        made = result[start : start + rows]
        weighted_rows(part.mapping.rows, table, out=made)
        _draw(made, table[: part.mapping.source_size], part.drawn, np.random.default_rng([part.seed, _STREAM[name]]))
        _set_dense(name, made, table[: part.mapping.source_size], part)
        if norms == "match" and table.ndim == 2:
            changed = np.setdiff1d(np.arange(rows), part.copied)
            match_norms(made, changed, row_norms(table[: part.mapping.source_size]))
        start += rows
    if len(result) > total:
        result[total:] = torch.from_numpy(_mean(result[:total])).to(result.dtype)
    return result


def check_source(name: str, table: torch.Tensor, mapping: TokenMapping) -> None:
    """Refuse a table with fewer rows than `mapping` reads, or with source tokens' rows that are not finite.

    Raises:
        InputError: as said.
    """
    beyond = np.unique(mapping.source_ids[mapping.source_ids >= len(table)])
    if len(beyond):
        rows = np.unique(mapping.rows.row_of_entry()[mapping.source_ids >= len(table)])
        raise InputError(
            f"source model: rows in the {name}: {len(table)}; model and tokenizer do not belong together, or tokens "
            f"were added to the source tokenizer and never to the model: the mapping reads source tokens "
            f"{_some(beyond)} for {len(rows)} new tokens ({_some(rows)}). Leave the added tokens out of a trained "
            "vocabulary (tokenizer.keep_added_tokens: false), take them out of the source tokenizer's files, or resize "
            "the source model's embeddings and train them"
        )
    known = table[: mapping.source_size].reshape(min(mapping.source_size, len(table)), -1)
    for start in range(0, len(known), _ROWS):
        bad = ~torch.isfinite(known[start : start + _ROWS]).all(dim=1)
        if bool(bad.any()):
            row = start + int(torch.nonzero(bad)[0])
            raise InputError(f"source model: row {row} of the {name} is not finite; its weights are damaged")


def _draw(out: torch.Tensor, known: torch.Tensor, drawn: NDArray[np.int64], rng: np.random.Generator) -> None:
    if not len(drawn):
        return
    ids = torch.from_numpy(drawn)
    flat, target = (values.reshape(len(values), -1) for values in (known, out))
    for start in range(0, flat.shape[1], COLUMNS):
        mean, deviation = _moments(flat[:, start : start + COLUMNS])
        noise = rng.standard_normal((len(drawn), len(mean)), dtype=np.float32)
        rows = mean.astype(np.float32) + noise * deviation.astype(np.float32)
        target[ids, start : start + COLUMNS] = torch.from_numpy(rows).to(out.dtype)


def _set_dense(name: str, out: torch.Tensor, known: torch.Tensor, part: NewRows) -> None:
    if not len(part.dense_ids):
        return
    ids = torch.from_numpy(part.dense_ids)
    if part.dense is None:
        if out.ndim == 2:
            raise InputError(f"mapping: it gives rows as numbers, but none for the {name}; build the mapping again")
        out[ids] = torch.from_numpy(_mean(known)).to(out.dtype)
        return
    if out.ndim != 2 or part.dense.shape[1] != out.shape[1]:
        raise InputError(
            f"mapping: its dense rows for the {name} are {list(part.dense.shape)}, the source model's table has "
            f"{list(known.shape)}; the mapping was made for another model"
        )
    for start in range(0, len(ids), _ROWS):
        out[ids[start : start + _ROWS]] = torch.from_numpy(part.dense[start : start + _ROWS]).to(out.dtype)


def _mean(rows: torch.Tensor) -> NDArray[np.float64]:
    """Mean row; summed in float64, block by block, by one thread, so that its last digit is the same everywhere."""
    blocks = (block.sum(axis=0, dtype=np.float64) for block in _blocks(rows))
    return np.asarray(sum(blocks, np.zeros(rows.shape[1:])) / len(rows))


def _moments(rows: torch.Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation (of the whole, not of a sample) in each dimension; summed as `_mean` does."""
    mean = _mean(rows)
    squares = (np.square(block - mean).sum(axis=0) for block in _blocks(rows))
    return mean, np.sqrt(sum(squares, np.zeros(rows.shape[1:])) / len(rows))


def _blocks(rows: torch.Tensor) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(rows), _ROWS):
        yield rows[start : start + _ROWS].to(torch.float32).numpy()


def _some(ids: NDArray[np.integer]) -> str:  # type: ignore[type-arg]  # any width
    shown = ", ".join(str(i) for i in ids[:5].tolist())
    return shown + (", ..." if len(ids) > 5 else "")
