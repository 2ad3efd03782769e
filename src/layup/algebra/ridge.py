"""Ridge regression from sums alone: factorise once, solve for any λ, choose λ.

The classifier is W = (G + λI)⁻¹ c, one column per class, and the scores are s = Φᵀ W (eq. 6). With the
eigendecomposition G = V diag(s) Vᵀ and A = Vᵀ c,

    W(λ) = V diag(1 / (s + λ)) A,

so one factorisation serves every λ. Both G and c are sums over the same samples, so c lies in the range
of G: where an eigenvalue is zero, A is zero too. In floating point both are rounding noise there
(s ≤ d·ε·s_max), and dividing one by the other would ruin the result for small λ; these directions are
left out. So are all beyond the N largest, since N samples span no more: what forgetting has left there is
the rounding of larger sums. That makes λ = 0 the minimum-norm solution G⁺c, and W continuous in λ down to it.

All of this is float64, unless the sums are kept in float32: there, G + λI with fewer samples than dimensions
cannot be told from a singular matrix. Other implementations solve it anyway, and so does `solve`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from layup.algebra.samples import Floats, require_finite
from layup.algebra.statistics import GramStatistics

LEAST_FREEDOM = 0.1
ROUNDING = {"float64": 1e-9, "float32": 1e-3}
FIRST_LAMBDA = 1.0
"""λ while no batch could be searched: what the paper uses where it cannot search."""


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
    labelled: int | None = None  # how many of them have a class, if not all: the others have targets of zero

    @classmethod
    def of(cls, gram: Floats, prototypes: Floats, total: int) -> Spectrum:
        """Factorise G (d × d) of `total` samples and rotate the prototypes (C × d) into its coordinates."""
        require_finite(gram, prototypes)
        if total < len(gram):
            return replace(cls.of_samples(*square_root(gram, prototypes, total)), total=total)
        s, v = _directions(gram, total)
        return cls(v, s, v.T @ prototypes.T, total)

    @classmethod
    def of_samples(cls, x: Floats, y: Floats) -> Spectrum:
        """The same from the samples X (N × d) and their targets Y (N × C), by the smaller of two matrices.

        Fewer samples than dimensions are factorised as K = X Xᵀ = U diag(s) Uᵀ (N × N), whose positive
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

    def strongest(self, rank: int) -> Spectrum:
        """Only the directions of the `rank` largest eigenvalues, or of all, if there are fewer."""
        first = max(len(self.values) - rank, 0)  # eigenvalues ascend
        return replace(
            self,
            vectors=self.vectors[:, first:],
            values=self.values[first:],
            targets=self.targets[first:],
        )

    def gcv(self, lam: float) -> float:
        """Generalised cross-validation of λ, N · RSS / (N − df)².

        One-hot targets make ‖Y‖² = N, and then with b = A²/s (the part of ‖Y‖² along each direction)

            RSS(λ) = (N − Σ b) + Σ b (λ / (s + λ))²          N − df(λ) = (N − r) + Σ λ / (s + λ)

        where nothing cancels as λ → 0: if N = r, samples can be fitted perfectly, and N − Σ b is zero. Where
        only some samples are `labelled`, ‖Y‖² is their number.
        """
        shrunk = lam / (self.values + lam)
        residual = self._unexplained + (self._explained * shrunk**2).sum()
        return float(self.total * residual / self._freedom(lam) ** 2)

    def best_gcv(self) -> float:
        """The λ > 0 that minimises `gcv`: the best of a fine grid, refined between its neighbours.

        Only where at least a tenth of the samples' degrees of freedom is left: closer to a perfect fit,
        N − df is tiny, and one duplicate photo would decide (its twin predicts it, however small λ is).
        """
        from scipy.optimize import minimize_scalar  # here, because it is slow to import

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
        """N − Σ b, what no λ can fit; exactly zero where it is only rounding."""
        targets = self.total if self.labelled is None else self.labelled
        left = float(targets - self._explained.sum())
        rounding = ROUNDING[self.values.dtype.name] * self.total
        return left if self.total > len(self.values) and left > rounding else 0.0

    @property
    def _different(self) -> int:
        """N; but r where all samples can be fitted perfectly: the others are then repetitions."""
        return self.total if self._unexplained else len(self.values)

    def _freedom(self, lam: float) -> float:
        """N − df(λ)."""
        return float(self._different - len(self.values) + (lam / (self.values + lam)).sum())


def eigenpairs(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues of a symmetric matrix, ascending, and eigenvectors as columns. Costs about 9 d³."""
    require_finite(matrix)
    # torch's LAPACK is several times faster here than SciPy's.
    values, vectors = torch.linalg.eigh(torch.from_numpy(matrix))
    return values.numpy(), vectors.numpy()


def _directions(matrix: Floats, total: int) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors of a positive semi-definite matrix of N samples, without rounding."""
    s, v = eigenpairs(matrix)
    kept = s > rounding_floor(s, len(matrix))
    kept[: max(len(s) - total, 0)] = False  # eigenvalues ascend
    return s[kept], v[:, kept]


def rounding_floor(values: Floats, dim: int) -> float:
    """Eigenvalues up to d·ε·s_max cannot be told from zero."""
    return dim * float(np.finfo(values.dtype).eps) * float(values.max(initial=0.0))


def square_root(gram: Floats, prototypes: Floats, total: int) -> tuple[Floats, Floats]:
    """Rows X (r × d, r ≤ N) and targets Y (r × C) with the sums Xᵀ X = G and Yᵀ X = c of N samples.

    They are not samples: any rotation of them has the same sums, and they are computed from the sums alone.
    A Cholesky factorisation with pivots, P G Pᵀ = L Lᵀ, ends after r columns, where only rounding is left:
    X = Lᵀ P, and Y solves L Y = P cᵀ in its first r rows. Costs d r² operations.

    >>> x, y = square_root(np.diag([0.0, 9.0]), np.array([[0.0, 6.0]]), total=1)
    >>> x.tolist(), y.tolist()
    ([[0.0, 3.0]], [[2.0]])
    """
    from scipy.linalg import get_lapack_funcs, solve_triangular  # here, because it is slow to import

    factorise = get_lapack_funcs("pstrf", (gram,))
    factor, pivots, rank, _ = factorise(gram.copy().T, lower=1, overwrite_a=1)  # .T: the order of LAPACK
    rank, pivots = min(rank, total), pivots - 1
    root = np.triu(factor.T[:rank])
    rows = np.empty_like(root)
    rows[:, pivots] = root
    first = root[:, :rank]
    return rows, solve_triangular(first, prototypes.T[pivots[:rank]], trans="T", check_finite=False)


def solve(gram: Floats, prototypes: Floats, total: int, lam: float) -> Floats:
    """W = (G + λI)⁻¹ c for one λ ≥ 0, d × C. Costs d³/3 where λ is above rounding, else a `Spectrum`.

    In float32 it is a plain LU solve, even of a singular matrix: that is what float32 is for here. In the
    result, NaN becomes zero, and infinity the largest number.

    >>> solve(np.diag([4.0, 1.0]), np.array([[2.0, 1.0]]), total=2, lam=1.0).ravel().round(12).tolist()
    [0.4, 0.5]
    """
    require_finite(gram, prototypes)
    right = torch.from_numpy(prototypes.T.copy())
    if gram.dtype == np.float32:
        lu, pivots, _ = torch.linalg.lu_factor_ex(_shifted(gram, lam))
        return np.asarray(np.nan_to_num(torch.linalg.lu_solve(lu, pivots, right).numpy()))
    factor = well_conditioned_factor(gram, total, lam)
    if factor is None:
        return Spectrum.of(gram, prototypes, total).weights(lam)
    return torch.cholesky_solve(right, factor).numpy()


def well_conditioned_factor(gram: Floats, total: int, lam: float) -> torch.Tensor | None:
    """L of G + λI = L Lᵀ, if all eigenvalues are at least six digits above rounding; else None."""
    enough = rounding_limit(float(np.trace(gram)))
    if lam <= enough and total < len(gram):
        return None
    factor: torch.Tensor
    factor, failed = torch.linalg.cholesky_ex(_shifted(gram, lam))
    if failed or (lam <= enough and _smallest_eigenvalue(factor) <= enough):
        return None
    return factor


def rounding_limit(trace: float) -> float:
    """Six digits above the rounding of a matrix of this trace, which bounds its largest eigenvalue."""
    return 1e6 * float(np.finfo(np.float64).eps) * trace


def _smallest_eigenvalue(factor: torch.Tensor) -> float:
    """Of L Lᵀ, from above and mostly within a tenth: power iteration with the inverse."""
    vector = torch.rand(len(factor), 1, dtype=factor.dtype, generator=torch.Generator().manual_seed(0))
    for _ in range(8):
        vector = torch.cholesky_solve(vector / vector.norm(), factor)
    return 1 / float(vector.norm())


def _shifted(gram: Floats, lam: float) -> torch.Tensor:
    """G + λI."""
    shifted = torch.from_numpy(gram).clone()
    shifted.diagonal().add_(lam)
    return shifted


def equations(statistics: GramStatistics, balance: bool) -> tuple[Floats, Floats]:
    """G and c (C × d) to solve with: as they are, or as if all classes had the same number of samples.

    Balanced, with μ_y = c_y / n_y and n̄ = N / C, the scatter within classes stays and every class mean
    counts n̄ times:  G_b = S_W + n̄ Σ μ_y μ_yᵀ = G + Σ (n̄ − n_y) μ_y μ_yᵀ  and  c_b = n̄ μ_y.
    Where classes have equal counts this changes nothing.
    """
    if not balance or not statistics.labels:
        return statistics.gram, statistics.prototypes
    counts = statistics.counts[:, None].astype(statistics.precision)
    mean_count = statistics.total / len(statistics.labels)
    means = statistics.prototypes / counts
    gram = statistics.gram + means.T @ ((mean_count - counts) * means)
    return (gram + gram.T) / 2, mean_count * means


def balancing(products: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """B (C × C) such that W B solves the balanced `equations`, where W solves the plain ones.

    With the means as columns of M = c N⁻¹, N = diag(n), and R = (G + λI)⁻¹, the balanced solution is
    n̄ (G + λI + M (n̄I − N) Mᵀ)⁻¹ M, and by the push-through identity that is

        n̄ R M (I + (n̄I − N) Mᵀ R M)⁻¹ = W B      with    B = n̄ N⁻¹ (I + (n̄I − N) Mᵀ R M)⁻¹,

    since R M = W N⁻¹. `products` are cᵀ R c = cᵀ W. So G needs no second factorisation, for any counts.

    >>> balancing(torch.tensor([[1.5, 0.0], [0.0, 0.5]]), torch.tensor([2, 2])).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    n = counts.to(products.dtype)
    mean_count = n.sum() / max(len(n), 1)
    change = torch.eye(len(n), dtype=n.dtype) + (mean_count - n)[:, None] * (products / torch.outer(n, n))
    # Not `torch.linalg.solve`: it takes a C × C right side of C matrices for a batch of C vectors.
    inverse: torch.Tensor = torch.linalg.inv(change)
    return (mean_count / n)[:, None] * inverse


@dataclass(frozen=True)
class Solution:
    """The ridge classifier of sums: computed when first used, since learning alone needs no solving.

    `lam` is a number ≥ 0, or None to take it from the sums by generalised cross-validation; `known` are the
    weights, if known already. The statistics must not change while the solution is in use.
    """

    statistics: GramStatistics
    lam: float | None
    balance: bool
    known: Floats | None = None

    @cached_property
    def _solved(self) -> tuple[float, Floats]:
        sums = self.statistics
        if self.lam is not None:
            return self.lam, self._solved_with(self.lam) if self.known is None else self.known
        spectrum = Spectrum.of(*equations(sums, self.balance), sums.samples)
        spectrum = replace(spectrum, labelled=sums.total)
        lam = spectrum.best_gcv() if len(spectrum.values) else FIRST_LAMBDA
        return lam, spectrum.weights(lam)

    def _solved_with(self, lam: float) -> Floats:
        sums = self.statistics
        if sums.precision == "float32":  # W may be arbitrarily large there, and products with it overflow
            return solve(*equations(sums, self.balance), sums.samples, lam)
        weights = solve(sums.gram, sums.prototypes, sums.samples, lam)
        if self.balance:
            products = torch.from_numpy(sums.prototypes @ weights)
            weights = weights @ balancing(products, torch.from_numpy(sums.counts)).numpy()
        return weights

    @property
    def solved(self) -> bool:
        """Whether the weights are known already."""
        return "_solved" in vars(self) or self.known is not None

    @property
    def lambda_(self) -> float:
        """The λ in force."""
        return self._solved[0] if self.lam is None else self.lam

    @property
    def weights(self) -> Floats:
        """W, d × C, columns in the order of `statistics.labels`."""
        return self._solved[1]
