"""(A + λI)⁻¹ for many λ at the price of two solves: a symmetric matrix, brought into a narrow band once.

Householder reflections on both sides, a panel of b columns at a time, make A = Q T Qᵀ with T block
tridiagonal, and Q never written out:

    each panel below the diagonal block is factorised, P = (I − V Y Vᵀ) [R; 0], and with the block reflector
    H = I − V Y Vᵀ the rest becomes  Hᵀ A H = A − W Vᵀ − V Wᵀ,   W = A V Y − ½ V (Yᵀ Vᵀ A V Y).

All but the panels is products of large matrices: 2 d³ operations at the machine's best speed, where an
eigendecomposition takes 9 d³, half of them waiting for memory. Since Qᵀ (A + λI) Q = T + λI, every λ then
costs a banded Cholesky factorisation T + λI = L Lᵀ: b² d operations, and 2 b d for each vector. What is
wanted of the inverse comes as products of *whitened* vectors ψ(z) = L⁻¹ Qᵀ z:

    xᵀ (A + λI)⁻¹ y = ψ(x)ᵀ ψ(y).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 96
"""Columns of a panel: more make the band dearer, fewer the products slower."""


class Resolvent:
    """A = Q T Qᵀ for a symmetric positive semi-definite matrix A (d × d), which is not kept.

    Takes 2 d³ operations, and holds d²/2 values. Vectors are columns.

    >>> resolvent = Resolvent(torch.tensor([[1.0, 0.0], [0.0, 4.0]], dtype=torch.float64))
    >>> z = resolvent.rotated(torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    >>> psi = resolvent.at(1.0).whitened(z)
    >>> (psi.T @ psi).round(decimals=12).tolist()  # 1²/(1+1) + 2²/(4+1)
    [[1.3]]
    >>> resolvent.rotated_back(resolvent.at(1.0).solved(psi)).ravel().round(decimals=12).tolist()
    [0.5, 0.4]
    """

    def __init__(self, matrix: Tensor) -> None:
        a = matrix.clone()
        self._rounding = float(torch.linalg.matrix_norm(a)) * torch.finfo(a.dtype).eps
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

    def at(self, lam: float) -> Shifted:
        """T + λI, factorised. Where rounding leaves it indefinite, λ is raised to what makes it positive."""
        while (found := self._factorised(lam)) is None:
            lam = max(10 * lam, self._rounding)
        return found

    def _factorised(self, lam: float) -> Shifted | None:
        inverses: list[Tensor] = []
        steps: list[Tensor] = []
        for place, block in enumerate(self._diagonal):
            block = block.clone()
            block.diagonal().add_(lam)
            if place:
                below = self._below[place - 1] @ inverses[-1].T
                block -= below @ below.T
            factor, failed = torch.linalg.cholesky_ex(block)
            if failed:
                return None
            unit = torch.eye(len(factor), dtype=factor.dtype)
            inverses.append(torch.linalg.solve_triangular(factor, unit, upper=False))
            if place:
                steps.append(-inverses[-1] @ below)
        return Shifted(lam, inverses, steps)


@dataclass(frozen=True)
class Shifted:
    """T + λI = L Lᵀ, for rotated vectors: the blocks L_jj⁻¹, and −L_jj⁻¹ L_{j,j−1} from one to the next."""

    lam: float
    inverses: list[Tensor]
    steps: list[Tensor]

    def whitened(self, columns: Tensor) -> Tensor:
        """L⁻¹ z of every column z."""
        psi = torch.empty_like(columns)
        above: Tensor | None = None
        for place, (part, found) in enumerate(zip(self._parts(columns), self._parts(psi), strict=True)):
            torch.mm(self.inverses[place], part, out=found)
            if above is not None:
                found.addmm_(self.steps[place - 1], above)
            above = found
        return psi

    def solved(self, whitened: Tensor) -> Tensor:
        """L⁻ᵀ ψ of every column ψ: what is left to do for (T + λI)⁻¹ z."""
        z = whitened.clone()
        below: Tensor | None = None
        for place, part in reversed(list(enumerate(self._parts(z)))):
            if below is not None:
                part.addmm_(self.steps[place].T, below)
            below = part.clone()
            torch.mm(self.inverses[place].T, below, out=part)
        return z

    def _parts(self, columns: Tensor) -> list[Tensor]:
        """The rows of each block."""
        return list(torch.split(columns, [len(inverse) for inverse in self.inverses]))


def _reflector(panel: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """V, Y and R of a panel P = (I − V Y Vᵀ) [R; 0].

    LAPACK gives V and the factors τ of the single reflections, whose product is I − V Y Vᵀ for the upper
    triangular Y with Y⁻¹ = diag(1/τ) + triu(Vᵀ V, 1); multiplied by τ, for a τ may be zero.
    """
    packed, tau = torch.geqrf(panel)
    count = len(tau)
    r = torch.zeros(min(panel.shape[0], BLOCK), panel.shape[1], dtype=panel.dtype)
    r[:count] = packed[:count].triu()
    v = packed[:, :count].tril(-1)
    v.diagonal().fill_(1)
    system = torch.eye(count, dtype=panel.dtype) + tau[:, None] * (v.T @ v).triu(1)
    return v, torch.linalg.solve_triangular(system, torch.diag(tau), upper=True), r
