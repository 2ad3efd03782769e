from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.covariance import OAS, EmpiricalCovariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import oracle
from layup.algebra import discriminant
from layup.algebra.discriminant import DiscriminantClassifier, oracle_shrinkage


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


@pytest.mark.parametrize("sizes", [[3, 2], [9, 4, 1, 30], [200, 300]])
@pytest.mark.parametrize("balance", [False, True])
def test_shrunk_discriminants_are_those_of_scikit_learns_shrinkage(
    sizes: list[int], balance: bool, rng: np.random.Generator
) -> None:
    x, y = oracle.blobs(rng, sizes, dim=6, spread=2.0)
    x = x @ np.diag([5.0, 1.0, 1.0, 0.5, 0.1, 0.0])
    test = rng.normal(size=(20, 6))
    model = DiscriminantClassifier("oas", balance=balance).fit(x, y)
    means = np.array([x[y == label].mean(axis=0) for label in model.classes_])
    around = x - means[np.searchsorted(model.classes_, y)]
    theirs = OAS(assume_centered=True).fit(around)
    assert oracle_shrinkage(around.T @ around / len(y), len(y)) == pytest.approx(theirs.shrinkage_)
    inverse = np.linalg.inv(theirs.covariance_)
    for phi, scores in zip(test, model.scores(test), strict=True):
        for mean, size, score in zip(means, sizes, scores, strict=True):
            prior = 0.0 if balance else np.log(size / len(y))
            distance = (phi - mean) @ inverse @ (phi - mean)
            assert score - phi @ inverse @ phi / 2 == pytest.approx(prior - distance / 2, rel=1e-8)
    assert model.in_force() == {}


def test_shrinkage_is_full_where_nothing_varies_or_all_directions_do_alike() -> None:
    assert oracle_shrinkage(np.zeros((3, 3)), 5) == oracle_shrinkage(2 * np.eye(3), 5) == 1.0
    model = DiscriminantClassifier("oas", balance=True).fit(np.eye(2), ["a", "b"])  # one sample per class
    assert model.predict([[0.9, 0.2], [0.1, 0.3]]).tolist() == ["a", "b"]


def test_a_solve_and_an_eigendecomposition_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = oracle.blobs(np.random.default_rng(5), [8, 9, 7], dim=12)
    solved = DiscriminantClassifier(0.01).fit(x, y).scores(x)
    monkeypatch.setattr(discriminant, "well_conditioned_factor", lambda *arguments: None)
    np.testing.assert_allclose(DiscriminantClassifier(0.01).fit(x, y).scores(x), solved, rtol=1e-9)
