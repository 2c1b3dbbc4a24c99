"""A new embedding table (or LM head, or its bias) from the old one and a mapping."""

from dataclasses import dataclass

import numpy as np
import torch

from tasks.embeddings.token_mapping import TokenMapping
from tasks.embeddings.weighted_rows import COLUMNS

_ROWS = 4096


@dataclass(frozen=True)
class TableReport:
    """What was found in a new table.

    Attributes:
        drawn: rows drawn at random.
        zero: rows of zeros, all made of source rows of zeros.
        mean_norm: mean Euclidean length of the rows.
        source_mean_norm: that of the old table.
    """

    drawn: int
    zero: int
    mean_norm: float
    source_mean_norm: float


def new_table(table: torch.Tensor, mapping: TokenMapping, rng: np.random.Generator) -> torch.Tensor:
    """The mapping applied to `table`; uncovered rows drawn from N(mean, standard deviation) of its own rows.

    Mean and standard deviation are taken in each dimension over the rows of the source vocabulary; rows beyond it
    (padding to a round number) are left out.

    Args:
        table: [rows, h] or [rows], floating.
        mapping: its source vocabulary is not larger than `rows`, unless no weight is on what is missing.
        rng: source of the drawn rows.

    Returns:
        [target size, h] or [target size], the table's type.
    """
    result = mapping.apply(table)
    drawn = torch.from_numpy(np.flatnonzero(~mapping.covered()))
    if len(drawn):
        flat, out = (values.reshape(len(values), -1) for values in (table[: mapping.source_size], result))
        for start in range(0, flat.shape[1], COLUMNS):
            block = flat[:, start : start + COLUMNS].to(torch.float32)
            noise = torch.from_numpy(rng.standard_normal((len(drawn), block.shape[1]), dtype=np.float32))
            rows = block.mean(dim=0) + noise * block.std(dim=0, correction=0)
            out[drawn, start : start + COLUMNS] = rows.to(out.dtype)
    return result


def check_table(name: str, new: torch.Tensor, old: torch.Tensor, mapping: TokenMapping) -> TableReport:
    """Figures on a new table.

    Args:
        name: the table's name in errors.
        new: [target size, h].
        old: [rows, h].
        mapping: from `old` to `new`.

    Raises:
        RuntimeError: a row of `new` is not finite, or is zero although it has a source row that is not.
    """
    norms, old_norms = _norms(new), _norms(old[: mapping.source_size])
    if not bool(torch.isfinite(norms).all()):
        first = int(torch.nonzero(~torch.isfinite(norms))[0])
        raise RuntimeError(f"{name}: row {first} of the new table is not finite")
    zero = (norms == 0).numpy()
    row_sum = np.zeros(mapping.target_size)
    np.add.at(row_sum, mapping.rows.row_of_entry(), old_norms.numpy()[mapping.source_ids])
    unexplained = np.flatnonzero(zero & ((row_sum > 0) | ~mapping.covered()))
    if len(unexplained):
        raise RuntimeError(f"{name}: row {unexplained[0]} of the new table is zero, its sources are not")
    return TableReport(
        drawn=int((~mapping.covered()).sum()),
        zero=int(zero.sum()),
        mean_norm=float(norms.double().mean()),
        source_mean_norm=float(old_norms.double().mean()),
    )


def _norms(table: torch.Tensor) -> torch.Tensor:
    """Euclidean length of each row, in float32."""
    blocks = (table[start : start + _ROWS] for start in range(0, len(table), _ROWS))
    return torch.cat([torch.linalg.vector_norm(block.to(torch.float32), dim=1) for block in blocks])
