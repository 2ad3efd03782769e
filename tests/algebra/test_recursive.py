from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import oracle
from layup.algebra import recursive as module
from layup.algebra.recursive import RecursiveLeastSquares
from layup.algebra.ridge import Solution
from layup.algebra.statistics import GramStatistics

DIM = 40


def begun(x: Any, y: Any, lam: float = 1.0) -> tuple[GramStatistics, RecursiveLeastSquares]:
    sums = GramStatistics(x.shape[1])
    sums.update(x, y)
    stream = RecursiveLeastSquares.begun(sums, lam)
    assert stream is not None
    return sums, stream


def follow(sums: GramStatistics, stream: RecursiveLeastSquares, x: Any, y: Any, size: int = 1) -> None:
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        sums.update(x[part], y[part])
        stream.learn(x[part], y[part])


def backward_error(sums: GramStatistics, weights: Any, lam: float) -> float:
    """By its definition."""
    matrix, c = sums.gram + lam * np.eye(sums.dim), sums.prototypes.T
    residual = np.linalg.norm(matrix @ weights - c)
    return float(residual / (np.linalg.norm(matrix, 2) * np.linalg.norm(weights) + np.linalg.norm(c)))


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e3])
def test_a_stream_predictions_as_if_all_had_been_solved(lam: float, size: int, balance: bool) -> None:
    rng = np.random.default_rng(1)
    x, y = oracle.blobs(rng, [50, 30, 40, 80, 9], DIM)
    late = y == "c03"  # a class that comes with the stream
    order = np.concatenate([np.flatnonzero(~late)[:60], rng.permutation(np.arange(len(y)))])
    x, y = x[order], y[order]
    y[:60][y[:60] == "c03"] = "c00"
    sums, stream = begun(x[:60], y[:60], lam)
    for stop in (61, 130, len(y)):
        follow(sums, stream, x[sums.total : stop], y[sums.total : stop], size)
        labels, weights = oracle.classifier(x[:stop], y[:stop], lam, balance)
        assert sums.labels == labels
        np.testing.assert_allclose(stream.scores(x, balance=balance), x @ weights, rtol=1e-8, atol=1e-10)
        assert stream.backward_error() < 1e-15


def test_a_stream_may_begin_with_nothing_learned() -> None:
    x, y = oracle.blobs(np.random.default_rng(2), [9, 9], DIM)
    sums, stream = begun(x[:0], y[:0])
    follow(sums, stream, x, y)
    np.testing.assert_allclose(stream.scores(x), x @ oracle.classifier(x, y, 1.0)[1], atol=1e-10)


@pytest.mark.slow
def test_a_long_stream_keeps_its_digits() -> None:
    rng = np.random.default_rng(3)
    scale = np.logspace(0, -3, DIM)
    x, y = oracle.blobs(rng, [1500, 1500, 1500], DIM)
    x *= scale
    sums, stream = begun(x[:100], y[:100], lam=1e-3)
    follow(sums, stream, x[100:], y[100:])
    fresh = Solution(sums, 1e-3, False).weights
    assert backward_error(sums, fresh, 1e-3) < 1e-14
    assert stream.backward_error() < 1e-14
    assert stream.backward_error() == pytest.approx(
        backward_error(sums, stream.scores(np.eye(DIM)), 1e-3), rel=0.5, abs=1e-16
    )
    np.testing.assert_array_equal(stream.scores(x).argmax(axis=1), (x @ fresh).argmax(axis=1))


def test_weights_that_went_astray_are_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_EVERY", 30)
    x, y = oracle.blobs(np.random.default_rng(4), [60, 60], DIM)
    sums, stream = begun(x[:60], y[:60])
    stream._weights *= 1 + 1e-9
    follow(sums, stream, x[60:80], y[60:80])
    assert stream.backward_error() > 1e-12
    follow(sums, stream, x[80:95], y[80:95])
    assert stream.backward_error() < module.TOLERANCE
    _, weights = oracle.classifier(x[:95], y[:95], 1.0, balance=True)
    np.testing.assert_allclose(stream.scores(x, balance=True), x @ weights, rtol=1e-8, atol=1e-10)


def test_an_inverse_that_went_astray_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_EVERY", 30)
    x, y = oracle.blobs(np.random.default_rng(4), [60, 60], DIM)
    sums, stream = begun(x[:60], y[:60])
    stream._inverse *= 1.5
    follow(sums, stream, x[60:90], y[60:90])
    assert stream.sound
    np.testing.assert_allclose(stream._inverse, np.linalg.inv(sums.gram + np.eye(DIM)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(stream.scores(x), x @ oracle.classifier(x[:90], y[:90], 1.0)[1], atol=1e-10)


def test_where_the_matrix_became_singular_to_rounding_the_stream_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CHECK_EVERY", 5)
    x, y = oracle.blobs(np.random.default_rng(5), [20, 20], DIM)
    sums, stream = begun(x[:30], y[:30], lam=1e-4)
    follow(sums, stream, 1e6 * x[30:], y[30:])
    assert not stream.sound


@pytest.mark.parametrize("lam", [0.0, 1e-12])
def test_a_singular_matrix_cannot_be_followed(lam: float) -> None:
    sums = GramStatistics(DIM)
    sums.update(*oracle.blobs(np.random.default_rng(6), [5, 5], DIM))
    assert RecursiveLeastSquares.begun(sums, lam) is None


def test_learning_leaves_the_samples_as_they_were() -> None:
    x, y = oracle.blobs(np.random.default_rng(7), [20, 20], DIM)
    before = x.copy()
    follow(*begun(x[:5], y[:5]), x[5:], y[5:], size=9)
    np.testing.assert_array_equal(x, before)
    assert torch.get_default_dtype() == torch.float32
