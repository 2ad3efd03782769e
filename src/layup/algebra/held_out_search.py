"""How RanPAC searches λ on a batch that is about to be learned: by the error on a fifth of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from layup.algebra.resolvent import Resolvent

WIDE_LAMBDAS: tuple[float, ...] = tuple(10.0**exponent for exponent in range(-8, 9))
"""The seventeen values that RanPAC searches."""
FEWEST = 5
"""The smallest number of samples that can be split 80 to 20."""


@dataclass(frozen=True)
class ErrorSearch:
    """The result of a search by error: the mean squared error of every λ, and the winner."""

    errors: dict[float, float]

    @property
    def best(self) -> float:
        """The λ with the lowest error; the larger one if errors are equal."""
        return min(self.errors, key=lambda lam: (self.errors[lam], -lam))


def search_values(width: int, samples: int) -> int:
    """How many values the search holds: samples, shuffled and rotated; K or G, and what it becomes."""
    return 2 * samples * width + 3 * min(4 * samples // 5, width) ** 2


def search_lambda_by_error(
    features: NDArray[Any],
    labels: NDArray[Any],
    seed: int,
    *,
    precision: str = "float64",
    grid: Sequence[float] = WIDE_LAMBDAS,
) -> ErrorSearch | None:
    """RanPAC's choice of λ: by the error on a fifth of the current batch, without the past.

    The seed shuffles the batch, which is split once, 80 to 20. With W(λ) of the larger part alone, the score
    is the mean of (Φᵀ W(λ) − Y)² over the smaller part and all classes of the batch, with one-hot targets Y.
    None if there are fewer than five samples, which cannot be split like this.

    Costs 2 m³ + 2 m² n operations, m = N or d, whichever is less, and |grid|·C·m per sample.
    """
    if len(labels) < FEWEST:
        return None
    trained = 4 * len(labels) // 5
    order = np.random.default_rng(seed).permutation(len(labels))
    names, index = np.unique(labels, return_inverse=True)
    x, y = features[order].astype(precision), np.eye(len(names), dtype=precision)[index[order]]
    (learned, held_out), (known, truth) = (
        (torch.from_numpy(part[:trained]), torch.from_numpy(part[trained:])) for part in (x, y)
    )
    if trained < x.shape[1]:  # Φᵀ W = (Φᵀ Xᵀ) (K + λI)⁻¹ Y
        matrix, targets, columns = learned @ learned.T, known, learned @ held_out.T
    else:
        matrix, targets, columns = learned.T @ learned, learned.T @ known, held_out.T
    resolvent = Resolvent(matrix)
    targets, columns = resolvent.rotated(targets), resolvent.rotated(columns)
    errors = {}
    for lam in grid:
        shifted = resolvent.at([lam])
        scores = shifted.whitened(columns)[0].T @ shifted.whitened(targets)[0]
        errors[lam] = float(((scores - truth) ** 2).mean())
    return ErrorSearch(errors)
