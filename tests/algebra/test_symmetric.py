from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from layup.algebra import symmetric as triangle
from layup.algebra.symmetric import Triangle
from layup.errors import InputError

DIMS = [0, 1, 3, 4, 5, 8, 11]


@pytest.fixture(autouse=True)
def small_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels of four rows, so that small matrices have several, the last of them mostly not full."""
    monkeypatch.setattr(triangle, "BLOCK", 4)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def symmetric(rng: np.random.Generator, dim: int) -> Any:
    half = rng.normal(size=(dim, dim))
    return half + half.T


@pytest.mark.parametrize("dim", DIMS)
def test_a_triangle_is_the_whole_matrix(dim: int, rng: np.random.Generator) -> None:
    matrix = symmetric(rng, dim)
    kept = Triangle.of(matrix)
    assert kept.dim == dim
    np.testing.assert_array_equal(kept.dense(), matrix)
    np.testing.assert_array_equal(Triangle.of(np.tril(matrix)).dense(), matrix)  # the other is not looked at
    np.testing.assert_array_equal(Triangle.zeros(dim).dense(), np.zeros((dim, dim)))
    np.testing.assert_array_equal(kept.diagonal(), np.diagonal(matrix))
    assert kept.trace() == pytest.approx(np.trace(matrix), abs=1e-12)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_samples_are_added_and_taken_out(dim: int, precision: str, rng: np.random.Generator) -> None:
    matrix, x = symmetric(rng, dim).astype(precision), rng.normal(size=(7, dim)).astype(precision)
    before = Triangle.of(matrix)
    product = sum((np.outer(row, row) for row in x), np.zeros((dim, dim)))
    for sign in (1, -1):
        after = before.plus_rows(x, sign=sign).dense()
        assert after.dtype == precision
        np.testing.assert_allclose(after, matrix + sign * product, rtol=1e-5, atol=1e-5)
        assert (after == after.T).all()
    np.testing.assert_array_equal(before.dense(), matrix)
    np.testing.assert_array_equal(before.plus_rows(x[:0]).dense(), matrix)


@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
def test_samples_may_lie_in_memory_as_they_like(layout: str, rng: np.random.Generator) -> None:
    x = rng.normal(size=(5, 9))
    laid: dict[str, Callable[[], Any]] = {
        "rows": lambda: x,
        "columns": lambda: np.asfortranarray(x),
        "strided": lambda: np.repeat(x, 2, axis=1)[:, ::2],
    }
    after = Triangle.zeros(9).plus_rows(laid[layout]()).dense()
    np.testing.assert_allclose(after, x.T @ x, atol=1e-13)
    assert (after == after.T).all()


def test_triangles_are_added_and_subtracted_value_by_value(rng: np.random.Generator) -> None:
    a, b = symmetric(rng, 10), symmetric(rng, 10)
    one, other = Triangle.of(a), Triangle.of(b)
    np.testing.assert_array_equal((one + other).dense(), a + b)
    np.testing.assert_array_equal((one - other).dense(), a - b)
    np.testing.assert_array_equal(one.dense(), a)
    np.testing.assert_array_equal(other.dense(), b)


def test_nothing_shares_memory_with_what_it_was_made_of(rng: np.random.Generator) -> None:
    matrix = symmetric(rng, 6)
    expected, packed = matrix.copy(), Triangle.of(matrix).packed()
    made = [Triangle.of(matrix), Triangle.from_packed(packed, 6)]
    matrix[:], packed[:] = 7, 7
    for each in made:
        each.dense()[:], each.packed()[:] = 5, 5
        np.testing.assert_array_equal(each.dense(), expected)


@given(
    columns=st.lists(st.integers(0, 10), max_size=11, unique=True), dim=st.just(11), seed=st.integers(0, 9)
)
def test_some_columns_in_any_order_are_those_of_the_matrix(columns: list[int], dim: int, seed: int) -> None:
    matrix = symmetric(np.random.default_rng(seed), dim)
    taken = Triangle.of(matrix).take(np.array(columns, np.int64))
    np.testing.assert_array_equal(taken.dense(), matrix[np.ix_(columns, columns)])


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_memory_is_about_that_of_one_triangle(precision: str) -> None:
    size = np.dtype(precision).itemsize
    kept = Triangle.zeros(1000, precision)
    assert kept.nbytes == Triangle.nbytes_of(1000, precision)
    assert kept.nbytes == size * (1000**2 + 1000 * 4) / 2


# ---- as files have it


@given(dim=st.integers(0, 12), seed=st.integers(0, 2**32 - 1))
def test_packing_is_bit_exact(dim: int, seed: int) -> None:
    bits = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, (dim, dim), dtype=np.int64)
    bits = np.tril(bits) + np.tril(bits, -1).T
    matrix = bits.view(np.float64)  # any bits: NaNs, infinities, -0.0, subnormals
    packed = Triangle.of(matrix).packed()
    assert packed.shape == (dim * (dim + 1) // 2,)
    assert packed.tobytes() == matrix[np.tril_indices(dim)].tobytes()  # the lower one, row by row
    assert Triangle.from_packed(packed, dim).dense().tobytes() == matrix.tobytes()


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 2)])
def test_only_square_matrices_have_a_triangle(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="Give a square matrix"):
        Triangle.of(np.zeros(shape))


def test_packed_values_of_the_wrong_number_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"shape \(5,\) are not a triangle of a 3 × 3 matrix, which has 6 values"
    ):
        Triangle.from_packed(np.zeros(5), 3)


def test_taking_all_columns_in_order_is_the_same_triangle() -> None:
    kept = Triangle.of(np.eye(3))
    assert kept.take(np.arange(3)) is kept
    assert kept.take(np.array([0, 1])) is not kept
