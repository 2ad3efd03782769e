from __future__ import annotations

import numpy as np
import pytest

from layup.algebra.residuals import ResidualSums


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(31)


def test_weights_are_those_of_a_regression_on_all_samples(rng: np.random.Generator) -> None:
    x, targets = rng.normal(size=(30, 8)), np.zeros((30, 3))
    targets[:10, :2] = rng.normal(size=(10, 2))
    targets[10:, 1:] = rng.normal(size=(20, 2))
    sums = ResidualSums.zeros(8)
    sums = sums.plus(x[:10], targets[:10, :2], ["a", "b"])
    for start in (10, 17):
        rows = slice(start, start + 7 if start == 10 else None)
        sums = sums.plus(x[rows], targets[rows, :0:-1], ["c", "b"])
    assert sums.total == 30
    expected = np.linalg.solve(x.T @ x + 0.3 * np.eye(8), x.T @ targets)
    np.testing.assert_allclose(sums.weights(["a", "b", "c"], 0.3), expected, atol=1e-12)
    np.testing.assert_allclose(sums.weights(["c", "a"], 0.3), expected[:, [2, 0]], atol=1e-12)


def test_without_lambda_few_samples_have_the_weights_of_least_norm(rng: np.random.Generator) -> None:
    x, targets = rng.normal(size=(5, 20)), rng.normal(size=(5, 2))
    sums = ResidualSums.zeros(20).plus(x.astype(np.float32), targets, ["a", "b"])
    expected = np.linalg.pinv(x.astype(np.float32).astype(float)) @ targets
    np.testing.assert_allclose(sums.weights(["a", "b"], 0.0), expected, atol=1e-8)


def test_they_are_the_same_from_their_arrays_and_take_as_many_bytes(rng: np.random.Generator) -> None:
    sums = ResidualSums.zeros(6).plus(rng.normal(size=(9, 6)), rng.normal(size=(9, 2)), ["b", "a"])
    again = ResidualSums.from_arrays(sums.arrays(["a", "b"]), ["a", "b"], sums.total)
    np.testing.assert_array_equal(again.weights(["a", "b"], 1.0), sums.weights(["a", "b"], 1.0))
    assert again.nbytes == sums.nbytes == 8 * (36 + 2 * 6)
    nothing = ResidualSums.zeros(6)
    assert ResidualSums.from_arrays(nothing.arrays([]), [], 0).nbytes == nothing.nbytes


def test_adding_samples_changes_no_sums_that_others_hold(rng: np.random.Generator) -> None:
    before = ResidualSums.zeros(3).plus(np.eye(3), np.ones((3, 1)), ["a"])
    held = before.arrays(["a"])
    before.plus(np.eye(3), np.ones((3, 1)), ["a"])
    for name, array in before.arrays(["a"]).items():
        np.testing.assert_array_equal(array, held[name])
