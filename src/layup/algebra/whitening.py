"""Samples in the units of the spread within classes, and what they would be with one of them left out.

Let μ_y be the mean of class y, S_W = G − Σ c_y c_yᵀ / n_y the scatter within classes, and Σ = S_W + λD with a
diagonal D > 0. With R = Σ⁻¹ = FᵀF, ψ(x) = F x is a *whitened* vector, and all that classifiers need are inner
products of those:

    A = M R Mᵀ        of the means (rows of M) with each other, C × C
    b(x) = M R x      of a sample with the means
    h = uᵀ R u        of u = x − μ_y with itself, for a sample of class y

Leaving a sample out of n of its class changes Σ by −k u uᵀ with k = n/(n−1), and μ_y by −u/(n−1). With
b = M R u, d = 1 − k h and g = k/d, Sherman and Morrison give the same products without the sample, exactly:

    A' = A + Z K Zᵀ            with Z = [e_y, b] and K = [[h/(d (n−1)²), −1/(d (n−1))], [−1/(d (n−1)), g]]
    b'(x) = A e_y + (1 + g (b_y + h)) b − e_y (b_y + h)/(d (n−1))
    xᵀR'x = A_yy + 2 b_y + h + g (b_y + h)²

So judging each of n samples by all the others costs d² operations per sample, and nothing is learned again.

A few samples span a few directions only, and beyond them Σ is λD. With an orthonormal basis Q of what they
span, in units of √D, only QᵀΣQ is factorised; what of x is beyond the span is divided by √λ. So r samples
cost d r² operations, not d³/3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from layup.algebra.resolvent import RAISES
from layup.algebra.samples import Floats, require_finite
from layup.algebra.statistics import GramStatistics
from layup.errors import InputError

ROUNDING = 1e-9
"""The least d = 1 − k h: what is smaller is rounding, of a sample that nothing else is like."""


class Whitening:
    """R = (S_W + λD)⁻¹ of sums, factorised. Costs d³/3 operations, and holds d² values; less for few samples.

    Args:
        statistics: the sums; at least one class.
        scale: √D, one value per column.
        lam: λ > 0. Forgetting may leave directions of S_W below zero, by rounding or because photos were read
            again: λ is then raised tenfold until there are none.

    >>> sums = GramStatistics(2)
    >>> sums.update([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]], ["cat", "cat", "dog"])
    >>> whitening = Whitening(sums, scale=np.ones(2), lam=1.0)  # S_W = diag(2, 0)
    >>> whitening.between.round(12).tolist()  # of the means (2, 0) and (0, 1)
    [[1.333333333333, 0.0], [0.0, 1.0]]
    """

    def __init__(self, statistics: GramStatistics, scale: Floats, lam: float) -> None:
        self.counts = statistics.counts
        self.means = statistics.means
        self.scale = scale
        few = statistics.rows
        if few is None or len(few[0]) >= statistics.dim:
            self._basis, scatter = None, _scatter(statistics, scale)
        else:
            index = np.searchsorted(statistics.labels, few[1])
            self._basis, scatter = _spanned(few[0] / scale, self.means[index] / scale)
        self._factor, self._lam = _factorised(scatter, lam)

    def whitened(self, x: Floats) -> Floats:
        """ψ of each row. Costs d² operations per row; d r where r samples span a part of the space."""
        rows = torch.from_numpy(x / self.scale)
        if self._basis is None:
            return self._divided(rows)
        inside = rows @ self._basis
        beyond = (rows - inside @ self._basis.mT) / self._lam**0.5
        return np.hstack([self._divided(inside), beyond.numpy()])

    def _divided(self, rows: torch.Tensor) -> Floats:
        columns = rows.mT.contiguous()
        return np.asarray(torch.linalg.solve_triangular(self._factor, columns, upper=False).mT.numpy())

    @cached_property
    def centres(self) -> Floats:
        """ψ of the means, C × d."""
        return self.whitened(self.means)

    @cached_property
    def between(self) -> Floats:
        """A, the inner products of the means."""
        return self.centres @ self.centres.T

    @cached_property
    def weights(self) -> Floats:
        """R Mᵀ, d × C: b(x) of many samples is x @ weights, without whitening them."""
        columns = torch.from_numpy(np.ascontiguousarray(self.centres[:, : len(self._factor)].T))
        solved = torch.linalg.solve_triangular(self._factor.mT, columns, upper=True)
        if self._basis is not None:  # class means are within the span
            solved = self._basis @ solved
        return np.asarray(solved.numpy() / self.scale[:, None])

    def of(self, x: Floats) -> tuple[Floats, Floats]:
        """b(x), n × C, and xᵀ R x, n, of each row. Costs d² operations each."""
        psi = self.whitened(x)
        return psi @ self.centres.T, (psi**2).sum(axis=1)

    def left_out(self, x: NDArray[Any], index: NDArray[np.int64]) -> LeftOut:
        """The products of learned samples, each without itself; `index` are their classes.

        Only for samples whose class has others. λ and D stay as they are.
        """
        b, h = self.of(x - self.means[index])
        return LeftOut.of(self.between, b, h, index, self.counts[index].astype(np.float64))


def _scatter(statistics: GramStatistics, scale: Floats) -> torch.Tensor:
    """S_W in units of √D."""
    scatter = statistics.within_class_scatter()
    scatter /= np.outer(scale, scale)
    require_finite(scatter)
    return torch.from_numpy(scatter)


def _spanned(rows: Floats, means: Floats) -> tuple[torch.Tensor, torch.Tensor]:
    """Q of what the rows span, d × r, and QᵀS_W Q; `means` are those of the class of each row."""
    require_finite(rows)
    basis, inside = torch.linalg.qr(torch.from_numpy(rows).mT)
    around = inside.mT - torch.from_numpy(means) @ basis
    return basis, around.mT @ around


def _factorised(matrix: torch.Tensor, lam: float) -> tuple[torch.Tensor, float]:
    """L of A + λI = L Lᵀ, and λ, which is raised where that is not positive. Overwrites A."""
    rounding = float(matrix.norm()) * torch.finfo(matrix.dtype).eps
    added = 0.0
    for _ in range(1 + RAISES):
        matrix.diagonal().add_(lam - added)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not failed:
            return factor, lam
        lam, added = 10 * max(lam, rounding), lam
    raise InputError("These sums cannot be solved: what is left in them is not that of any samples.")


@dataclass(frozen=True)
class LeftOut:
    """b'(x) and xᵀR'x of samples without themselves, and A' = A + Z K Zᵀ, which is never made.

    between: A; index: the class y of each sample; deviation: b = M R u.
    corner, edge, core: the values of K.
    """

    between: Floats
    index: NDArray[np.int64]
    deviation: Floats
    corner: Floats
    edge: Floats
    core: Floats
    cross: Floats
    own: Floats

    @classmethod
    def of(cls, between: Floats, b: Floats, h: Floats, index: NDArray[np.int64], n: Floats) -> LeftOut:
        """From A, b, h, the class of each sample, and how many samples that has."""
        rows, k = np.arange(len(index)), n / (n - 1)
        rest = np.maximum(1 - k * h, ROUNDING)
        g, along = k / rest, b[rows, index] + h
        cross = between[index] + b * (1 + g * along)[:, None]
        cross[rows, index] -= along / (rest * (n - 1))
        own = between[index, index] + 2 * b[rows, index] + h + g * along**2
        return cls(
            between, index, b, h / (rest * (n - 1) ** 2), -1 / (rest * (n - 1)), g, cross=cross, own=own
        )

    def diagonal(self) -> Floats:
        """The diagonal of A' for each sample, n × C."""
        rows = np.arange(len(self.index))
        found = np.diagonal(self.between) + self.core[:, None] * self.deviation**2
        found[rows, self.index] += self.corner + 2 * self.edge * self.deviation[rows, self.index]
        return np.asarray(found)

    def times(self, vector: Floats) -> Floats:
        """A' v for each sample, n × C."""
        rows = np.arange(len(self.index))
        at, across = vector[self.index], self.deviation @ vector
        found = (self.between @ vector) + self.deviation * (self.edge * at + self.core * across)[:, None]
        found[rows, self.index] += self.corner * at + self.edge * across
        return np.asarray(found)

    def solved(self, inverse: Floats, change: Floats | float = 0.0) -> Floats:
        """(B + A' − A + change e_y e_yᵀ)⁻¹ b'(x) for each sample, with the `inverse` of B (C × C).

        By Woodbury's identity with the two columns of Z, so that nothing larger than 2 × 2 is inverted again.
        """
        rows = np.arange(len(self.index))
        corner = self.corner + change
        plain, leaning = self.cross @ inverse, self.deviation @ inverse
        n11, n12 = np.diagonal(inverse)[self.index], leaning[rows, self.index]
        n22 = (self.deviation * leaning).sum(axis=1)
        z1, z2 = plain[rows, self.index], (self.deviation * plain).sum(axis=1)
        y1, y2 = corner * z1 + self.edge * z2, self.edge * z1 + self.core * z2
        m11, m12 = 1 + corner * n11 + self.edge * n12, corner * n12 + self.edge * n22
        m21, m22 = self.edge * n11 + self.core * n12, 1 + self.edge * n12 + self.core * n22
        determinant = m11 * m22 - m12 * m21
        first, second = (m22 * y1 - m12 * y2) / determinant, (m11 * y2 - m21 * y1) / determinant
        return np.asarray(plain - inverse[self.index] * first[:, None] - leaning * second[:, None])
