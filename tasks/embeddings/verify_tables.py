"""Checks of a new vocabulary table against the table that it was made of."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.embeddings.check import Check
from tasks.embeddings.copied_rows import SHARED
from tasks.embeddings.new_table import NewRows
from tasks.embeddings.row_groups import first_equal_mapping_row, first_equal_row
from tasks.embeddings.row_norms import row_norms
from tasks.embeddings.sparse_rows import SparseRows
from tasks.embeddings.weighted_rows import weighted_rows

QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)
NORM_OUTSIDE_SHARE = 0.01
NORM_FACTOR = 10.0
SAMPLED_ROWS = 1000
_BLOCK = 2048
_EPS_FACTOR = 32.0


@dataclass
class TableCheck:
    """A new table, [rows, h], with the old one, [source rows, h], of the same number format, and the new rows' origin.

    Attributes:
        name: the table's name.
        new: the new table, padding rows last.
        old: the source model's.
        rows: where each new row comes from.
        norms: whether lengths of rows were matched.
    """

    name: str
    new: torch.Tensor
    old: torch.Tensor
    rows: NewRows
    norms: Literal["keep", "match"]

    @cached_property
    def new_norms(self) -> NDArray[np.float64]:
        """Lengths of all new rows."""
        return row_norms(self.new)

    @cached_property
    def old_norms(self) -> NDArray[np.float64]:
        """Lengths of the source tokens' rows, padding left out."""
        return row_norms(self.old[: self.rows.mapping.source_size])

    @cached_property
    def equal_to(self) -> NDArray[np.int64]:
        """For each new row the first that is equal to it."""
        return first_equal_row(self.new)

    @property
    def tokens(self) -> int:
        """Rows that stand for a token."""
        return self.rows.mapping.target_size

    def checks(self) -> list[Check]:
        """All checks of a table of embeddings."""
        finite = self.finite()
        if finite.status == "failed":
            return [finite]
        return [finite, self.zero(), self.copies(), self.applied(), self.duplicates(), self.lengths()]

    def value_checks(self) -> list[Check]:
        """The checks that say something of single numbers, for a bias."""
        finite = self.finite()
        return [finite] if finite.status == "failed" else [finite, self.copies(), self.applied()]

    def finite(self) -> Check:
        """No number is NaN or infinite."""
        bad = np.flatnonzero(~np.isfinite(self.new_norms))
        name = f"finite numbers in the {self.name}"
        if len(bad):
            return Check(name, "failed", f"{len(bad)} rows hold NaN or infinity", {"rows": len(bad)}, rows=bad)
        return Check(name, "passed", figures={"rows": 0})

    def zero(self) -> Check:
        """No row is zero unless all that it is made of is."""
        mapping = self.rows.mapping
        zero = self.new_norms[: self.tokens] == 0
        source_sum = np.bincount(
            mapping.rows.row_of_entry(), weights=self.old_norms[mapping.source_ids], minlength=self.tokens
        )
        explained = mapping.covered() & (source_sum == 0)
        if self.rows.dense is not None:
            explained[self.rows.dense_ids] = ~self.rows.dense.any(axis=1)
        bad = np.flatnonzero(zero & ~explained)
        figures = {"rows": int(zero.sum()), "made of zero rows": int((zero & explained).sum())}
        name = f"zero rows of the {self.name}"
        if len(bad):
            return Check(name, "failed", f"{len(bad)} rows are zero, their sources are not", figures, rows=bad)
        if zero.any():
            message = f"{int(zero.sum())} rows are zero because their source rows are"
            return Check(name, "warning", message, figures, rows=np.flatnonzero(zero))
        return Check(name, "passed", figures=figures)

    def copies(self) -> Check:
        """Rows with a single source are its row, bit for bit, and tokens called shared have a single source."""
        copied, sources = self.rows.copied, self.rows.copied_from
        bad = [
            copied[start : start + _BLOCK][_differ(self.new, self.old, copied, sources, start)]
            for start in range(0, len(copied), _BLOCK)
        ]
        changed = np.concatenate([*bad, np.zeros(0, dtype=np.int64)]).astype(np.int64)
        name = f"tokens kept unchanged in the {self.name}"
        mapping = self.rows.mapping
        shared = np.array([origin == SHARED for origin in mapping.origin_names])[mapping.origin]
        mixed = np.setdiff1d(np.flatnonzero(shared), copied)
        figures = {"rows": len(copied), "shared": int(shared.sum()), "changed": len(changed), "mixed": len(mixed)}
        if len(changed):
            return Check(name, "failed", f"{len(changed)} rows differ from their only source's", figures, rows=changed)
        if len(mixed):
            message = f"{len(mixed)} tokens that both vocabularies have are made of more than their own old row"
            return Check(name, "failed", message, figures, rows=mixed)
        return Check(name, "passed", figures=figures)

    def applied(self) -> Check:
        """Of rows spread over the vocabulary, each has the direction (and length, where kept) that its sources give."""
        other = self.rows.drawn if self.rows.dense is not None else np.union1d(self.rows.drawn, self.rows.dense_ids)
        given = np.setdiff1d(np.arange(self.tokens), other)
        sample = given[np.linspace(0, len(given) - 1, min(len(given), SAMPLED_ROWS)).astype(np.int64)]
        wanted, found = self.exact(sample), self.new[torch.from_numpy(sample)].to(torch.float32).numpy()
        if self.norms == "match":
            wanted, found = _directions(wanted), _directions(found)
        scale = np.maximum(np.abs(wanted).max(axis=1, initial=0.0), np.finfo(np.float32).tiny)
        off = np.abs(wanted - found).max(axis=1, initial=0.0) / scale
        bad = sample[off > _tolerance(self.new.dtype)]
        name = f"mapping applied to the {self.name}"
        if len(bad):
            message = f"{len(bad)} of {len(sample)} rows are not what the mapping makes of the source's"
            return Check(name, "failed", message, {"rows": len(sample), "wrong": len(bad)}, rows=bad)
        return Check(name, "passed", figures={"rows": len(sample), "wrong": 0})

    def duplicates(self) -> Check:
        """Equal rows come from equal mapping rows, or from rows equal to the precision of the number format."""
        first = self.equal_to[: self.tokens]
        again = np.flatnonzero(first != np.arange(self.tokens))
        same = first_equal_mapping_row(
            self.rows.mapping.rows, first_equal_row(self.old[: self.rows.mapping.source_size])
        )
        covered = self.rows.mapping.covered()
        unequal = again[(same[again] != same[first[again]]) | ~covered[again] | ~covered[first[again]]]
        blocks = [unequal[start : start + _BLOCK] for start in range(0, len(unequal), _BLOCK)]
        bad = [block[~self._indistinguishable(block, first[block])] for block in blocks]
        unexplained = np.concatenate([*bad, np.zeros(0, dtype=np.int64)]).astype(np.int64)
        figures = {
            "rows": len(again),
            "with equal mapping rows": len(again) - len(unequal),
            "equal in this number format": len(unequal) - len(unexplained),
            "unexplained": len(unexplained),
        }
        name = f"duplicate rows of the {self.name}"
        if len(unexplained):
            message = f"{len(unexplained)} rows equal another row although the mapping makes them differ"
            return Check(name, "failed", message, figures, rows=unexplained)
        if len(again):
            message = f"{len(again)} rows equal another token's, so the model cannot tell these tokens apart yet"
            return Check(name, "warning", message, figures, rows=again)
        return Check(name, "passed", figures=figures)

    def lengths(self) -> Check:
        """Lengths of the rows that are no copies lie within those of the source's rows."""
        made = np.setdiff1d(np.arange(self.tokens), self.rows.copied)
        known = self.old_norms[self.old_norms > 0]
        figures: dict[str, Any] = {"source": _quantiles(known), "new": _quantiles(self.new_norms[: self.tokens])}
        name = f"row lengths of the {self.name}"
        if not len(made) or not len(known):
            return Check(name, "passed", figures=figures)
        low, high = float(known.min()), float(known.max())
        slack = 1 + _tolerance(self.new.dtype)
        norms = self.new_norms[made]
        bad = made[norms > NORM_FACTOR * high]
        if len(bad):
            message = (
                f"{len(bad)} rows are more than {NORM_FACTOR:g} times as long as the longest source row, {high:.4g}; "
                "initial_model.norms=match scales them, and with clp mapping.clp.negative=drop makes none"
            )
            return Check(name, "failed", message, figures, rows=bad)
        short, long = made[norms * slack < low], made[norms > high * slack]
        figures |= {"shorter than any source row": len(short), "longer than any source row": len(long)}
        if len(short) + len(long) > NORM_OUTSIDE_SHARE * len(made):
            message = (
                f"of {len(made)} rows that are no copies, {len(short)} are shorter than the shortest source row, "
                f"{low:.4g}, and {len(long)} longer than the longest, {high:.4g}; initial_model.norms=match scales them"
            )
            return Check(name, "warning", message, figures, rows=np.sort(np.concatenate([short, long])))
        return Check(name, "passed", figures=figures)

    def exact(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """The rows `ids` before any scaling and rounding, float32 [ids, h]; drawn rows are NaN."""
        out = torch.empty(len(ids), self.new.shape[1], dtype=torch.float32)
        rows = self.rows.mapping.rows.take(ids)
        used, place = np.unique(rows.ids, return_inverse=True)
        weighted_rows(
            SparseRows(rows.indptr, place.astype(np.int32), rows.weights), self.old[torch.from_numpy(used)], out=out
        )
        result: NDArray[np.float32] = out.numpy()
        if self.rows.dense is not None and len(self.rows.dense_ids):
            at = np.searchsorted(self.rows.dense_ids, ids).clip(max=len(self.rows.dense_ids) - 1)
            dense = self.rows.dense_ids[at] == ids
            result[dense] = self.rows.dense[at[dense]]
        result[np.isin(ids, self.rows.drawn)] = np.nan
        return result

    def _indistinguishable(self, one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether rows differ by no more than the number format's precision before they are rounded to it."""
        a, b = _directions(self.exact(one)), _directions(self.exact(two))
        return np.asarray(np.linalg.norm(a - b, axis=1) <= _tolerance(self.new.dtype))


def _differ(
    new: torch.Tensor, old: torch.Tensor, copied: NDArray[np.int64], sources: NDArray[np.int64], start: int
) -> NDArray[np.bool_]:
    ids, from_ids = (torch.from_numpy(values[start : start + _BLOCK]) for values in (copied, sources))
    differ: NDArray[np.bool_] = (new[ids].view(torch.uint8) != old[from_ids].view(torch.uint8)).any(dim=1).numpy()
    return differ


def _tolerance(dtype: torch.dtype) -> float:
    """Largest relative difference that rounding explains; rows are made in float32."""
    return _EPS_FACTOR * max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)


def _directions(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _quantiles(norms: NDArray[np.float64]) -> dict[str, float]:
    if not len(norms):
        return {}
    return {f"{q:g}": float(f"{value:.6g}") for q, value in zip(QUANTILES, np.quantile(norms, QUANTILES), strict=True)}
