from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from layup.algebra.resolvent import BLOCK, Resolvent
from layup.errors import InputError

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


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(0, 0), (59, 3)])
def test_what_is_not_finite_is_refused(value: float, place: tuple[int, int]) -> None:
    a = matrix(60)
    a[place] = a[place[::-1]] = value
    with pytest.raises(InputError, match="not finite numbers"):
        Resolvent(a)


@pytest.mark.parametrize(
    ("a", "lam"),
    [
        (torch.zeros(60, 60, dtype=torch.float64), 0.0),
        (matrix(60), np.nan),
        (matrix(60), np.inf),
        (torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64)), 1e-290),
    ],
    ids=["zeros", "nan", "inf", "no squares"],
)
def test_lambda_is_not_raised_for_ever(a: torch.Tensor, lam: float) -> None:
    with pytest.raises(InputError, match=rf"no inverse for λ = {lam:g}"):
        Resolvent(a).at([1e6, lam])


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_matrices_of_any_size_are_factorised(scale: float) -> None:
    """Squares of their values overflow or vanish."""
    a, b = matrix(60, rank=30), columns(60)
    for resolvent, size in ((Resolvent(a), 1.0), (Resolvent(a * scale * scale), scale * scale)):
        found = resolvent.at([1e-15 * size]).lams.item() / size
        assert 1e-12 < found < 1e-9
    psi = Resolvent(a * scale).at([scale]).whitened(resolvent.rotated(b))[0]
    expected = torch.linalg.solve(a + torch.eye(60, dtype=a.dtype), b)
    np.testing.assert_allclose(psi.T @ psi * scale, b.T @ expected, rtol=1e-9, atol=1e-13)


def test_float32_stays_float32() -> None:
    resolvent = Resolvent(matrix(150, dtype=torch.float32))
    b = columns(150).float()
    psi = resolvent.at([1.0]).whitened(resolvent.rotated(b))[0]
    assert psi.dtype == torch.float32
    expected = torch.linalg.solve(matrix(150) + torch.eye(150), b.double())
    np.testing.assert_allclose(psi.T @ psi, b.T.double() @ expected, rtol=1e-3)
