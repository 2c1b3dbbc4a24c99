"""A vocabulary adapter that learns only the entries of a given support."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import embedding_bag
from torch.utils.checkpoint import checkpoint

from tasks.embeddings.sparse_rows import SparseRows
from tasks.training.linear_cross_entropy import linear_cross_entropy, token_losses
from tasks.training.lm_head import LMHead

_COLUMNS = 512


class SparseAdapter(nn.Module):
    """A, [target tokens, source tokens]: the entries of `start` are trained, all others are 0 for good.

    Products with a table cost 2 · entries · d operations forward and as many backward, where only the entries get a
    gradient. On a CPU all of it has one order of summation.

    Args:
        start: the support with its first weights (an entry of weight 0 belongs to the support).
        source_size: tokens of the source vocabulary; `start` has no larger id.
        shared: int64 [shared tokens]: target ids whose rows `distance` holds to their start.

    Attributes:
        values: float32 [entries], the only parameter.

    Raises:
        ValueError: `start` is not well formed or reads a token beyond `source_size`, or a shared id is out of range.
    """

    offsets: torch.Tensor
    source_ids: torch.Tensor
    shared_entries: torch.Tensor
    shared_offsets: torch.Tensor
    shared_start: torch.Tensor

    def __init__(self, start: SparseRows, source_size: int, shared: NDArray[np.int64] | None = None) -> None:
        super().__init__()
        start.check(source_size)
        self.target_size, self.source_size = len(start), source_size
        self.values = nn.Parameter(torch.from_numpy(start.weights.astype(np.float32)))
        self.register_buffer("offsets", torch.from_numpy(start.indptr.astype(np.int64)))
        self.register_buffer("source_ids", torch.from_numpy(start.ids.astype(np.int64)))
        ids = shared_rows(shared, len(start))
        entries, offsets = self._entries(torch.from_numpy(ids))
        self.register_buffer("shared_entries", entries)
        self.register_buffer("shared_offsets", offsets)
        self.register_buffer("shared_start", self.values.detach()[entries].clone())

    def rows(self, ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """The rows `ids` of A times `table`: [ids, d], the table's type.

        Args:
            ids: int64 [ids], target tokens.
            table: [source tokens or more, d], frozen.
        """
        entries, offsets = self._entries(ids)
        return weighted_sums(self.values[entries], self.source_ids[entries], offsets, table)

    def product(self, table: torch.Tensor) -> torch.Tensor:
        """A times `table` ([source tokens or more, d] or [source tokens or more]): [target tokens, d] or a vector."""
        matrix = table if table.ndim == 2 else table[:, None]
        result = weighted_sums(self.values, self.source_ids, self.offsets, matrix)
        return result if table.ndim == 2 else result[:, 0]

    def head(self, old: LMHead, matrix: torch.Tensor | None = None) -> LMHead:
        """The head over the target tokens made of the source model's, `old`.

        Args:
            old: the source model's head.
            matrix: A times the old head's matrix, where it is at hand.
        """
        weight = self.product(old.weight) if matrix is None else matrix
        return replace(old, weight=weight, bias=None if old.bias is None else self.product(old.bias))

    def logits(self, hidden: torch.Tensor, old: LMHead) -> torch.Tensor:
        """Logits of the target tokens: [..., target tokens] for hidden states [..., d]."""
        return self.head(old).logits(hidden)

    def summed_loss(
        self, hidden: torch.Tensor, labels: torch.Tensor, old: LMHead, matrix: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Summed negative log likelihood (nats, float32) of `labels`; the logits of all tokens are never held.

        Args:
            hidden: [tokens, d].
            labels: int64 [tokens]; -100 is passed over.
            old: the source model's head.
            matrix: as for `head`.
        """
        head = self.head(old, matrix)
        return linear_cross_entropy(
            hidden, head.weight, labels, bias=head.bias, scale=head.scale, softcap=head.softcap
        )  # fmt: skip

    @torch.no_grad()
    def token_losses(self, hidden: torch.Tensor, labels: torch.Tensor, old: LMHead) -> torch.Tensor:
        """The losses that `summed_loss` sums, without gradients: float32 [tokens], 0 where nothing is predicted."""
        head = self.head(old)
        return token_losses(hidden, head.weight, labels, bias=head.bias, scale=head.scale, softcap=head.softcap)

    def distance(self) -> torch.Tensor:
        """Mean over the shared tokens of ‖A_w − A⁰_w‖₂ (Han et al. 2025, section 3.3); its gradient at 0 is 0."""
        if len(self.shared_offsets) == 1:
            return self.values.new_zeros(())
        moved = self.values[self.shared_entries] - self.shared_start
        zeros = torch.zeros_like(self.shared_entries)
        squared = weighted_sums(moved.square(), zeros, self.shared_offsets, moved.new_ones(1, 1))[:, 0]
        away = squared > 0
        return torch.where(away, torch.where(away, squared, 1.0).sqrt(), 0.0).mean()

    def _entries(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions of the entries of rows `ids`, row after row, and where each row begins ([ids + 1])."""
        counts = self.offsets[ids + 1] - self.offsets[ids]
        offsets = nn.functional.pad(counts.cumsum(0), (1, 0))
        first = torch.repeat_interleave(self.offsets[ids] - offsets[:-1], counts)
        return first + torch.arange(len(first), device=ids.device), offsets


def weighted_sums(values: torch.Tensor, ids: torch.Tensor, offsets: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Row r is the sum over entries offsets[r] to offsets[r + 1] of value · table[id]; only `values` get a gradient.

    A table in half precision is multiplied in float32, some columns at a time (again in the backward pass, so that no
    float32 copy of it is kept), and the sums are rounded to its type.

    Args:
        values: float [entries].
        ids: int64 [entries], rows of `table`.
        offsets: int64 [rows + 1].
        table: [source tokens, d].

    Returns:
        [rows, d], the table's type.
    """
    table = table.detach()
    if table.dtype not in (torch.float16, torch.bfloat16):
        return _bags(values.to(table.dtype), ids, offsets, table)
    if not (torch.is_grad_enabled() and values.requires_grad):
        return torch.cat([_bags(values, ids, offsets, part) for part in torch.split(table, _COLUMNS, dim=1)], dim=1)
    parts = [
        checkpoint(_bags, values, ids, offsets, part, use_reentrant=False, preserve_rng_state=False)
        for part in torch.split(table, _COLUMNS, dim=1)
    ]
    return torch.cat(parts, dim=1)


def shared_rows(shared: NDArray[np.int64] | None, target_size: int) -> NDArray[np.int64]:
    """`shared` in ascending order, each once.

    Raises:
        ValueError: an id is out of range.
    """
    ids = np.unique(np.asarray([] if shared is None else shared, dtype=np.int64))
    if len(ids) and not 0 <= ids[0] <= ids[-1] < target_size:
        raise ValueError(f"shared ids must be 0 to {target_size - 1}, got {ids[0]} to {ids[-1]}")
    return ids


def _bags(values: torch.Tensor, ids: torch.Tensor, offsets: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    wide = table.to(values.dtype)
    if len(offsets) == 1:
        return table.new_zeros(0, table.shape[1])
    return embedding_bag(
        ids, wide.contiguous(), offsets, mode="sum", per_sample_weights=values, include_last_offset=True
    ).to(table.dtype)
