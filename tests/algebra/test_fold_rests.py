from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import oracle
from layup.algebra.fold_rests import Rest, mean_accuracies, rests, right
from layup.algebra.folds import FOLDS, stratified
from layup.algebra.lambda_grid import LAMBDAS
from layup.algebra.lambda_search import search_lambda
from layup.algebra.ridge import Solution
from layup.algebra.statistics import GramStatistics


def batch(dim: int, counts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return oracle.blobs(np.random.default_rng(dim), counts, dim, spread=3.0)


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("dim", [8, 60])
def test_weights_are_those_of_a_plain_solution(dim: int, balance: bool) -> None:
    x, y = batch(dim, [9, 14, 17])
    sums = GramStatistics(dim)
    sums.update(x, y)
    for lam in (1e-3, 1.0, 1e3):
        expected = Solution(sums, lam, balance).weights
        np.testing.assert_allclose(Rest.of(sums).weights(lam, balance), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("dim", [8, 60])
def test_sums_per_fold_and_counts_are_a_search(dim: int, balance: bool) -> None:
    """Sums, weights and samples may be on different machines: the accuracies are those of `search_lambda`."""
    past, (x, y) = batch(dim, [3, 5]), batch(dim, [9, 14, 17])
    history, folds = GramStatistics(dim), [GramStatistics(dim) for _ in range(FOLDS)]
    history.update(*past)
    rows = stratified(y, FOLDS)
    for fold, own in zip(folds, rows, strict=True):
        fold.update(x[own], y[own])
    hits = np.zeros((len(LAMBDAS), FOLDS), np.int64)
    for turn, rest in enumerate(rests(folds, history)):
        for at, lam in enumerate(LAMBDAS):
            weights = rest.weights(lam, balance)
            for part in np.array_split(rows[turn], 3):  # as slices have them
                hits[at, turn] += right(weights, rest.sums.labels, x[part], y[part])
    found = search_lambda(history, x, y, balance=balance)
    assert found is not None
    assert dict(zip(LAMBDAS, mean_accuracies(hits, [*map(len, rows)]), strict=True)) == found.accuracies


def test_classes_that_the_rest_has_not_seen_are_predicted_wrong() -> None:
    assert right(np.zeros((3, 0)), [], np.ones((2, 3)), np.array(["a", "b"])) == 0
    assert right(np.eye(3)[:, :1], ["a"], np.ones((2, 3)), np.array(["a", "b"])) == 1


def test_folds_without_samples_are_left_out() -> None:
    assert mean_accuracies(np.array([[1, 0, 3]]), [2, 0, 3]) == [Fraction(3, 4)]
