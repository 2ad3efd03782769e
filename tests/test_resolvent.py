from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from layup.resolvent import BLOCK, Resolvent

SIZES = (1, 2, 50, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 7, 300)


def matrix(dim: int, rank: int | None = None, dtype: Any = torch.float64) -> torch.Tensor:
    """A positive matrix with eigenvalues from 1 to 10,000, or so many and zeros."""
    generator = torch.Generator().manual_seed(dim)
    basis = torch.linalg.qr(torch.rand(dim, dim, generator=generator, dtype=torch.float64))[0]
    values = torch.logspace(0, 4, dim, dtype=torch.float64)
    values[: 0 if rank is None else dim - rank] = 0
    found: torch.Tensor = (basis * values) @ basis.T
    return ((found + found.T) / 2).to(dtype)


def columns(dim: int, count: int = 3) -> torch.Tensor:
    return torch.rand(dim, count, generator=torch.Generator().manual_seed(7), dtype=torch.float64) - 0.5


@pytest.mark.parametrize("lam", [1e-8, 1e-2, 10.0, 1e6])
@pytest.mark.parametrize("dim", SIZES)
def test_products_and_solutions_are_those_of_the_inverse(dim: int, lam: float) -> None:
    a, b = matrix(dim), columns(dim)
    resolvent = Resolvent(a)
    shifted = resolvent.at([lam, 3.0])
    psi = shifted.whitened(resolvent.rotated(b))
    expected = torch.linalg.solve(a + lam * torch.eye(dim, dtype=a.dtype), b)
    assert shifted.lams.tolist() == [lam, 3.0]
    np.testing.assert_allclose(psi[0].T @ psi[0], b.T @ expected, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(
        resolvent.rotated_back(shifted.solved(psi)[0]), expected, rtol=1e-8, atol=1e-12 * expected.abs().max()
    )


@pytest.mark.parametrize("dim", SIZES)
def test_rotating_keeps_lengths_and_can_be_undone(dim: int) -> None:
    resolvent, b = Resolvent(matrix(dim)), columns(dim)
    rotated = resolvent.rotated(b)
    np.testing.assert_allclose(rotated.T @ rotated, b.T @ b, rtol=1e-12)
    np.testing.assert_allclose(resolvent.rotated_back(rotated), b, atol=1e-13)
    assert dim < 2 * BLOCK or not np.allclose(rotated, b)


def test_what_is_given_stays_as_it_was() -> None:
    a, b = matrix(200), columns(200)
    before = a.clone(), b.clone()
    resolvent = Resolvent(a)
    shifted = resolvent.at([1.0])
    z = resolvent.rotated(b)
    shifted.solved(shifted.whitened(z))
    again = resolvent.rotated(b)
    for now, then in ((a, before[0]), (b, before[1]), (again, z)):
        assert torch.equal(now, then)


@pytest.mark.parametrize("dim", [60, 250])
def test_where_rounding_makes_the_matrix_indefinite_lambda_is_raised_just_above_it(dim: int) -> None:
    a = matrix(dim, rank=dim // 2)
    found, untouched = Resolvent(a).at([1e-15, 1.0]).lams.tolist()
    rounding = torch.finfo(torch.float64).eps * float(torch.linalg.matrix_norm(a))
    assert rounding <= found <= 1000 * rounding
    assert untouched == 1.0


def test_zeros_are_a_matrix_as_well() -> None:
    resolvent, b = Resolvent(torch.zeros(150, 150, dtype=torch.float64)), columns(150)
    psi = resolvent.at([4.0]).whitened(resolvent.rotated(b))[0]
    np.testing.assert_allclose(psi.T @ psi, b.T @ b / 4, rtol=1e-12)


def test_float32_stays_float32() -> None:
    resolvent = Resolvent(matrix(150, dtype=torch.float32))
    b = columns(150).float()
    psi = resolvent.at([1.0]).whitened(resolvent.rotated(b))[0]
    assert psi.dtype == torch.float32
    expected = torch.linalg.solve(matrix(150) + torch.eye(150), b.double())
    np.testing.assert_allclose(psi.T @ psi, b.T.double() @ expected, rtol=1e-3)
