"""Least squares from sums, without the weakest directions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from layup.algebra.classifier import SumsClassifier
from layup.algebra.ridge import Spectrum
from layup.algebra.samples import Floats
from layup.algebra.statistics import GramStatistics
from layup.errors import InputError


class TruncatedClassifier(SumsClassifier):
    """Least squares without λ, on the strongest directions of the samples only.

    With the eigenvalues of G in descending order, G = V diag(s) Vᵀ,

        s_y = Φᵀ V_r diag(1 / s_1, …, 1 / s_r) V_rᵀ c_y        r = (1 − truncate) · min(N, d), rounded,

    which is the least-squares solution of least norm among those within the span of V_r. N samples have no
    more than min(N, d) directions; what is left out are those in which they differ least.

    Args:
        truncate: the share of directions that is left out, from 0 (least squares of minimum norm) to below 1.

    Learning costs d² operations per sample. The first prediction after a batch costs an eigendecomposition:
    9 d³, but 3 d·N² + 9 N³ for N < d samples, since a root of G of rank N is factorised instead.

    >>> import numpy as np
    >>> x, y = np.diag([3.0, 2.0, 1.0, 0.1]), ["a", "b", "a", "b"]
    >>> TruncatedClassifier(0.25).fit(x, y).scores([[0.0, 1.0, 0.0, 1.0]]).round(12).tolist()
    [[0.0, 0.5]]
    """

    kind = "truncated"
    solution_: _Truncated

    def __init__(self, truncate: float = 0.25) -> None:
        self.truncate = truncate

    def adopt(self, statistics: GramStatistics) -> None:
        """Continue from these sums."""
        super().adopt(statistics)
        self.solution_ = _Truncated(statistics, float(self.truncate))

    def in_force(self) -> dict[str, Any]:
        """How many directions are kept, at most."""
        return {"rank": self.solution_.rank}

    def check(self) -> None:
        """Refuse what is no share."""
        if not (isinstance(self.truncate, Real) and 0 <= self.truncate < 1):
            raise InputError(
                f"truncate = {self.truncate} is not a share of directions that can be left out: give a "
                "number ≥ 0 and below 1, such as 0.25."
            )

    def linear(self) -> tuple[Floats, Floats]:
        """W, and nothing that is added."""
        weights = self.solution_.weights
        return weights, np.zeros(weights.shape[1])

    def _score(self, x: Floats) -> Floats:
        return x @ self.solution_.weights


@dataclass(frozen=True)
class _Truncated:
    """The solution of sums: computed when first used, since learning alone needs no solving."""

    statistics: GramStatistics
    truncate: float

    @property
    def rank(self) -> int:
        """r, how many directions are kept; at least one."""
        return max(1, round((1 - self.truncate) * min(self.statistics.samples, self.statistics.dim)))

    @cached_property
    def weights(self) -> Floats:
        """W, d × C."""
        sums = self.statistics
        return Spectrum.of(sums.gram, sums.prototypes, sums.samples).strongest(self.rank).weights(0.0)
