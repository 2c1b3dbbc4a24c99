"""The vocabulary adapter of VocADT: a full matrix from the old vocabulary to the new one."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tasks.embeddings.sparse_rows import SparseRows
from tasks.training.adapter_sparse import shared_rows
from tasks.training.adapter_support import dense_start
from tasks.training.linear_cross_entropy import IGNORED
from tasks.training.lm_head import LMHead

_TOKENS = 512
_ROWS = 1024


class DenseAdapter(nn.Module):
    """A, [target tokens, source tokens], every entry trained (Han et al. 2025, section 3.1).

    Args:
        start: its first rows; an empty row is drawn (`dense_start`).
        source_size: tokens of the source vocabulary.
        shared: int64 [shared tokens]: target ids whose rows `distance` holds to their start.
        seed: seed of the drawn rows.

    Attributes:
        matrix: float32 [target tokens, source tokens], the only parameter.

    Raises:
        ValueError: `start` is not well formed or reads a token beyond `source_size`, or a shared id is out of range.
    """

    shared_ids: torch.Tensor
    start_rows: torch.Tensor
    start_ids: torch.Tensor
    start_weights: torch.Tensor

    def __init__(
        self, start: SparseRows, source_size: int, shared: NDArray[np.int64] | None = None, seed: int = 0
    ) -> None:
        super().__init__()
        self.target_size, self.source_size = len(start), source_size
        self.matrix = nn.Parameter(dense_start(start, source_size, seed))
        ids = shared_rows(shared, len(start))
        if np.any(start.counts()[ids] == 0):
            raise ValueError(f"shared token {ids[start.counts()[ids] == 0][0]} has no entry to be held to")
        kept = start.take(ids)
        self.register_buffer("shared_ids", torch.from_numpy(ids))
        self.register_buffer("start_rows", torch.from_numpy(kept.row_of_entry()))
        self.register_buffer("start_ids", torch.from_numpy(kept.ids.astype(np.int64)))
        self.register_buffer("start_weights", torch.from_numpy(kept.weights.astype(np.float32)))

    def rows(self, ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """The rows `ids` of A times `table`: [ids, d], the table's type.

        Args:
            ids: int64 [ids], target tokens.
            table: [source tokens or more, d], frozen.
        """
        old = table.detach()[: self.source_size]
        return (self.matrix[ids] @ old.to(self.matrix.dtype)).to(table.dtype)

    def product(self, table: torch.Tensor) -> torch.Tensor:
        """A times `table` ([source tokens or more, d] or [source tokens or more]): [target tokens, d] or a vector."""
        old = table.detach()[: self.source_size]
        return (self.matrix @ old.to(self.matrix.dtype)).to(table.dtype)

    def logits(self, hidden: torch.Tensor, old: LMHead) -> torch.Tensor:
        """Logits of the target tokens, (h·Eᵀ + b)·Aᵀ, scaled and capped: [..., target tokens] for hidden [..., d]."""
        trimmed = self._trimmed(old)
        source = nn.functional.linear(hidden, trimmed.weight, trimmed.bias)
        return _finished(nn.functional.linear(source, self.matrix.to(source.dtype)), old)

    def summed_loss(
        self, hidden: torch.Tensor, labels: torch.Tensor, old: LMHead, matrix: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Summed negative log likelihood (nats, float32) of `labels`.

        Logits over the old and the new vocabulary are held for some tokens at a time, and computed once: the gradients
        come with them. Only one backward pass can follow.

        Args:
            hidden: [tokens, d].
            labels: int64 [tokens]; -100 is passed over.
            old: the source model's head.
            matrix: not used (A times the head's matrix costs more than it saves).
        """
        wanted = (hidden.requires_grad, self.matrix.requires_grad) if torch.is_grad_enabled() else (False, False)
        loss: torch.Tensor = _CrossEntropy.apply(hidden, self.matrix, labels, self._trimmed(old), wanted)  # type: ignore[no-untyped-call]
        return loss

    @torch.no_grad()
    def token_losses(self, hidden: torch.Tensor, labels: torch.Tensor, old: LMHead) -> torch.Tensor:
        """The losses that `summed_loss` sums, without gradients: float32 [tokens], 0 where nothing is predicted."""
        return _losses(hidden, self.matrix, labels, self._trimmed(old), _Gradients(None, None))

    def distance(self) -> torch.Tensor:
        """Mean over the shared tokens of ‖A_w − A⁰_w‖₂ (Han et al. 2025, section 3.3); its gradient at 0 is 0."""
        if len(self.shared_ids) == 0:
            return self.matrix.new_zeros(())
        start = (self.shared_ids, self.start_rows, self.start_ids, self.start_weights)
        mean: torch.Tensor = _Distance.apply(self.matrix, *start)  # type: ignore[no-untyped-call]
        return mean

    def _trimmed(self, old: LMHead) -> LMHead:
        """`old` without the rows beyond the source vocabulary (padding to a round number)."""
        bias = None if old.bias is None else old.bias.detach()[: self.source_size]
        return replace(old, weight=old.weight.detach()[: self.source_size], bias=bias)


@dataclass(frozen=True)
class _Gradients:
    """Gradients of the summed loss, filled block by block; None where not asked for."""

    hidden: torch.Tensor | None
    matrix: torch.Tensor | None


class _CrossEntropy(torch.autograd.Function):
    """Summed cross entropy of softcap(scale · (h·Eᵀ + b)·Aᵀ) and, at the same time, its gradients in h and A."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        matrix: torch.Tensor,
        labels: torch.Tensor,
        old: LMHead,
        wanted: tuple[bool, bool],
    ) -> torch.Tensor:
        of_hidden = torch.empty_like(hidden) if wanted[0] else None
        of_matrix = torch.zeros_like(matrix) if wanted[1] else None
        losses = _losses(hidden, matrix, labels, old, _Gradients(of_hidden, of_matrix))
        ctx.gradients = (of_hidden, of_matrix)
        return losses.sum(dtype=torch.float64).to(losses.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("the loss of a dense adapter allows one backward pass only")
        # Multiplied in place and given away: there is no second matrix of this size.
        of_hidden, of_matrix = (None if part is None else part.mul_(outer) for part in ctx.gradients)
        ctx.gradients = None
        return of_hidden, of_matrix, None, None, None


def _losses(
    hidden: torch.Tensor, matrix: torch.Tensor, labels: torch.Tensor, old: LMHead, gradients: _Gradients
) -> torch.Tensor:
    """Losses [tokens], float32 or float64, `_TOKENS` tokens at a time; `gradients` are filled."""
    device = hidden.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    exact = torch.promote_types(hidden.dtype, torch.float32)
    losses = torch.zeros(labels.shape, dtype=exact, device=hidden.device)
    with torch.autocast(device, enabled=False):
        adapter, weight = matrix.to(dtype), old.weight.to(dtype)
        bias = None if old.bias is None else old.bias.to(dtype)
        for first in range(0, len(hidden), _TOKENS):
            some = slice(first, first + _TOKENS)
            source = nn.functional.linear(hidden[some].to(dtype), weight, bias)
            logits = _finished(nn.functional.linear(source, adapter).to(exact), old)
            losses[some], slope = _softmax(logits, labels[some], old)
            if gradients.matrix is not None:
                _add_product(gradients.matrix, slope.to(dtype).T, source)
            if gradients.hidden is not None:
                gradients.hidden[some] = slope.to(dtype) @ adapter @ weight
    return losses


def _finished(logits: torch.Tensor, old: LMHead) -> torch.Tensor:
    """Scaled and capped as the source model's logits."""
    scaled = logits if old.scale == 1 else logits * old.scale
    return scaled if old.softcap is None else torch.tanh(scaled / old.softcap) * old.softcap


def _softmax(logits: torch.Tensor, labels: torch.Tensor, old: LMHead) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses [tokens] of finished logits [tokens, target tokens], and the slope of their sum by the raw logits."""
    counted = labels != IGNORED
    at = (torch.arange(len(labels), device=labels.device), labels.where(counted, 0))
    normaliser = torch.logsumexp(logits, dim=1)
    losses = (normaliser - logits[at]).where(counted, 0.0)
    slope = torch.exp(logits - normaliser[:, None])
    slope[at] -= 1.0
    slope *= (counted * old.scale)[:, None]
    if old.softcap is not None:
        slope *= 1.0 - (logits / old.softcap).square()
    return losses, slope


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Add left · right to `total` in place, without holding the product where the types agree."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
        return
    for first in range(0, len(total), 8 * _ROWS):
        total[first : first + 8 * _ROWS] += left[first : first + 8 * _ROWS] @ right


class _Distance(torch.autograd.Function):
    """Mean Euclidean distance of some rows of a matrix from sparse rows, `_ROWS` rows at a time."""

    @staticmethod
    def forward(ctx: Any, matrix: torch.Tensor, ids: torch.Tensor, *start: torch.Tensor) -> torch.Tensor:
        norms = [torch.linalg.vector_norm(rows, dim=1) for _, rows in _moved(matrix, ids, start)]
        ctx.save_for_backward(matrix, ids, *start, torch.cat(norms))
        return torch.cat(norms).mean()

    @staticmethod
    def backward(ctx: Any, factor: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        matrix, ids, *start, norms = ctx.saved_tensors
        gradient = torch.zeros_like(matrix)
        shares = torch.where(norms > 0, factor / (len(ids) * norms), 0.0)
        for some, rows in _moved(matrix, ids, start):
            gradient[ids[some]] = rows * shares[some, None]
        return gradient, None, None, None, None


def _moved(matrix: torch.Tensor, ids: torch.Tensor, start: Any) -> Any:
    """Blocks of the rows `ids` of `matrix` less the sparse rows `start`: (slice of ids, [rows, source tokens])."""
    of_row, columns, weights = start
    ends = torch.searchsorted(of_row, torch.arange(0, len(ids) + _ROWS, _ROWS, device=ids.device)).tolist()
    for block, first in enumerate(range(0, len(ids), _ROWS)):
        entries = slice(ends[block], ends[block + 1])
        rows = matrix[ids[first : first + _ROWS]]
        rows[of_row[entries] - first, columns[entries]] -= weights[entries].to(rows.dtype)
        yield slice(first, first + _ROWS), rows
