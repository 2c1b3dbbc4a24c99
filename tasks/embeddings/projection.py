"""Embeddings in two dimensions, for a picture."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def principal_plane(rows: NDArray[np.floating[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The rows projected onto the plane of their greatest variance (principal component analysis).

    Exact and without randomness: the eigenvectors of the rows' Gram matrix or of their covariance, whichever is
    smaller. The sign of an axis, which the method leaves open, is such that its largest coordinate is positive.

    Args:
        rows: float [n, h], finite; n or h small (an eigenproblem of min(n, h) is solved).

    Returns:
        (coordinates float64 [n, 2], share of the variance on each axis float64 [2]).
    """
    centred = rows.astype(np.float64) - (rows.mean(axis=0, dtype=np.float64) if len(rows) else 0.0)
    n, h = centred.shape
    coordinates, shares = np.zeros((n, 2)), np.zeros(2)
    if n == 0 or h == 0:
        return coordinates, shares
    values, vectors = np.linalg.eigh(centred @ centred.T if n <= h else centred.T @ centred)
    axes = min(2, len(values))
    values, vectors = values[::-1][:axes].clip(min=0.0), vectors[:, ::-1][:, :axes]
    found = vectors * np.sqrt(values) if n <= h else centred @ vectors
    largest = found[np.abs(found).argmax(axis=0), np.arange(axes)]
    coordinates[:, :axes] = found * np.where(largest < 0, -1.0, 1.0)
    total = float((centred**2).sum())
    shares[:axes] = values / total if total > 0 else 0.0
    return coordinates, shares
