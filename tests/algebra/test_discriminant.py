from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.covariance import EmpiricalCovariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import oracle
from layup.algebra.discriminant import DiscriminantClassifier


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(23)


@pytest.mark.parametrize("lam", [1e-3, 1.0, 30.0])
def test_discriminants_are_those_of_means_and_a_pooled_covariance(
    lam: float, rng: np.random.Generator
) -> None:
    x, y = oracle.blobs(rng, [9, 4, 1, 30], dim=6, spread=2.0)
    test = rng.normal(size=(20, 6))
    model = DiscriminantClassifier(lam)
    for start in range(0, len(y), 7):
        model.partial_fit(x[start : start + 7], y[start : start + 7])
    covariance = lam * np.eye(6)
    for row, label in zip(x, y, strict=True):
        around = row - x[y == label].mean(axis=0)
        covariance += np.outer(around, around) / len(y)
    inverse = np.linalg.inv(covariance)
    for phi, scores in zip(test, model.scores(test), strict=True):
        for label, score in zip(model.classes_, scores, strict=True):
            mean, share = x[y == label].mean(axis=0), np.mean(y == label)
            expected = mean @ inverse @ phi - mean @ inverse @ mean / 2 + np.log(share)
            assert score == pytest.approx(expected, rel=1e-8, abs=1e-8)


class AddedToVariances(EmpiricalCovariance):
    """scikit-learn's covariance of a class with λ on its diagonal."""

    def fit(self, X: Any, y: Any = None) -> Any:
        super().fit(X)
        self.covariance_ = self.covariance_ + 0.5 * np.eye(len(self.covariance_))
        return self


@pytest.mark.parametrize("lam", [0, 0.5])
def test_discriminants_are_scikit_learns(lam: float, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [20, 12, 30], dim=5, spread=2.0)
    estimator = AddedToVariances() if lam else EmpiricalCovariance()
    theirs = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=estimator).fit(x, y)
    ours = DiscriminantClassifier(lam).fit(x, y)
    test = 3 * rng.normal(size=(30, 5))
    np.testing.assert_allclose(ours.scores(test), theirs.decision_function(test), atol=1e-8)
    assert ours.predict(test).tolist() == theirs.predict(test).tolist()


def test_discriminants_of_fewer_samples_than_dimensions(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [4, 4, 4], dim=50)
    for lam in (0, 1e-12, 1e-3, 1.0):
        model = DiscriminantClassifier(lam).fit(x, y)
        assert np.isfinite(model.scores(x)).all()
        assert model.predict(x).tolist() == y.tolist()
    zeros = DiscriminantClassifier(0).fit(np.zeros((3, 2)), ["a", "b", "b"])
    assert zeros.predict([[1.0, 2.0]]).tolist() == ["b"]
