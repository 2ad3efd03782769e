"""The classifier that measures distances from class means by each class's own covariance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from layup.algebra.class_moments import ClassMoments
from layup.algebra.classifier import SumsClassifier
from layup.algebra.parameters import require_number
from layup.algebra.ridge import eigenpairs
from layup.algebra.samples import Floats
from layup.errors import InputError

LEAST = 1e-6
"""Added to every variance of a correlation matrix, which are all 1, so that it can be inverted."""


class ClassCovariancesClassifier(SumsClassifier):
    """The nearest class mean by Mahalanobis distance, with a covariance per class (FeCAM).

    With the mean μ_y and the covariance S_y of each class, V₁ and V₂ the means of the values of S_y on and
    off its diagonal, and J a matrix of ones,

        Σ_y = S_y + γ₁ V₁ I + γ₂ V₂ (J − I)        R_y = D^(−1/2) Σ_y D^(−1/2), with D the diagonal of Σ_y,
        s_y = −(Φ − μ_y)ᵀ R_y⁻¹ (Φ − μ_y).

    R_y, a matrix of correlations, makes the distances from different classes comparable. If the samples of a
    class do not vary, or if there is only one, R_y = I.

    Args:
        gamma1: γ₁, a number > 0.
        gamma2: γ₂, from 0 to γ₁: then R_y has no negative eigenvalue.

    Learning costs d² operations per sample, the first prediction after a batch d³/3 per class, and 8·C·d²
    bytes; each prediction d² per class.

    >>> model = ClassCovariancesClassifier()
    >>> model.fit([[1.0, 0.0], [2.0, 0.0], [0.1, 1.0], [0.1, 1.2]], ["cat", "cat", "dog", "dog"])
    ClassCovariancesClassifier()
    >>> model.predict([[1.4, 0.2], [0.3, 0.9]]).tolist()
    ['cat', 'dog']
    """

    kind = "class covariances"
    solution_: _Correlations

    def __init__(self, gamma1: float = 1.0, gamma2: float = 0.0) -> None:
        self.gamma1 = gamma1
        self.gamma2 = gamma2

    def adopt(self, statistics: ClassMoments) -> None:
        """Continue from these sums."""
        super().adopt(statistics)
        self.solution_ = _Correlations(statistics, float(self.gamma1), float(self.gamma2))

    def check(self) -> None:
        """Refuse impossible shrinkage."""
        for value in (self.gamma1, self.gamma2):
            require_number(value, name="γ")
        if not 0 < self.gamma1 >= self.gamma2:
            raise InputError(
                f"gamma1 = {self.gamma1} and gamma2 = {self.gamma2} cannot be used: gamma1 must be above 0, "
                "and gamma2 at most gamma1."
            )

    def _score(self, x: Floats) -> Floats:
        means, roots = self.statistics_.means, self.solution_.roots
        scores = np.empty((len(x), len(means)))
        for column, (mean, root) in enumerate(zip(means, roots, strict=True)):
            around = torch.from_numpy((x - mean).T)
            scores[:, column] = -(torch.linalg.solve_triangular(root, around, upper=False) ** 2).sum(dim=0)
        return scores


@dataclass(frozen=True)
class _Correlations:
    """The correlations of each class: computed when first used, since learning alone needs no solving."""

    statistics: ClassMoments
    gamma1: float
    gamma2: float

    @cached_property
    def roots(self) -> list[torch.Tensor]:
        """L of R_y = L Lᵀ for each class."""
        return [_root(self.correlations(label)) for label in self.statistics.labels]

    def correlations(self, label: Any) -> Floats:
        """R_y."""
        sums = self.statistics
        shrunk = sums.covariance(label)
        dim, trace = len(shrunk), float(np.trace(shrunk))
        count = sums.count_by_label()[label]
        rounding = dim * float(np.finfo(sums.precision).eps) * sums.class_trace(label) / count
        if count == 1 or trace <= rounding:
            return np.eye(dim)
        between = (shrunk.sum() - trace) / max(dim * (dim - 1), 1)
        diagonal = np.maximum(np.diagonal(shrunk), 0.0) + self.gamma1 * trace / dim
        shrunk += self.gamma2 * between
        shrunk[np.diag_indices(dim)] = diagonal
        deviations = np.sqrt(diagonal)
        shrunk /= np.outer(deviations, deviations)
        shrunk[np.diag_indices(dim)] += LEAST
        return shrunk


def _root(correlations: Floats) -> torch.Tensor:
    """L of a matrix L Lᵀ; eigenvalues that forgetting has left below zero become `LEAST`."""
    factor: torch.Tensor
    factor, failed = torch.linalg.cholesky_ex(torch.from_numpy(correlations))
    if failed:
        values, vectors = eigenpairs(correlations)
        factor = torch.linalg.cholesky(torch.from_numpy((vectors * np.maximum(values, LEAST)) @ vectors.T))
    return factor
