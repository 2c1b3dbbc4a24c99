"""How alike the geometry of two embedding tables is, whatever their dimensions (Moschella et al. 2023).

Each token is described, in each table, by its cosines to the same anchor tokens; two tables are alike where a token's
two descriptions point the same way. Nothing is compared across the tables themselves, so their axes need not agree.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

ANCHORS = 128
_ROWS = 4096


@dataclass(frozen=True)
class Similarity:
    """The relative-representation similarity of two tables.

    Attributes:
        mean: mean over tokens of the cosine of a token's two descriptions, -1 to 1; NaN without a token.
        deviation: standard deviation of these cosines over the tokens.
        tokens: tokens compared; those with a row of zeros (or one that is not finite) in either table are left out.
        anchors: anchor tokens.
    """

    mean: float
    deviation: float
    tokens: int
    anchors: int


def choose_anchors(
    starts_word: NDArray[np.bool_], usable: NDArray[np.bool_], each: int, seed: int
) -> NDArray[np.int64]:
    """Anchor tokens: `each` that start a word and `each` that do not, drawn with `seed` without repetition.

    SAVA (Moroni et al. 2025), section 6, takes 128 of each. Where a vocabulary has fewer of a kind, all of them are
    anchors.

    Args:
        starts_word: bool [tokens].
        usable: bool [tokens]: tokens that may be anchors (no special or byte token, no row of zeros).
        each: anchors of each kind.
        seed: seed of the draw.

    Returns:
        Positions, ascending: int64 [anchors].
    """
    rng = np.random.default_rng(seed)
    chosen = []
    for kind in (starts_word, ~starts_word):
        found = np.flatnonzero(kind & usable)
        chosen.append(rng.permutation(found)[:each])
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def relative_similarity(
    first: torch.Tensor, second: torch.Tensor, pairs: NDArray[np.int64], anchors: NDArray[np.int64]
) -> Similarity:
    """The relative-representation similarity of two tables (SAVA, Moroni et al. 2025, section 6).

    Token t is described by r(t) = (cos(E[t], E[a]) for anchors a) in each table; the similarity is the mean over t of
    cos(r_first(t), r_second(t)). Rows are taken in blocks: beside the tables, blocks of [4096, h] and
    [4096, anchors] of float32 are held.

    Args:
        first: [rows, h], floating.
        second: [rows', h'], floating.
        pairs: int64 [tokens, 2]: a token's row in `first` and in `second`.
        anchors: int64 [anchors]: positions in `pairs`; see `choose_anchors`.

    Raises:
        ValueError: there is no anchor, or an anchor's row is zero or not finite.
    """
    if len(anchors) == 0:
        raise ValueError("no anchor token: the two tables have no common token that could be one")
    frames = [_unit(table, pairs[anchors, side]) for side, table in enumerate((first, second))]
    for frame in frames:
        if not bool((torch.linalg.vector_norm(frame, dim=1) > 0.5).all()):
            raise ValueError("an anchor token has a row of zeros, or one that is not finite")
    cosines = []
    for start in range(0, len(pairs), _ROWS):
        block = pairs[start : start + _ROWS]
        rows = [_unit(table, block[:, side]) for side, table in enumerate((first, second))]
        described = [unit @ frame.T for unit, frame in zip(rows, frames, strict=True)]
        kept = torch.stack([torch.linalg.vector_norm(unit, dim=1) > 0.5 for unit in rows]).all(dim=0)
        value = torch.nn.functional.cosine_similarity(described[0], described[1], dim=1)
        cosines.append(value[kept].double().numpy())
    values = np.concatenate(cosines) if cosines else np.zeros(0)
    if len(values) == 0:
        return Similarity(float("nan"), float("nan"), 0, len(anchors))
    return Similarity(float(values.mean()), float(values.std()), len(values), len(anchors))


def has_direction(table: torch.Tensor) -> NDArray[np.bool_]:
    """Which rows are finite and not zero: bool [rows]."""
    found = []
    for start in range(0, len(table), _ROWS):
        norm = torch.linalg.vector_norm(table[start : start + _ROWS].to(torch.float32), dim=1)
        found.append(torch.isfinite(norm) & (norm > 0))
    return torch.cat(found).numpy() if found else np.zeros(0, dtype=bool)


def _unit(table: torch.Tensor, rows: NDArray[np.int64]) -> torch.Tensor:
    """The rows at length 1, float32; zero where a row is zero or not finite."""
    chosen = table[torch.from_numpy(np.ascontiguousarray(rows))].to(torch.float32)
    norm = torch.linalg.vector_norm(chosen, dim=1, keepdim=True)
    good = torch.isfinite(norm) & (norm > 0)
    return torch.where(good, chosen / norm, torch.zeros_like(chosen))
