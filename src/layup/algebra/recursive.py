"""Recursive least squares: learn a sample, predict, learn the next, without solving again.

With P = (G + λI)⁻¹ and W = P c, one more sample Φ of class y changes both by a matrix of rank one
(Sherman-Morrison): for g = P Φ and s = 1 + Φᵀ g,

    P' = P − g gᵀ / s            W' = P' (c + Φ e_yᵀ) = W + (g / s) (e_y − Wᵀ Φ)ᵀ

so that a sample costs 2 d² operations for g, and 2 C·d for W, where a solve costs d³/3. Writing P again for
every sample would cost more than reading it: the columns k = g / √s are kept aside, P Φ − Σ k (kᵀ Φ) is the
true g, and they are added to P as one product when there are enough of them.

Balanced predictions also need the products cᵀ W (`ridge.balancing`). They are updated, too: since cᵀ P = Wᵀ,
f = Wᵀ Φ gives cᵀ g, and with r = e_y − f

    (c + Φ e_yᵀ)ᵀ W' = cᵀ W + (f / s) rᵀ + e_y (f + (1 − 1/s) r)ᵀ          for Φᵀ g / s = 1 − 1/s.

Rounding errors add up from sample to sample. So now and then the weights are checked against the sums: where
the backward error ‖c − (G + λI) W‖ / ((‖G‖ + λ) ‖W‖ + ‖c‖) is too large, the residual is solved for, which
corrects them; if that is not enough, G + λI is factorised again.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from layup.algebra.ridge import balancing, rounding_limit, well_conditioned_factor
from layup.algebra.samples import Floats
from layup.algebra.statistics import GramStatistics

BLOCK = 64
"""How many columns are added to P together."""
CHECK_EVERY = 512
"""Samples from one check of the backward error to the next."""
TOLERANCE = 5e-14
"""The backward error above which weights are corrected."""


class RecursiveLeastSquares:
    """P and W of sums to which samples are added one by one; λ stays.

    Starting costs d³ operations, every sample 2 d² + 4 C·d. Holds d² + C·d values in addition to the sums.
    When it is no longer `sound`, G + λI is too close to a singular matrix: solve instead.

    >>> import numpy as np
    >>> sums = GramStatistics(2)
    >>> sums.update([[1.0, 0.0], [0.0, 1.0]], ["cat", "dog"])
    >>> recursion = RecursiveLeastSquares.begun(sums, lam=1.0)
    >>> sums.update([[0.0, 2.0]], ["eel"])
    >>> recursion.learn(np.array([[0.0, 2.0]]), np.array(["eel"]))
    >>> recursion.scores(np.array([[1.0, 3.0]])).round(12).tolist()
    [[0.5, 0.5, 1.0]]
    """

    def __init__(self, sums: GramStatistics, lam: float, factor: Tensor) -> None:
        self.sums = sums
        self.lam = lam
        self.sound = True
        self._begin(factor)

    @classmethod
    def begun(cls, sums: GramStatistics, lam: float) -> RecursiveLeastSquares | None:
        """Start from these sums; None if G + λI is too close to a singular matrix."""
        factor = well_conditioned_factor(sums.gram, sums.samples, lam)
        return None if factor is None else cls(sums, lam, factor)

    def learn(self, x: Floats, labels: NDArray[Any]) -> None:
        """Follow samples (n × d) that were just added to the sums. If interrupted, discard this object."""
        self._make_room(labels.tolist())
        index = {label: i for i, label in enumerate(self._labels)}
        for start in range(0, len(x), BLOCK):
            rows = torch.from_numpy(x[start : start + BLOCK])
            if self._aside + len(rows) > BLOCK:
                self._take_in()
            for phi, product, label in zip(
                rows, (self._inverse @ rows.T).T, labels[start : start + BLOCK].tolist(), strict=True
            ):
                self._follow(phi, product, index[label])
        self._since_check += len(x)
        if self._since_check >= CHECK_EVERY:
            self._check()

    def scores(self, x: Floats, *, balance: bool = False) -> Floats:
        """The scores of samples (n × d), one column per label of the sums."""
        scores = torch.from_numpy(x) @ self._weights
        if balance:
            scores = scores @ balancing(self._products, torch.from_numpy(self.sums.counts))
        return scores.numpy()

    def backward_error(self) -> float:
        """How far, relative to their size, G and c would have to be changed for W to be exact."""
        residual, scale = self._residual()
        return float(residual.norm()) / scale

    def _begin(self, factor: Tensor) -> None:
        prototypes = torch.from_numpy(self.sums.prototypes)
        self._labels = list(self.sums.labels)
        self._inverse = torch.cholesky_inverse(factor)
        self._weights = torch.cholesky_solve(prototypes.T, factor).contiguous()
        self._products = prototypes @ self._weights
        self._columns = factor.new_empty(BLOCK, len(factor))  # each as a row, contiguous in memory
        self._aside = 0
        self._since_check = 0

    def _make_room(self, labels: list[Any]) -> None:
        """Columns of zeros for new labels."""
        if {*labels} <= {*self._labels}:
            return
        known, self._labels = self._labels, list(self.sums.labels)
        kept = torch.tensor([self._labels.index(label) for label in known], dtype=torch.int64)
        weights = self._weights.new_zeros(len(self._weights), len(self._labels))
        products = self._products.new_zeros(len(self._labels), len(self._labels))
        weights[:, kept] = self._weights
        products[kept[:, None], kept] = self._products
        self._weights, self._products = weights, products

    def _follow(self, phi: Tensor, product: Tensor, index: int) -> None:
        """One sample, given P Φ for P as it is stored."""
        aside = self._columns[: self._aside]
        g = product - aside.T @ (aside @ phi)
        s = 1 + phi @ g
        f = phi @ self._weights
        r = -f
        r[index] += 1
        self._products += torch.outer(f / s, r)
        self._products[index] += f + (1 - 1 / s) * r
        self._weights.addr_(g / s, r)
        self._columns[self._aside] = g / s.sqrt()
        self._aside += 1

    def _take_in(self) -> None:
        """Add to P the columns that were kept aside."""
        columns = self._columns[: self._aside]
        self._inverse.addmm_(columns.T, columns, alpha=-1)
        self._aside = 0

    def _check(self) -> None:
        """Correct the rounding errors since the last check."""
        self._since_check = 0
        self._take_in()
        self.sound = 1 / _largest_eigenvalue(self._inverse) > rounding_limit(self.sums.trace)
        residual, scale = self._residual()
        if not self.sound or residual.norm() <= TOLERANCE * scale:
            return
        self._weights += self._inverse @ residual
        self._products = torch.from_numpy(self.sums.prototypes) @ self._weights
        if self.backward_error() > TOLERANCE:
            factor = well_conditioned_factor(self.sums.gram, self.sums.samples, self.lam)
            if factor is None:
                self.sound = False
            else:
                self._begin(factor)

    def _residual(self) -> tuple[Tensor, float]:
        """c − (G + λI) W, and what its size is relative to."""
        gram, c = torch.from_numpy(self.sums.gram), torch.from_numpy(self.sums.prototypes).T
        residual = c - gram @ self._weights - self.lam * self._weights
        norm = _largest_eigenvalue(gram) + self.lam
        return residual, float(norm * self._weights.norm() + c.norm())


def _largest_eigenvalue(gram: Tensor) -> float:
    """Of a positive semi-definite matrix, from below and mostly within a tenth: power iteration."""
    vector = torch.rand(len(gram), 1, dtype=gram.dtype, generator=torch.Generator().manual_seed(0))
    for _ in range(8):
        vector = gram @ torch.nn.functional.normalize(vector, dim=0)
    return float(vector.norm())
