"""(A + λI)⁻¹ for many λ at the cost of two solves: a symmetric matrix is reduced to a narrow band once.

Householder reflections on both sides, a panel of b columns at a time, make A = Q T Qᵀ with T block
tridiagonal, without forming Q:

    each panel below the diagonal block is factorised, P = (I − V Y Vᵀ) [R; 0], and with the block reflector
    H = I − V Y Vᵀ the rest becomes  Hᵀ A H = A − W Vᵀ − V Wᵀ,   W = A V Y − ½ V (Yᵀ Vᵀ A V Y).

Except for the panels, these are products of large matrices: 2 d³ operations at the machine's best speed,
where an eigendecomposition takes 9 d³, half of them waiting for memory. Since Qᵀ (A + λI) Q = T + λI, every λ
then costs a banded Cholesky factorisation T + λI = L Lᵀ: b² d operations, and 2 b d per vector. The inverse
is used through products of *whitened* vectors ψ(z) = L⁻¹ Qᵀ z:

    xᵀ (A + λI)⁻¹ y = ψ(x)ᵀ ψ(y).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from layup.algebra.samples import require_finite
from layup.errors import InputError

BLOCK = 48
"""Columns of a panel: more make the band more expensive, fewer make the products slower."""
RAISES = 18
"""How often λ may be raised, tenfold each time: from the rounding ε tr A to more than tr A ≥ ‖A‖."""


class Resolvent:
    """A = Q T Qᵀ for a symmetric positive semi-definite matrix A (d × d), which is not kept.

    Costs 2 d³ operations, and holds d²/2 values. Vectors are columns.

    >>> resolvent = Resolvent(torch.tensor([[1.0, 0.0], [0.0, 4.0]], dtype=torch.float64))
    >>> z = resolvent.rotated(torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    >>> shifted = resolvent.at([1.0, 0.0])
    >>> psi = shifted.whitened(z)
    >>> (psi.mT @ psi).ravel().round(decimals=12).tolist()  # 1²/(1+1) + 2²/(4+1), and 1²/1 + 2²/4
    [1.3, 2.0]
    >>> resolvent.rotated_back(shifted.solved(psi)[0]).ravel().round(decimals=12).tolist()
    [0.5, 0.4]
    """

    def __init__(self, matrix: Tensor) -> None:
        require_finite(matrix.numpy())
        a = matrix.clone()
        self.trace = float(a.trace())
        # The trace bounds the norm. The norm itself is a sum of squares, which could overflow.
        self._rounding = abs(self.trace) * torch.finfo(a.dtype).eps
        self._reflectors: list[tuple[int, Tensor, Tensor]] = []
        self._diagonal: list[Tensor] = []
        self._below: list[Tensor] = []
        for start in range(0, len(a), BLOCK):
            end = min(start + BLOCK, len(a))
            self._diagonal.append(a[start:end, start:end].clone())
            if end == len(a):
                break
            v, y, r = _reflector(a[end:, start:end])
            self._reflectors.append((end, v, y))
            self._below.append(r)
            rest = a[end:, end:]
            w = rest @ (v @ y)
            w -= v @ (y.T @ (v.T @ w)) / 2
            rest.addmm_(torch.cat([w, v], dim=1), torch.cat([v, w], dim=1).T, alpha=-1)

    def rotated(self, columns: Tensor) -> Tensor:
        """Qᵀ z of every column z. Costs 2 d² each."""
        z = columns.clone(memory_format=torch.contiguous_format)
        for start, v, y in self._reflectors:
            z[start:].addmm_(v, y.T @ (v.T @ z[start:]), alpha=-1)
        return z

    def rotated_back(self, columns: Tensor) -> Tensor:
        """Q z of every column z."""
        z = columns.clone(memory_format=torch.contiguous_format)
        for start, v, y in reversed(self._reflectors):
            z[start:].addmm_(v, y @ (v.T @ z[start:]), alpha=-1)
        return z

    def at(self, lams: Sequence[float]) -> Shifted:
        """T + λI, factorised for every λ; a λ that rounding leaves indefinite is raised until it is not.

        Raises `InputError` if that never happens: for zeros and λ = 0, or for what is not a sum of squares.
        """
        raised = torch.tensor(lams, dtype=torch.float64)
        for _ in range(1 + RAISES):
            shifted, failed = self._factorised(raised)
            if not failed.any():
                return shifted
            raised = torch.where(failed, (10 * raised).clamp(min=self._rounding), raised)
        lam = lams[int(failed.nonzero()[0])]
        raise InputError(
            f"G + λI has no inverse for λ = {lam:g}, even with λ raised far above rounding. Give a finite "
            "λ > 0, and sums of samples."
        )

    def _factorised(self, lams: Tensor) -> tuple[Shifted, Tensor]:
        """The factors, and for which λ the factorisation failed."""
        inverses: list[Tensor] = []
        steps: list[Tensor] = []
        failed = ~torch.isfinite(lams)
        for index, diagonal in enumerate(self._diagonal):
            block = diagonal.repeat(len(lams), 1, 1)
            block.diagonal(dim1=1, dim2=2).add_(lams[:, None])
            if index:
                below = self._below[index - 1] @ inverses[-1].mT
                block -= below @ below.mT
            factor, info = torch.linalg.cholesky_ex(block)
            failed |= info > 0
            unit = torch.eye(len(diagonal), dtype=factor.dtype)
            inverses.append(torch.linalg.solve_triangular(factor, unit, upper=False))
            if index:
                steps.append(-inverses[-1] @ below)
        return Shifted(lams, inverses, steps), failed


@dataclass(frozen=True)
class Shifted:
    """T + λI = L Lᵀ for several λ: the blocks L_jj⁻¹, and −L_jj⁻¹ L_{j,j−1} from one to the next.

    Results have one matrix per λ, in a first dimension.
    """

    lams: Tensor
    inverses: list[Tensor]
    steps: list[Tensor]

    def whitened(self, columns: Tensor) -> Tensor:
        """L⁻¹ z of every rotated column z."""
        psi = columns.new_empty(len(self.lams), *columns.shape)
        above: Tensor | None = None
        for index, (part, found) in enumerate(zip(self._parts(columns), self._parts(psi), strict=True)):
            torch.matmul(self.inverses[index], part, out=found)
            if above is not None:
                found.baddbmm_(self.steps[index - 1], above)
            above = found
        return psi

    def solved(self, whitened: Tensor) -> Tensor:
        """L⁻ᵀ ψ of every column ψ, by λ: what is left to do for (T + λI)⁻¹ z."""
        z = whitened.clone()
        below: Tensor | None = None
        for index, part in reversed(list(enumerate(self._parts(z)))):
            if below is not None:
                part.baddbmm_(self.steps[index].mT, below)
            below = part.clone()
            part.copy_(self.inverses[index].mT @ below)
        return z

    def _parts(self, columns: Tensor) -> list[Tensor]:
        """The rows of each block."""
        return list(torch.split(columns, [inverse.shape[-1] for inverse in self.inverses], dim=-2))


def _reflector(panel: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """V, Y and R of a panel P = (I − V Y Vᵀ) [R; 0].

    LAPACK gives V and the factors τ of the single reflections, whose product is I − V Y Vᵀ for the upper
    triangular Y with Y⁻¹ = diag(1/τ) + triu(Vᵀ V, 1); here multiplied by τ, since a τ may be zero.
    """
    packed, tau = torch.geqrf(panel)
    count = len(tau)
    r = torch.zeros(min(panel.shape[0], BLOCK), panel.shape[1], dtype=panel.dtype)
    r[:count] = packed[:count].triu()
    v = packed[:, :count].tril(-1)
    v.diagonal().fill_(1)
    system = torch.eye(count, dtype=panel.dtype) + tau[:, None] * (v.T @ v).triu(1)
    return v, torch.linalg.solve_triangular(system, torch.diag(tau), upper=True), r
