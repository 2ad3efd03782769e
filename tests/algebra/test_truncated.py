from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oracle
from layup.algebra.ridge_classifier import RidgeClassifier
from layup.algebra.truncated import TruncatedClassifier
from layup.errors import InputError


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(29)


def by_svd(x: Any, y: Any, rank: int) -> Any:
    """The weights of least squares on the `rank` strongest directions, from all samples."""
    left, values, right = np.linalg.svd(x, full_matrices=False)
    return right[:rank].T @ ((left[:, :rank].T @ oracle.one_hot(y)[1]) / values[:rank, None])


@pytest.mark.parametrize(("sizes", "dim"), [([9, 4, 1, 30], 6), ([3, 4, 5], 30), ([6, 6], 12)])
@pytest.mark.parametrize("truncate", [0.1, 0.25, 0.6])
def test_weights_are_those_of_a_truncated_svd_of_all_samples(
    sizes: list[int], dim: int, truncate: float, rng: np.random.Generator
) -> None:
    x, y = oracle.blobs(rng, sizes, dim, spread=2.0)
    model = TruncatedClassifier(truncate)
    for start in range(0, len(y), 5):
        model.partial_fit(x[start : start + 5], y[start : start + 5])
    rank = round((1 - truncate) * min(len(y), dim))
    assert model.in_force() == {"rank": rank}
    weights, added = model.linear()
    np.testing.assert_allclose(weights, by_svd(x, y, rank), rtol=1e-6, atol=1e-8)
    assert not added.any()
    test = rng.normal(size=(20, dim))
    np.testing.assert_allclose(model.scores(test), test @ by_svd(x, y, rank), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("sizes", "dim"), [([9, 8, 20], 6), ([3, 4, 5], 30)])
def test_nothing_left_out_is_least_squares_of_minimum_norm(
    sizes: list[int], dim: int, rng: np.random.Generator
) -> None:
    x, y = oracle.blobs(rng, sizes, dim)
    weights = TruncatedClassifier(0).fit(x, y).linear()[0]
    np.testing.assert_allclose(weights, np.linalg.lstsq(x, oracle.one_hot(y)[1], rcond=None)[0], atol=1e-8)
    np.testing.assert_allclose(weights, RidgeClassifier(0.0).fit(x, y).linear()[0], atol=1e-8)


def test_repeated_samples_have_fewer_directions_than_their_number(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [3, 3], dim=20)
    once, twice = TruncatedClassifier(0).fit(x, y), TruncatedClassifier(0.25).fit([*x, *x], [*y, *y])
    assert twice.in_force() == {"rank": 9}  # of which there are six
    np.testing.assert_allclose(twice.linear()[0], once.linear()[0], atol=1e-8)


def test_one_direction_is_always_kept() -> None:
    model = TruncatedClassifier(0.9).fit([[2.0, 0.0]], ["a"])
    assert model.in_force() == {"rank": 1}
    assert model.scores([[1.0, 1.0]]).tolist() == [[0.5]]


def test_what_was_left_out_was_never_lost(rng: np.random.Generator) -> None:
    """The sums are whole: a direction that is left out now is there when a part is forgotten."""
    x, y = oracle.blobs(rng, [8, 8], dim=30, spread=2.0)
    both = TruncatedClassifier(0.5).fit(x, y)
    both.scores(x)
    both.revert(x[8:], y[8:])
    np.testing.assert_allclose(
        both.linear()[0], TruncatedClassifier(0.5).fit(x[:8], y[:8]).linear()[0], atol=1e-8
    )


@pytest.mark.parametrize("truncate", [-0.1, 1, 2.0, float("nan"), "0.25", None])
def test_what_is_no_share_is_refused(truncate: Any) -> None:
    with pytest.raises(InputError, match=r"truncate = .* is not a share of directions .* such as 0\.25"):
        TruncatedClassifier(truncate).fit(np.eye(2), ["a", "b"])
