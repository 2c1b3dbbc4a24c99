"""CLP (Ostendorff and Rehm 2023): a new token as all shared tokens, by cosine in a helper model of the language."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from configs.schema import ClpConfig
from tasks.embeddings.copied_rows import OwnRows, completed, copied_rows
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.helper_rows import helper_rows, helper_sides
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.unit_rows import unit_rows

_BLOCK = 1 << 25  # cosines held at a time, where they are written out
_ROWS = 4096
_SMALLEST_SUM = 1e-9  # of the mean cosine: below it, they cancel out


@dataclass(frozen=True)
class Side:
    """One table of the new model: what it is made from.

    Attributes:
        new: float32 [R, d]: helper rows of the new tokens.
        anchors: float32 [S, d]: helper rows of the shared tokens.
        values: float32 [S, h]: source rows of the shared tokens.
    """

    new: NDArray[np.float32]
    anchors: NDArray[np.float32]
    values: NDArray[np.float32]


def build(given: Ingredients) -> DenseRows:
    """Special and shared tokens copied; a new token is the mean of all shared tokens' rows, weighted by cosine.

    Weights are the cosines of helper rows divided by their sum. The LM head is made from the helper's LM head where it
    has one of its own. New tokens that the helper lacks are the mean of their source pieces.

    Raises:
        InputError: no token is shared by source, target and helper.
        ValueError: the source tables or the helper were not given.
    """
    config = given.config.clp or ClpConfig()
    sides = helper_sides(given, "clp")
    copied = copied_rows(given.target, given.source, len(sides.source.input))
    places = helper_rows(given, copied, sides, "clp")
    tables = [
        weighted_by_cosine(
            Side(new[places.new_ids], anchors[places.anchor_ids], values[places.anchor_source]),
            config.negative == "drop",
        )
        for new, anchors, values in sides.pairs()
    ]
    mapping = completed(given, copied, [OwnRows("clp", places.new, None)])
    return DenseRows(mapping, places.new, tables[0], tables[1] if len(tables) > 1 else None)


def weighted_by_cosine(side: Side, drop_negative: bool) -> NDArray[np.float32]:
    """For each new token, the sum over anchors of cosine times `values`, divided by the sum of the cosines.

    With all cosines kept this is a product of three matrices, new (anchors^T values): no cosine is ever written out.
    Otherwise cosines are made in blocks of at most 2^25. A row whose cosines sum to 0 takes the positive ones alone,
    or the mean of all anchors where there are none.

    Args:
        side: R new tokens, S >= 1 anchors; rows of zeros have no direction: cosine 0 with everything.
        drop_negative: negative cosines count as 0.

    Returns:
        float32 [R, h].
    """
    if drop_negative:
        return _positive(side)
    width = side.anchors.shape[1]
    product = torch.zeros(width, side.values.shape[1], dtype=torch.float64)
    total = torch.zeros(width, dtype=torch.float64)
    for start in range(0, len(side.anchors), _ROWS):
        part = slice(start, start + _ROWS)
        anchors = unit_rows(side.anchors[part], torch.float64)
        product += anchors.T @ torch.from_numpy(side.values[part]).double()
        total += anchors.sum(dim=0)
    result = np.empty((len(side.new), side.values.shape[1]), dtype=np.float32)
    for start in range(0, len(side.new), _ROWS):
        new = unit_rows(side.new[start : start + _ROWS], torch.float64)
        sums = new @ total
        lost = (sums.abs() <= _SMALLEST_SUM * len(side.anchors)).numpy()
        block = result[start : start + _ROWS]
        block[:] = ((new @ product) / sums[:, None]).numpy()
        if lost.any():
            block[lost] = _positive(Side(side.new[start : start + _ROWS][lost], side.anchors, side.values))
    return result


def _positive(side: Side) -> NDArray[np.float32]:
    """The same with positive cosines alone; the mean of all anchors where there are none."""
    directions = unit_rows(side.anchors).T
    values = torch.from_numpy(np.ascontiguousarray(side.values))
    size = max(1, _BLOCK // len(side.anchors))
    cosines = torch.empty(min(size, len(side.new)), len(side.anchors))
    result = torch.empty(len(side.new), values.shape[1])
    for start in range(0, len(side.new), size):
        new = unit_rows(side.new[start : start + size])
        block = torch.mm(new, directions, out=cosines[: len(new)]).clamp_(min=0)
        sums = block.sum(dim=1, keepdim=True)
        none = sums[:, 0] <= 0
        block[none] = 1
        sums[none] = len(side.anchors)
        torch.mm(block, values, out=result[start : start + size]).div_(sums)
    return result.numpy()


METHOD = Initialiser(
    name="clp", build=build, paper="Ostendorff and Rehm 2023; baseline of SAVA (2025)", needs=("source_model", "helper")
)
