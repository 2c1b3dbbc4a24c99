"""SAVA (Moroni et al. 2025, section 3.1): a linear map from a helper model's embeddings to the source model's."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from configs.schema import SavaConfig
from tasks.embeddings.copied_rows import OwnRows, completed, copied_rows
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.helper_rows import HelperRows, helper_rows, helper_sides
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.training.numerics import choose_device

_ROWS = 4096
_SMALLEST_DEVIATION = 10 * torch.finfo(torch.float32).eps
_Table = NDArray[np.float32]


@dataclass(frozen=True)
class Scaling:
    """Standard scaling, then rows of length 1 (appendix A); float64.

    Attributes:
        mean: [d].
        deviation: [d], 1 where a column does not vary.
        length: mean length of the standardised rows, which the inverse gives every row.
    """

    mean: torch.Tensor
    deviation: torch.Tensor
    length: float

    @classmethod
    def of(cls, rows: _Table, device: torch.device) -> "Scaling":
        """The scaling of `rows`, float32 [n, d], gone through in blocks: for means, for deviations, for lengths."""
        mean, squares = (torch.zeros(rows.shape[1], dtype=torch.float64, device=device) for _ in range(2))
        for block in _blocks(rows, device):
            mean += block.sum(dim=0) / len(rows)
        for block in _blocks(rows, device):
            squares += (block - mean).square().sum(dim=0)
        deviation = (squares / max(1, len(rows) - 1)).sqrt()
        deviation = torch.where(deviation > _SMALLEST_DEVIATION, deviation, 1.0)
        lengths = [torch.linalg.vector_norm((b - mean) / deviation, dim=1).sum() for b in _blocks(rows, device)]
        return cls(mean, deviation, float(sum(lengths)) / len(rows))

    def apply(self, rows: torch.Tensor) -> torch.Tensor:
        """`rows` standardised and divided by their length."""
        return torch.nn.functional.normalize((rows - self.mean) / self.deviation, dim=1)

    def invert(self, rows: torch.Tensor) -> torch.Tensor:
        """Standardised rows of length 1 in the original space, each given the mean length."""
        return rows * self.length * self.deviation + self.mean


def build(given: Ingredients) -> DenseRows:
    """Special and shared tokens copied; a new token is the image of its helper row under a fitted linear map.

    Input embeddings and LM head have a map each. New tokens that the helper lacks are the mean of their source pieces.

    Raises:
        InputError: no token is shared by source, target and helper, or the GPU that is asked for is not there.
        ValueError: the source tables or the helper were not given.
    """
    config = given.config.sava or SavaConfig()
    sides = helper_sides(given, "sava")
    copied = copied_rows(given.target, given.source, len(sides.source.input))
    places = helper_rows(given, copied, sides, "sava")
    chosen = _chosen(places, config, given.config.seed)
    tables = [
        mapped_rows(new[places.new_ids], anchors[places.anchor_ids[chosen]], values[places.anchor_source[chosen]],
                    config, given.config.seed)
        for new, anchors, values in sides.pairs()
    ]  # fmt: skip
    mapping = completed(given, copied, [OwnRows("sava", places.new, None)])
    return DenseRows(mapping, places.new, tables[0], tables[1] if len(tables) > 1 else None)


def mapped_rows(new: _Table, anchors: _Table, values: _Table, config: SavaConfig, seed: int) -> _Table:
    """The images of `new` under the map fitted from `anchors` to `values`.

    Beside these tables, blocks of 4096 rows and two matrices [m + 1, m + 1] and [n, m + 1] of float64 are held, and
    Adam's three more of the second kind.

    Args:
        new: float32 [R, m].
        anchors: float32 [S, m].
        values: float32 [S, n].
        config: steps, learning rate, device.
        seed: seed of the map's first weights.

    Returns:
        float32 [R, n].

    Raises:
        InputError: the GPU that the configuration asks for is not there.
    """
    device = choose_device(config.device)
    scale_x, scale_y = Scaling.of(anchors, device), Scaling.of(values, device)
    m, n = anchors.shape[1], values.shape[1]
    square, cross = (torch.zeros(rows, m + 1, dtype=torch.float64, device=device) for rows in (m + 1, n))
    for one, two in zip(_blocks(anchors, device), _blocks(values, device), strict=True):
        x = torch.cat([scale_x.apply(one), torch.ones_like(one[:, :1])], dim=1)
        square += x.T @ x / len(anchors)
        cross += scale_y.apply(two).T @ x / len(anchors)
    weights = fitted(square, cross, config, seed)
    result = np.empty((len(new), n), dtype=np.float32)
    for start, block in zip(range(0, len(new), _ROWS), _blocks(new, device), strict=True):
        image = scale_x.apply(block) @ weights[:, :-1].T + weights[:, -1]
        result[start : start + _ROWS] = scale_y.invert(image).to("cpu", torch.float32).numpy()
    return result


def fitted(square: torch.Tensor, cross: torch.Tensor, config: SavaConfig, seed: int) -> torch.Tensor:
    """The map W, b that `config.steps` full-batch steps of Adam on the mean squared error give.

    With x the S rows [x, 1], the gradient is (W x^T x - y^T x) 2 / (S n): a step costs n m^2 instead of S n m, and the
    steps are those of Adam on all rows. The first weights are those of torch.nn.Linear: uniform within 1 / sqrt(m).

    Args:
        square: float64 [m + 1, m + 1], x^T x / S.
        cross: float64 [n, m + 1], y^T x / S.
        config: steps and learning rate.
        seed: seed of the first weights.

    Returns:
        float64 [n, m + 1], b in the last column.
    """
    n, m = cross.shape[0], cross.shape[1] - 1
    generator = torch.Generator().manual_seed(seed)
    bound = m**-0.5
    parts = [torch.empty(n, width).uniform_(-bound, bound, generator=generator) for width in (m, 1)]
    weights = torch.cat(parts, dim=1).to(cross.device, torch.float64).requires_grad_()
    optimizer = torch.optim.Adam([weights], lr=config.learning_rate)
    with torch.no_grad():
        for _ in range(config.steps):
            weights.grad = (weights @ square - cross) * (2 / n)
            optimizer.step()
    return weights.detach()


def _blocks(rows: _Table, device: torch.device) -> Iterator[torch.Tensor]:
    """The rows in float64 on the device, 4096 at a time."""
    for start in range(0, len(rows), _ROWS):
        yield torch.from_numpy(rows[start : start + _ROWS]).to(device, torch.float64)


def _chosen(places: HelperRows, config: SavaConfig, seed: int) -> NDArray[np.int64]:
    """Positions of the anchors that are fitted on."""
    count = len(places.anchor_ids)
    if config.anchors is None or config.anchors >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, config.anchors, replace=False))


METHOD = Initialiser(
    name="sava",
    build=build,
    paper="SAVA, Moroni et al. 2025, section 3.1 and appendix A",
    needs=("source_model", "helper"),
)
