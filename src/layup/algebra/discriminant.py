"""Linear discriminant analysis from sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from layup.algebra.classifier import SumsClassifier
from layup.algebra.parameters import require_number
from layup.algebra.ridge import eigenpairs
from layup.algebra.samples import Floats
from layup.algebra.statistics import GramStatistics


class DiscriminantClassifier(SumsClassifier):
    """Linear discriminant analysis from sums: Gaussian classes with their own means and one covariance.

    With μ_y = c_y / n_y and Σ = S_W / N + λI, where S_W = G − Σ c_y c_yᵀ / n_y is the scatter within classes,

        s_y = μ_yᵀ Σ⁻¹ Φ − ½ μ_yᵀ Σ⁻¹ μ_y + log(n_y / N),

    which is the logarithm of a class's posterior probability, up to a term that all classes share.

    Args:
        lam: a number ≥ 0, which is added to the variance in every direction; if it is less than the
            rounding of S_W, this is added instead.

    Learning costs d² operations per sample, the first prediction after a batch an eigendecomposition (9 d³).

    >>> model = DiscriminantClassifier(0.1).fit([[1.0, 0.1], [0.8, 0.0], [0.1, 1.0]], ["cat", "cat", "dog"])
    >>> model.predict([[0.9, 0.3], [0.2, 0.9]]).tolist()
    ['cat', 'dog']
    """

    kind = "discriminant"
    solution_: _Discriminant

    def __init__(self, lam: float = 1.0) -> None:
        self.lam = lam

    def adopt(self, statistics: GramStatistics) -> None:
        """Continue from these sums."""
        super().adopt(statistics)
        self.solution_ = _Discriminant(statistics, float(self.lam))

    def in_force(self) -> dict[str, Any]:
        """The λ that it was made with."""
        return {"lambda": float(self.lam)}

    def check(self) -> None:
        """Refuse what is not a λ."""
        require_number(self.lam)

    def linear(self) -> tuple[Floats, Floats]:
        """Σ⁻¹ μ, and the terms that do not depend on Φ."""
        return self.solution_.weights_and_offsets

    def _score(self, x: Floats) -> Floats:
        weights, offsets = self.linear()
        return x @ weights + offsets


@dataclass(frozen=True)
class _Discriminant:
    """The discriminants of sums: computed when first used, since learning alone needs no solving."""

    statistics: GramStatistics
    lam: float

    @cached_property
    def weights_and_offsets(self) -> tuple[Floats, Floats]:
        """Σ⁻¹ μ, d × C, and what is added to the scores, C."""
        sums = self.statistics
        means = sums.means
        variances, directions = eigenpairs(sums.within_class_scatter() / sums.total)
        rounding = sums.dim * np.finfo(np.float64).eps * np.trace(sums.gram) / sums.total
        least = max(self.lam, rounding) or 1.0  # any number will do where all features are zero
        variances = np.maximum(variances, 0.0) + least  # forgetting may leave some below zero
        weights = directions @ ((directions.T @ means.T) / variances[:, None])
        return weights, np.log(sums.counts / sums.total) - (means * weights.T).sum(axis=1) / 2
