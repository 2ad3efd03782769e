"""Ridge regression from sums alone: factorise once, solve for any λ, choose λ.

The classifier is W = (G + λI)⁻¹ c, one column per class, and the scores are s = Φᵀ W (eq. 6). With the
eigendecomposition G = V diag(s) Vᵀ and A = Vᵀ c,

    W(λ) = V diag(1 / (s + λ)) A,

so one factorisation serves every λ. Both G and c are sums over the same samples, so c lies in the range
of G: where an eigenvalue is zero, A is zero too. In floating point both are rounding noise there
(s ≤ d·ε·s_max), and dividing one by the other would ruin the answer for small λ; these directions are
left out. So are all beyond the N largest, for N samples span no more: what forgetting has left there is
the rounding of larger sums. That makes λ = 0 the minimum-norm solution G⁺c, and W continuous in λ down to it.

All of this is float64, unless the sums are kept in float32: there, G + λI with fewer samples than dimensions
cannot be told from a singular matrix. Others solve it all the same, and `solve` then does as they do.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.model_selection import StratifiedKFold

from layup.statistics import Floats, GramStatistics

LAMBDAS: tuple[float, ...] = (1e-8, *(10.0 ** (exponent / 2) for exponent in range(-8, 7)))
"""The sixteen values that the paper searches (appendix A.1)."""
WIDE_LAMBDAS: tuple[float, ...] = tuple(10.0**exponent for exponent in range(-8, 9))
"""The seventeen values that RanPAC searches."""

FOLDS = 4
FEWEST = 5
"""Samples that can be cut 80 to 20."""
LEAST_FREEDOM = 0.1
ROUNDING = {"float64": 1e-9, "float32": 1e-3}
FIRST_LAMBDA = 1.0
"""λ while no lesson could be searched: what the paper uses where it cannot search."""


@dataclass(frozen=True)
class Spectrum:
    """G = V diag(s) Vᵀ without its zero directions, and A = Vᵀ c.  Costs about 9 d³ operations.

    >>> spectrum = Spectrum.of(np.diag([4.0, 1.0, 0.0]), np.array([[2.0, 1.0, 0.0]]), total=2)
    >>> spectrum.weights(0.0).ravel().tolist()
    [0.5, 1.0, 0.0]
    >>> spectrum.weights(1.0).ravel().tolist()
    [0.4, 0.5, 0.0]
    """

    vectors: Floats  # V, d × r
    values: Floats  # s, r
    targets: Floats  # A, r × C
    total: int  # N ≥ r

    @classmethod
    def of(cls, gram: Floats, prototypes: Floats, total: int) -> Spectrum:
        """Factorise G (d × d) of `total` samples and turn the prototypes (C × d) into its coordinates."""
        s, v = _directions(gram, total)
        return cls(v, s, v.T @ prototypes.T, total)

    @classmethod
    def of_samples(cls, x: Floats, y: Floats) -> Spectrum:
        """The same from the samples X (N × d) and their targets Y (N × C), by the smaller of two matrices.

        Fewer samples than dimensions are better factorised as K = X Xᵀ = U diag(s) Uᵀ (N × N), whose positive
        eigenvalues are those of G = Xᵀ X: for V = Xᵀ U diag(s)^(−1/2),

            Vᵀ V = diag(s)^(−1/2) Uᵀ K U diag(s)^(−1/2) = I        G V = Xᵀ K U diag(s)^(−1/2) = V diag(s)
            A = Vᵀ Xᵀ Y = diag(s)^(−1/2) Uᵀ K Y = diag(s)^(1/2) Uᵀ Y

        so that W(λ) = V diag(1 / (s + λ)) A = Xᵀ (K + λI)⁻¹ Y. Costs 9 N³ + 2 d·N² operations, for N < d.

        >>> x, y = np.array([[3.0, 4.0, 0.0]]), np.array([[1.0]])
        >>> Spectrum.of_samples(x, y).weights(25.0).ravel().round(12).tolist()
        [0.06, 0.08, 0.0]
        """
        if len(x) >= x.shape[1]:
            return cls.of(x.T @ x, y.T @ x, len(x))
        s, u = _directions(x @ x.T, len(x))
        root = np.sqrt(s)
        return cls(x.T @ (u / root), s, root[:, None] * (u.T @ y), len(x))

    def weights(self, lam: float) -> Floats:
        """W(λ), d × C."""
        return self.vectors @ (self.targets / (self.values + lam)[:, None])

    def gcv(self, lam: float) -> float:
        """Generalised cross-validation of λ, N · RSS / (N − df)².

        One-hot targets make ‖Y‖² = N, and then with b = A²/s (the part of ‖Y‖² along each direction)

            RSS(λ) = (N − Σ b) + Σ b (λ / (s + λ))²          N − df(λ) = (N − r) + Σ λ / (s + λ)

        in which nothing cancels as λ → 0: where N = r, samples can be fitted perfectly, and N − Σ b is zero.
        """
        shrunk = lam / (self.values + lam)
        residual = self._unexplained + (self._explained * shrunk**2).sum()
        return float(self.total * residual / self._freedom(lam) ** 2)

    def best_gcv(self) -> float:
        """The λ > 0 that minimises `gcv`: the best of a fine grid, refined between its neighbours.

        Only where at least a tenth of the samples' freedom is left: closer to a perfect fit, N − df is a
        handful, and one photo that comes twice would decide (its twin predicts it, however small λ is).
        """
        top = float(self.values.max())
        low = rounding_floor(self.values, len(self.vectors))
        grid = np.geomspace(low, top, 1 + int(np.ceil(8 * np.log10(top / low))))
        grid = grid[[self._freedom(lam) >= LEAST_FREEDOM * self._different for lam in grid]]
        at = int(np.argmin([self.gcv(lam) for lam in grid]))
        bounds = np.log(grid[max(at - 1, 0)]), np.log(grid[min(at + 1, len(grid) - 1)])
        found = minimize_scalar(lambda x: self.gcv(np.exp(x)), bounds=bounds, method="bounded")
        return float(np.exp(found.x))

    @cached_property
    def _explained(self) -> Floats:
        """b, the part of ‖Y‖² along each direction."""
        return np.asarray((self.targets**2).sum(axis=1) / self.values)

    @cached_property
    def _unexplained(self) -> float:
        """N − Σ b, what no λ can fit; exactly zero where it is but rounding."""
        left = float(self.total - self._explained.sum())
        rounding = ROUNDING[self.values.dtype.name] * self.total
        return left if self.total > len(self.values) and left > rounding else 0.0

    @property
    def _different(self) -> int:
        """N; but r where all samples can be fitted perfectly: the others then repeat these."""
        return self.total if self._unexplained else len(self.values)

    def _freedom(self, lam: float) -> float:
        """N − df(λ)."""
        return float(self._different - len(self.values) + (lam / (self.values + lam)).sum())


def eigenpairs(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues of a symmetric matrix, ascending, and eigenvectors as columns. Costs about 9 d³."""
    # torch's LAPACK is several times faster here than SciPy's.
    values, vectors = torch.linalg.eigh(torch.from_numpy(matrix))
    return values.numpy(), vectors.numpy()


def _directions(matrix: Floats, total: int) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors of a positive semi-definite matrix of so many samples, but no rounding."""
    s, v = eigenpairs(matrix)
    kept = s > rounding_floor(s, len(matrix))
    kept[: max(len(s) - total, 0)] = False  # eigenvalues ascend
    return s[kept], v[:, kept]


def rounding_floor(values: Floats, dim: int) -> float:
    """Eigenvalues up to d·ε·s_max cannot be told from zero."""
    return dim * float(np.finfo(values.dtype).eps) * float(values.max(initial=0.0))


def solve(gram: Floats, prototypes: Floats, total: int, lam: float) -> Floats:
    """W = (G + λI)⁻¹ c for one λ ≥ 0, d × C. Costs d³/3 where λ is above rounding, else a `Spectrum`.

    In float32 it is a plain LU solve, whatever comes out of it: that is what float32 is for here. Of what a
    singular matrix gives, what is not a number becomes zero, and what is infinite the largest number.

    >>> solve(np.diag([4.0, 1.0]), np.array([[2.0, 1.0]]), total=2, lam=1.0).ravel().round(12).tolist()
    [0.4, 0.5]
    """
    right = torch.from_numpy(prototypes.T.copy())
    if gram.dtype == np.float32:
        lu, pivots, _ = torch.linalg.lu_factor_ex(_shifted(gram, lam))
        return np.asarray(np.nan_to_num(torch.linalg.lu_solve(lu, pivots, right).numpy()))
    # The trace bounds the largest eigenvalue: above this, λ stands at least six digits above rounding.
    if lam <= 1e6 * np.finfo(np.float64).eps * np.trace(gram):
        return Spectrum.of(gram, prototypes, total).weights(lam)
    factor, failed = torch.linalg.cholesky_ex(_shifted(gram, lam))
    if failed:  # rounding of sums that were reverted: rare, and the spectrum copes with it
        return Spectrum.of(gram, prototypes, total).weights(lam)
    return torch.cholesky_solve(right, factor).numpy()


def _shifted(gram: Floats, lam: float) -> torch.Tensor:
    """G + λI."""
    shifted = torch.from_numpy(gram).clone()
    shifted.diagonal().add_(lam)
    return shifted


def equations(statistics: GramStatistics, balance: bool) -> tuple[Floats, Floats]:
    """G and c (C × d) to solve with: as they are, or as if all classes had the same number of samples.

    Balanced, with μ_y = c_y / n_y and n̄ = N / C, the scatter within classes stays and every class mean
    counts n̄ times:  G_b = S_W + n̄ Σ μ_y μ_yᵀ = G + Σ (n̄ − n_y) μ_y μ_yᵀ  and  c_b = n̄ μ_y.
    Where classes are equal this changes nothing at all.
    """
    if not balance or not statistics.labels:
        return statistics.gram, statistics.prototypes
    counts = statistics.counts[:, None].astype(statistics.precision)
    mean_count = statistics.total / len(statistics.labels)
    means = statistics.prototypes / counts
    gram = statistics.gram + means.T @ ((mean_count - counts) * means)
    return (gram + gram.T) / 2, mean_count * means


@dataclass(frozen=True)
class Solution:
    """The classifier that sums stand for: made when first used, since learning alone needs no solving.

    `lam` is a number ≥ 0, or None to take it from the sums by generalised cross-validation.
    The statistics must not change while the solution is in use.
    """

    statistics: GramStatistics
    lam: float | None
    balance: bool

    @cached_property
    def _solved(self) -> tuple[float, Floats]:
        gram, prototypes = equations(self.statistics, self.balance)
        if self.lam is not None:
            return self.lam, solve(gram, prototypes, self.statistics.total, self.lam)
        spectrum = Spectrum.of(gram, prototypes, self.statistics.total)
        lam = spectrum.best_gcv() if len(spectrum.values) else FIRST_LAMBDA
        return lam, spectrum.weights(lam)

    @property
    def lambda_(self) -> float:
        """The λ in force."""
        return self._solved[0] if self.lam is None else self.lam

    @property
    def weights(self) -> Floats:
        """W, d × C, columns in the order of `statistics.labels`."""
        return self._solved[1]


@dataclass(frozen=True)
class LambdaSearch:
    """What the search saw: the mean accuracy over folds of every λ, and the winner."""

    accuracies: dict[float, Fraction]

    @property
    def best(self) -> float:
        """The λ of highest accuracy, the larger one among equals."""
        return max(self.accuracies, key=lambda lam: (self.accuracies[lam], lam))


def search_lambda(
    history: GramStatistics,
    features: NDArray[Any],
    labels: NDArray[Any],
    *,
    balance: bool = False,
    grid: Sequence[float] = LAMBDAS,
) -> LambdaSearch | None:
    """The paper's choice of λ (appendix A.1), on the current lesson alone.

    The lesson is cut into four stratified folds in the order given. For each fold, G and c hold the history
    and the other three folds; every λ is scored by its accuracy on the fold left out, over all classes that
    the fold's own sums have seen. Accuracies are exact fractions, averaged over folds.
    None if no class of the lesson has four samples: there is nothing to search on.

    Costs four eigendecompositions and 4·(d² + |grid|·C) operations a sample.
    """
    if np.unique(labels, return_counts=True)[1].max(initial=0) < FOLDS:
        return None
    with warnings.catch_warnings():  # many classes of few samples are fine: they miss some folds
        warnings.simplefilter("ignore", UserWarning)
        held_out = [test for _, test in StratifiedKFold(FOLDS).split(features, labels)]
    folds = []
    for rows in held_out:
        fold = history.empty()
        fold.update(features[rows], labels[rows])
        folds.append(fold)
    accuracies = dict.fromkeys(grid, Fraction(0))
    for rows, fold in zip(held_out, folds, strict=True):
        seen = sum((other for other in folds if other is not fold), start=history)
        spectrum = Spectrum.of(*equations(seen, balance), seen.total)
        # Folds may hold classes that their training part lacks: those answers are wrong by definition.
        index = {label: i for i, label in enumerate(seen.labels)}
        truth = np.array([index.get(label, -1) for label in labels[rows].tolist()])
        z = features[rows].astype(history.precision) @ spectrum.vectors
        for lam in grid:
            scores = (z / (spectrum.values + lam)) @ spectrum.targets
            hits = int((scores.argmax(axis=1) == truth).sum())
            accuracies[lam] += Fraction(hits, FOLDS * len(rows))
    return LambdaSearch(accuracies)


@dataclass(frozen=True)
class ErrorSearch:
    """What a search by error saw: the mean squared error of every λ, and the winner."""

    errors: dict[float, float]

    @property
    def best(self) -> float:
        """The λ of lowest error, the larger one among equals."""
        return min(self.errors, key=lambda lam: (self.errors[lam], -lam))


def search_lambda_by_error(
    features: NDArray[Any],
    labels: NDArray[Any],
    seed: int,
    *,
    precision: str = "float64",
    grid: Sequence[float] = WIDE_LAMBDAS,
) -> ErrorSearch | None:
    """RanPAC's choice of λ: by the error on a fifth of the current lesson, which knows nothing of the past.

    The seed shuffles the lesson and cuts it once, 80 to 20. With W(λ) of the larger part alone, the score is
    the mean of (Φᵀ W(λ) − Y)² over the smaller part and all classes of the lesson, with one-hot targets Y.
    None if there are fewer than five samples, which cannot be cut so.

    Costs one `Spectrum.of_samples`, and |grid|·N·C operations a sample.
    """
    if len(labels) < FEWEST:
        return None
    trained = 4 * len(labels) // 5
    order = np.random.default_rng(seed).permutation(len(labels))
    names, place = np.unique(labels, return_inverse=True)
    x, y = features[order].astype(precision), np.eye(len(names), dtype=precision)[place[order]]
    spectrum = Spectrum.of_samples(x[:trained], y[:trained])
    z = x[trained:] @ spectrum.vectors
    errors = {}
    for lam in grid:
        scores = (z / (spectrum.values + lam)) @ spectrum.targets
        errors[lam] = float(((scores - y[trained:]) ** 2).mean())
    return ErrorSearch(errors)
