from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oracle
from layup.algebra.statistics import GramStatistics
from layup.algebra.symmetric import Triangle
from layup.algebra.whitening import Whitening
from layup.errors import InputError

DIM = 6
SCALE = np.array([0.5, 1.0, 2.0, 1.0, 3.0, 0.1])
LAM = 0.7


@pytest.fixture
def data() -> tuple[Any, Any]:
    return oracle.blobs(np.random.default_rng(3), [5, 2, 9], DIM)


def taught(x: Any, y: Any) -> GramStatistics:
    sums = GramStatistics(DIM)
    sums.update(x, y)
    return sums


def means_and_inverse(x: Any, y: Any) -> tuple[Any, Any]:
    """M and R, from their definitions."""
    means = np.array([x[y == label].mean(axis=0) for label in sorted(set(y.tolist()))])
    return means, np.linalg.inv(oracle.within(x, y) + LAM * np.diag(SCALE**2))


@pytest.fixture(params=["many samples", "few", "few, of which some are equal"])
def any_number(request: pytest.FixtureRequest, data: Any) -> tuple[Any, Any]:
    """More samples than dimensions, or fewer, whose span is all that is factorised."""
    x, y = data
    if request.param == "many samples":
        return x, y
    rows = [0, 1, 5, 6, 8] if request.param == "few" else [0, 0, 5, 6, 6]
    return x[rows], y[rows]


def test_inner_products_are_those_of_a_dense_inverse(any_number: Any, data: Any) -> None:
    (x, y), asked = any_number, data[0]
    whitening, (means, inverse) = Whitening(taught(x, y), SCALE, LAM), means_and_inverse(x, y)
    np.testing.assert_allclose(whitening.between, means @ inverse @ means.T)
    np.testing.assert_allclose(whitening.weights, inverse @ means.T)
    cross, own = whitening.of(asked)
    np.testing.assert_allclose(cross, asked @ inverse @ means.T)
    np.testing.assert_allclose(own, [row @ inverse @ row for row in asked])
    psi = whitening.whitened(asked)
    np.testing.assert_allclose(psi @ psi.T, asked @ inverse @ asked.T, atol=1e-12)


def test_a_few_samples_and_their_sums_are_whitened_alike(any_number: Any, data: Any) -> None:
    sums = taught(*any_number)
    saved = GramStatistics.from_state(*sums.copy().state())
    assert sums.rows is not None
    assert saved.rows is None
    one, other = (Whitening(each, SCALE, LAM).of(data[0]) for each in (sums, saved))
    np.testing.assert_allclose(one[0], other[0])
    np.testing.assert_allclose(one[1], other[1])


def test_without_a_sample_they_are_those_of_all_others(data: Any) -> None:
    x, y = data
    index = np.searchsorted(sorted(set(y.tolist())), y)
    found = Whitening(taught(x, y), SCALE, LAM).left_out(x, index)
    vector, shift = np.array([1.0, -2.0, 0.5]), np.diag([2.0, 3.0, 4.0])
    inverse_of_all = np.linalg.inv(shift + found.between)
    times, diagonal = found.times(vector), found.diagonal()
    solved, changed = found.solved(inverse_of_all), found.solved(inverse_of_all, change=np.full(len(y), 0.3))
    for row in range(len(y)):
        means, inverse = means_and_inverse(np.delete(x, row, axis=0), np.delete(y, row))
        between, cross = means @ inverse @ means.T, means @ inverse @ x[row]
        np.testing.assert_allclose(found.cross[row], cross)
        assert found.own[row] == pytest.approx(x[row] @ inverse @ x[row])
        np.testing.assert_allclose(times[row], between @ vector)
        np.testing.assert_allclose(diagonal[row], np.diagonal(between))
        np.testing.assert_allclose(solved[row], np.linalg.solve(shift + between, cross))
        more = np.zeros((3, 3))
        more[index[row], index[row]] = 0.3
        np.testing.assert_allclose(changed[row], np.linalg.solve(shift + more + between, cross))


def test_a_sample_that_nothing_is_like_has_finite_products() -> None:
    """Without it, all others are equal, and only λ is left: 1 − k h is as small as it can be."""
    x = np.ones((5, DIM))
    x[0] = 1e8
    found = Whitening(taught(x, ["a"] * 5), np.ones(DIM), 1e-3).left_out(x, np.zeros(5, np.int64))
    assert np.isfinite(found.cross).all()
    assert np.isfinite(found.own).all()


@pytest.mark.parametrize("below", [1e-12, 1e-6, 1e-2])
def test_lambda_is_raised_where_forgetting_left_directions_below_zero(data: Any, below: float) -> None:
    header, arrays = taught(*data).state()
    values, directions = np.linalg.eigh(taught(*data).within_class_scatter())
    gram = taught(*data).gram - (values[0] + below) * np.outer(directions[:, 0], directions[:, 0])
    odd = GramStatistics.from_state(header, {**arrays, "gram": Triangle.of(gram).packed()})
    assert np.linalg.eigvalsh(odd.within_class_scatter())[0] == pytest.approx(-below, rel=0.1)
    lam = below / 3e4  # ten times as much, again and again, never meets `below`
    between = Whitening(odd, np.ones(DIM), lam).between
    assert np.linalg.eigvalsh(between)[0] >= 0
    others = directions[:, 1:] @ np.diag(1 / (values[1:] + lam)) @ directions[:, 1:].T
    means = odd.means
    assert np.trace(between) >= np.trace(means @ others @ means.T) * (1 - 100 * below)


def test_values_that_are_not_finite_are_refused(data: Any) -> None:
    with pytest.raises(InputError, match="not finite numbers"):
        Whitening(taught(*data), np.full(DIM, np.nan), LAM)
