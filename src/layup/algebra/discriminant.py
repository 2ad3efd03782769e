"""Linear discriminant analysis from sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from layup.algebra.classifier import SumsClassifier
from layup.algebra.parameters import SHRINKAGES, require_number
from layup.algebra.ridge import eigenpairs, well_conditioned_factor
from layup.algebra.samples import Floats
from layup.algebra.statistics import GramStatistics
from layup.registry import unknown_name


class DiscriminantClassifier(SumsClassifier):
    """Linear discriminant analysis from sums: Gaussian classes with their own means and one covariance.

    With μ_y = c_y / n_y and Σ = S_W / N + λI, where S_W = G − Σ c_y c_yᵀ / n_y is the scatter within classes,

        s_y = μ_yᵀ Σ⁻¹ Φ − ½ μ_yᵀ Σ⁻¹ μ_y + log(n_y / N),

    which is the logarithm of a class's posterior probability, up to a term that all classes share.

    Args:
        lam: a number ≥ 0, which is added to the variance in every direction; if it is less than the
            rounding of S_W, this is added instead. Or "oas": Σ = (1 − ρ) S + ρ (tr S / d) I, with S = S_W / N
            and the ρ of `oracle_shrinkage`, which follows from the sums.
        balance: treat classes of different size alike: without the term log(n_y / N), the class is predicted
            whose mean is nearest by Mahalanobis distance.

    Learning costs d² operations per sample, the first prediction after a batch d³/3; if λ is not above
    rounding, an eigendecomposition (9 d³).

    >>> model = DiscriminantClassifier(0.1).fit([[1.0, 0.1], [0.8, 0.0], [0.1, 1.0]], ["cat", "cat", "dog"])
    >>> model.predict([[0.9, 0.3], [0.2, 0.9]]).tolist()
    ['cat', 'dog']
    """

    kind = "discriminant"
    solution_: _Discriminant

    def __init__(self, lam: float | str = 1.0, balance: bool = False) -> None:
        self.lam = lam
        self.balance = balance

    def adopt(self, statistics: GramStatistics) -> None:
        """Continue from these sums."""
        super().adopt(statistics)
        self.solution_ = _Discriminant(statistics, self.lam, bool(self.balance))

    def in_force(self) -> dict[str, Any]:
        """The λ that it was made with. The ρ of "oas" is a function of the sums."""
        return {} if isinstance(self.lam, str) else {"lambda": float(self.lam)}

    def check(self) -> None:
        """Refuse what is neither a λ nor a rule."""
        if not isinstance(self.lam, str):
            require_number(self.lam, "a number ≥ 0, or 'oas'")
        elif self.lam not in SHRINKAGES:
            raise unknown_name("rule for λ", self.lam, [*SHRINKAGES, "a number ≥ 0"])

    def linear(self) -> tuple[Floats, Floats]:
        """Σ⁻¹ μ, and the terms that do not depend on Φ."""
        return self.solution_.weights_and_offsets

    def _score(self, x: Floats) -> Floats:
        weights, offsets = self.linear()
        return x @ weights + offsets


class Shrunk(NamedTuple):
    """What becomes of S: `factor` · S + `added` · I."""

    factor: float
    added: float


def oracle_shrinkage(covariance: Floats, samples: int) -> float:
    """ρ, from 0 to 1: how far a covariance S of n samples in d dimensions is moved towards the identity.

    Oracle approximating shrinkage (Chen et al. 2010), as scikit-learn's `OAS` has it, without terms in 2/d:

        ρ = (tr S² + tr² S) / ((n + 1) (tr S² − tr² S / d)), but at most 1.

    >>> oracle_shrinkage(np.diag([3.0, 1.0]), samples=12)
    1.0
    >>> oracle_shrinkage(np.diag([3.0, 1.0]), samples=51)
    0.25
    """
    traced, squared = float(np.trace(covariance)) ** 2, float(np.vdot(covariance, covariance))
    spread = (samples + 1) * (squared - traced / len(covariance))
    return min((squared + traced) / spread, 1.0) if spread > 0 else 1.0


@dataclass(frozen=True)
class _Discriminant:
    """The discriminants of sums: computed when first used, since learning alone needs no solving."""

    statistics: GramStatistics
    lam: float | str
    balance: bool

    @cached_property
    def weights_and_offsets(self) -> tuple[Floats, Floats]:
        """Σ⁻¹ μ, d × C, and what is added to the scores, C."""
        sums = self.statistics
        means = sums.means
        weights = self._solved(means)
        offsets = -(means * weights.T).sum(axis=1) / 2
        return weights, offsets if self.balance else offsets + np.log(sums.counts / sums.total)

    def _solved(self, means: Floats) -> Floats:
        """Σ⁻¹ μ."""
        sums = self.statistics
        covariance = sums.within_class_scatter()
        covariance /= sums.total
        factor, added = self._shrunk(covariance)
        covariance *= factor
        root = well_conditioned_factor(covariance, sums.samples - len(sums.labels), added)
        if root is not None:
            return torch.cholesky_solve(torch.from_numpy(means.T.copy()), root).numpy()
        variances, directions = eigenpairs(covariance)
        rounding = sums.dim * np.finfo(np.float64).eps * sums.trace / sums.total
        least = max(added, rounding) or 1.0  # any number will do where all features are zero
        variances = np.maximum(variances, 0.0) + least  # forgetting may leave some below zero
        return np.asarray(directions @ ((directions.T @ means.T) / variances[:, None]))

    def _shrunk(self, covariance: Floats) -> Shrunk:
        """How the covariance is shrunk."""
        if not isinstance(self.lam, str):
            return Shrunk(1.0, float(self.lam))
        share = oracle_shrinkage(covariance, self.statistics.total)
        return Shrunk(1 - share, share * float(np.trace(covariance)) / len(covariance))
