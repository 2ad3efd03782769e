from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oracle
from layup.algebra.class_covariances import LEAST, ClassCovariancesClassifier
from layup.errors import InputError


@pytest.mark.parametrize("gammas", [(1.0, 0.0), (1.0, 1.0), (10.0, 4.0)])
@pytest.mark.parametrize("sizes", [[30, 40, 25], [5, 1, 3]])
def test_scores_are_distances_by_the_correlations_of_each_class(
    gammas: tuple[float, float], sizes: list[int]
) -> None:
    rng = np.random.default_rng(2)
    x, y = oracle.blobs(rng, sizes, dim=6, spread=2.0)
    x = x @ rng.normal(size=(6, 6))
    test = rng.normal(size=(9, 6))
    model = ClassCovariancesClassifier(*gammas)
    for start in range(0, len(y), 7):
        model.partial_fit(x[start : start + 7], y[start : start + 7])
    for column, label in enumerate(model.classes_):
        own = x[y == label]
        correlations = np.eye(6)
        if len(own) > 1:
            covariance = np.cov(own.T)
            on = np.mean([covariance[i, i] for i in range(6)])
            off = np.mean([covariance[i, j] for i in range(6) for j in range(6) if i != j])
            for i in range(6):
                for j in range(6):
                    covariance[i, j] += gammas[0] * on if i == j else gammas[1] * off
            deviations = np.sqrt(np.diag(covariance))
            correlations = covariance / np.outer(deviations, deviations) + LEAST * np.eye(6)
        inverse = np.linalg.inv(correlations)
        expected = [-(row - own.mean(axis=0)) @ inverse @ (row - own.mean(axis=0)) for row in test]
        np.testing.assert_allclose(model.scores(test)[:, column], expected, rtol=1e-8)


def test_classes_that_do_not_vary_are_the_nearest_mean() -> None:
    x = np.array([[0.1, 0.3], [0.1, 0.3], [0.7, 0.2], [0.7, 0.2]])
    model = ClassCovariancesClassifier().fit(x, ["a", "a", "b", "b"])
    np.testing.assert_allclose(model.scores([[0.0, 0.0]]), [[-0.1, -0.53]])


def test_what_forgetting_left_below_zero_does_no_harm() -> None:
    rng = np.random.default_rng(2)
    x, y = oracle.blobs(rng, [4, 5], dim=8)
    model = ClassCovariancesClassifier(1e-12).fit(x, y)
    sums = model.statistics_
    header, arrays = sums.state()
    arrays["moments"] *= 1 - 1e-6  # what other rounding could have left
    model.adopt(type(sums).from_state(header, arrays))
    assert min(np.linalg.eigvalsh(model.solution_.correlations(label)).min() for label in sums.labels) < 0
    assert np.isfinite(model.scores(x)).all()


@pytest.mark.parametrize(
    ("gammas", "says"),
    [
        ((0.0, 0.0), "gamma1 must be above 0"),
        ((1.0, 2.0), "gamma2 at most gamma1"),
        ((-1.0, 0.0), "γ = -1.0 cannot be used"),
        ((1.0, np.nan), "γ = nan cannot be used"),
        (("1", 0.0), "γ = 1 cannot be used"),
    ],
)
def test_impossible_shrinkage_is_refused(gammas: tuple[Any, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        ClassCovariancesClassifier(*gammas).fit(np.eye(2), ["a", "b"])
