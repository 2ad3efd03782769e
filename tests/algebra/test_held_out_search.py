from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oracle
from layup.algebra.held_out_search import WIDE_LAMBDAS, ErrorSearch, search_lambda_by_error
from layup.errors import InputError

SHAPES = {"few samples": ([7, 9, 8], 60), "as many": ([10, 5, 5], 20), "many samples": ([30, 45, 25], 12)}


def literal_errors(x: Any, y: Any, seed: int) -> dict[float, float]:
    """RanPAC's search, read aloud: one split, a plain LU solve for every λ, and a loop over samples."""
    order = np.random.default_rng(seed).permutation(len(y))
    cut = int(len(y) * 0.8)
    targets = oracle.one_hot(y)[1]
    gram = sum(np.outer(x[i], x[i]) for i in order[:cut])
    prototypes = sum(np.outer(x[i], targets[i]) for i in order[:cut])
    errors = {}
    for exponent in range(-8, 9):
        weights = np.linalg.solve(gram + 10.0**exponent * np.eye(x.shape[1]), prototypes)
        squares = [(x[i] @ weights - targets[i]) ** 2 for i in order[cut:]]
        errors[10.0**exponent] = float(np.mean(squares))
    return errors


@pytest.mark.parametrize("spread", [0.3, 3.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_search_by_error_sees_what_its_literal_twin_sees(shape: str, spread: float) -> None:
    counts, dim = SHAPES[shape]
    x, y = oracle.blobs(np.random.default_rng(5), counts, dim, spread)
    for seed in (0, 1):
        found, expected = search_lambda_by_error(x, y, seed), literal_errors(x, y, seed)
        assert found is not None
        assert list(found.errors) == pytest.approx(list(expected))
        # Where samples are few, a plain solve loses what small λ need.
        lost = 5 if shape == "few samples" else 0
        assert list(found.errors.values())[lost:] == pytest.approx(list(expected.values())[lost:], rel=1e-6)
        if shape != "few samples":
            assert found.best == min(expected, key=lambda lam: expected[lam])


def test_the_wide_grid_is_ranpacs() -> None:
    assert len(WIDE_LAMBDAS) == 17
    assert (WIDE_LAMBDAS[0], WIDE_LAMBDAS[-1]) == (1e-8, 1e8)


def test_more_noise_wants_a_larger_lambda() -> None:
    best = []
    for spread in (0.1, 1.0, 5.0):
        found = search_lambda_by_error(*oracle.blobs(np.random.default_rng(1), [30] * 3, 20, spread), seed=0)
        assert found is not None
        best.append(found.best)
    assert best == sorted(best)
    assert best[0] < best[-1]


def test_equal_errors_go_to_the_larger_lambda() -> None:
    assert ErrorSearch({1e-8: 0.5, 10.0: 0.5, 0.1: 0.5, 100.0: 0.51}).best == 10.0
    found = search_lambda_by_error(np.zeros((8, 3)), np.array(list("abab" * 2)), 0)
    assert found is not None
    assert found.best == 1e8


def test_the_seed_cuts_the_batch() -> None:
    x, y = oracle.blobs(np.random.default_rng(11), [13, 11], dim=10, spread=2.0)
    first, again, other = (search_lambda_by_error(x, y, seed) for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize("dim", [6, 60])
def test_features_that_overflow_end_the_search_in_a_sentence(dim: int) -> None:
    x, y = oracle.blobs(np.random.default_rng(1), [8, 8], dim)
    with pytest.raises(InputError, match="not finite numbers"):
        search_lambda_by_error(1e200 * x, y, 0)


def test_fewer_than_five_samples_cannot_be_cut() -> None:
    x, y = np.eye(5), np.array(list("abcde"))
    for count in range(5):
        assert search_lambda_by_error(x[:count], y[:count], 0) is None
    assert search_lambda_by_error(x, y, 0) is not None


@pytest.mark.parametrize("shape", SHAPES)
def test_a_search_in_float32_is_near_that_of_float64(shape: str) -> None:
    counts, dim = SHAPES[shape]
    x, y = oracle.blobs(np.random.default_rng(3), counts, dim, 2.0)
    double, single = (search_lambda_by_error(x, y, 0, precision=each) for each in ("float64", "float32"))
    assert double is not None
    assert single is not None
    np.testing.assert_allclose([*single.errors.values()], [*double.errors.values()], rtol=0.02, atol=0.02)
