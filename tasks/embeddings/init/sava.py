"""SAVA (Moroni et al. 2025, section 3.1): a linear map from a helper model's embeddings to the source model's."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from configs.schema import SavaConfig
from tasks.embeddings.copied_rows import OwnRows, completed, copied_rows
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.helper_rows import HelperRows, helper_rows, helper_sides
from tasks.embeddings.registry import Ingredients, Initialiser

_ROWS = 4096


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
    def of(cls, rows: torch.Tensor) -> "Scaling":
        """The scaling of float64 `rows` [n, d]."""
        deviation, mean = torch.std_mean(rows, dim=0, correction=min(1, len(rows) - 1))
        deviation = torch.where(deviation > 10 * torch.finfo(torch.float32).eps, deviation, 1.0)
        lengths = torch.linalg.vector_norm((rows - mean) / deviation, dim=1)
        return cls(mean, deviation, float(lengths.mean()))

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
        InputError: no token is shared by source, target and helper.
        ValueError: the source tables or the helper were not given.
    """
    config = given.config.sava or SavaConfig()
    sides = helper_sides(given, "sava")
    copied = copied_rows(given, len(sides.source.input))
    places = helper_rows(given, copied, sides, "sava")
    chosen = _chosen(places, config, given.config.seed)
    tables = [
        mapped_rows(new[places.new_ids], anchors[places.anchor_ids[chosen]], values[places.anchor_source[chosen]],
                    config, given.config.seed)
        for new, anchors, values in sides.pairs()
    ]  # fmt: skip
    mapping = completed(given, copied, [OwnRows("sava", places.new, None)])
    return DenseRows(mapping, places.new, tables[0], tables[1] if len(tables) > 1 else None)


def mapped_rows(
    new: NDArray[np.float32],
    anchors: NDArray[np.float32],
    values: NDArray[np.float32],
    config: SavaConfig,
    seed: int,
) -> NDArray[np.float32]:
    """The images of `new` under the map fitted from `anchors` to `values`.

    Args:
        new: float32 [R, m].
        anchors: float32 [S, m].
        values: float32 [S, n].
        config: steps, learning rate, device.
        seed: seed of the map's first weights.

    Returns:
        float32 [R, n].
    """
    device = torch.device("cuda" if config.device != "cpu" and torch.cuda.is_available() else "cpu")
    x = torch.from_numpy(anchors).to(device, torch.float64)
    y = torch.from_numpy(values).to(device, torch.float64)
    scale_x, scale_y = Scaling.of(x), Scaling.of(y)
    weights = fitted(scale_x.apply(x), scale_y.apply(y), config, seed)
    del x, y
    result = np.empty((len(new), values.shape[1]), dtype=np.float32)
    for start in range(0, len(new), _ROWS):
        rows = scale_x.apply(torch.from_numpy(new[start : start + _ROWS]).to(device, torch.float64))
        image = rows @ weights[:, :-1].T + weights[:, -1]
        result[start : start + _ROWS] = scale_y.invert(image).to("cpu", torch.float32).numpy()
    return result


def fitted(x: torch.Tensor, y: torch.Tensor, config: SavaConfig, seed: int) -> torch.Tensor:
    """The map W, b that `config.steps` full-batch steps of Adam on the mean squared error give.

    The gradient is taken from x^T x and y^T x, made once: a step costs n m^2 instead of S n m, and the steps are those
    of Adam on all S rows. The first weights are those of torch.nn.Linear: uniform within 1 / sqrt(m).

    Args:
        x: float64 [S, m].
        y: float64 [S, n].
        config: steps and learning rate.
        seed: seed of the first weights.

    Returns:
        float64 [n, m + 1], b in the last column.
    """
    n, m = y.shape[1], x.shape[1]
    ones = torch.ones(len(x), 1, dtype=x.dtype, device=x.device)
    x = torch.cat([x, ones], dim=1)
    square, cross = x.T @ x / len(x), y.T @ x / len(x)
    generator = torch.Generator().manual_seed(seed)
    bound = m**-0.5
    parts = [torch.empty(n, m).uniform_(-bound, bound, generator=generator), torch.empty(n, 1)]
    parts[1].uniform_(-bound, bound, generator=generator)
    weights = torch.cat(parts, dim=1).to(x.device, torch.float64).requires_grad_()
    optimizer = torch.optim.Adam([weights], lr=config.learning_rate)
    with torch.no_grad():
        for _ in range(config.steps):
            weights.grad = (weights @ square - cross) * (2 / n)
            optimizer.step()
    return weights.detach()


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
