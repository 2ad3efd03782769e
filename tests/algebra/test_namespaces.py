"""Arrays of other libraries: learned and predicted as NumPy's are, and answered in kind.

SciPy must know before it is imported that arrays of others will come. So these tests run in another process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import oracle
from layup import NearestMeanClassifier, RidgeClassifier
from layup.algebra.auto import AutoClassifier
from layup.algebra.namespaces import like, to_numpy

ROOT = Path(__file__).parent.parent.parent
THERE = "SCIPY_ARRAY_API"

dispatching = pytest.mark.skipif(os.environ.get(THERE) != "1", reason="runs in another process")


@pytest.mark.skipif(os.environ.get(THERE) == "1", reason="is that process")
def test_in_a_process_where_scipy_knows_of_other_arrays() -> None:
    """The tests below, and scikit-learn's own of every estimator, for PyTorch and array-api-strict."""
    wanted = "test_namespaces or (array_api and no_fault and not however)"
    files = [f"tests/algebra/test_{name}.py" for name in ("namespaces", "classifier")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *files, "-k", wanted],
        cwd=ROOT,
        env={**os.environ, THERE: "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    passed = int(re.findall(r"(\d+) passed", done.stdout)[-1])
    assert passed >= 60, done.stdout


def namespaces() -> Any:
    return pytest.mark.parametrize(
        ("xp", "device"),
        [(torch, "cpu"), (array_api_strict, array_api_strict.Device("device1"))],
        ids=["torch", "strict"],
    )


def each() -> Any:
    kinds = [RidgeClassifier(), RidgeClassifier(1.0), AutoClassifier(), NearestMeanClassifier()]
    return pytest.mark.parametrize("model", kinds, ids=repr)


@pytest.fixture
def data() -> tuple[Any, Any]:
    x, y = oracle.blobs(np.random.default_rng(5), [30, 20, 25], 6, spread=0.5)
    return x, np.array([int(name[1:]) for name in y])


@dispatching
@namespaces()
@each()
def test_answers_are_where_the_samples_are_and_the_same_as_numpys(
    model: Any, xp: Any, device: Any, data: Any
) -> None:
    x, y = data
    expected = clone(model).fit(x, y)
    there, labels = xp.asarray(x, device=device), xp.asarray(y, device=device)
    with config_context(array_api_dispatch=True):
        fitted = clone(model).fit(there, labels)
        for method in ("scores", "decision_function", "predict"):
            found = getattr(fitted, method)(there)
            assert type(found) is type(there)
            assert found.device == there.device
            np.testing.assert_array_equal(to_numpy(found), getattr(expected, method)(x))
        assert fitted.scores(there).dtype == xp.float64
        assert fitted.score(there, labels) == expected.score(x, y)
        assert fitted.score(there, labels, sample_weight=labels) == expected.score(x, y, sample_weight=y)


@dispatching
@namespaces()
@each()
def test_what_is_learned_in_parts_from_anywhere_adds_up(model: Any, xp: Any, device: Any, data: Any) -> None:
    """Other than scikit-learn's own estimators: sums are NumPy's, and belong to no device."""
    x, y = data
    there = xp.asarray(x, device=device)
    expected = clone(model).partial_fit(x[:40], y[:40]).partial_fit(x[40:], y[40:])
    with config_context(array_api_dispatch=True):
        half = clone(model).partial_fit(there[:40, :], xp.asarray(y[:40], device=device))
        whole = half.partial_fit(x[40:], y[40:])
        np.testing.assert_array_equal(whole.scores(x), expected.scores(x))
        np.testing.assert_array_equal(to_numpy(whole.scores(there)), expected.scores(x))
        whole.revert(there[40:, :], xp.asarray(y[40:], device=device))
        assert whole.statistics_.total == 40


@dispatching
@namespaces()
def test_words_stay_with_numpy(xp: Any, device: Any, data: Any) -> None:
    x, y = data
    names = np.array(["ant", "bee", "cat"])[y]
    there = xp.asarray(x, device=device)
    with config_context(array_api_dispatch=True):
        found = RidgeClassifier(1.0).fit(there, names).predict(there)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == RidgeClassifier(1.0).fit(x, names).predict(x).tolist()


@dispatching
def test_float32_samples_are_computed_with_in_float64(data: Any) -> None:
    x, y = data
    there = torch.asarray(x, dtype=torch.float32)
    with config_context(array_api_dispatch=True):
        found = RidgeClassifier(1e-3).fit(there, torch.asarray(y)).scores(there)
    assert found.dtype == torch.float64
    rounded = x.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(found, RidgeClassifier(1e-3).fit(rounded, y).scores(rounded))


@dispatching
def test_where_there_is_no_float64_answers_are_float32() -> None:
    """Apple's GPUs have none, and this device pretends to be one."""
    single = array_api_strict.Device("no_float64")
    given = array_api_strict.asarray([[1.0, 2.0]], dtype=array_api_strict.float32, device=single)
    with config_context(array_api_dispatch=True):
        assert like(np.ones((1, 2)), given).dtype == array_api_strict.float32
        assert like(np.ones(1, np.int64), given).dtype == array_api_strict.int64


@dispatching
def test_pipelines_and_cross_validation_of_tensors(data: Any) -> None:
    x, y = data
    there, labels = torch.asarray(x), torch.asarray(y)
    model = make_pipeline(StandardScaler(), RidgeClassifier(1.0))
    calibrated = CalibratedClassifierCV(RidgeClassifier(1.0), method="temperature", cv=3)
    with config_context(array_api_dispatch=True):
        found = clone(model).fit(there, labels).predict(there)
        assert isinstance(found, torch.Tensor)
        scores = cross_val_score(model, there, labels, cv=3)
        probabilities = clone(calibrated).fit(there, labels).predict_proba(there)
        assert isinstance(probabilities, torch.Tensor)
    np.testing.assert_array_equal(found, clone(model).fit(x, y).predict(x))
    np.testing.assert_allclose(scores, cross_val_score(model, x, y, cv=3))
    np.testing.assert_allclose(probabilities, clone(calibrated).fit(x, y).predict_proba(x), atol=1e-6)


@each()
def test_without_dispatching_tensors_are_read_as_numpy_reads_them(model: Any, data: Any) -> None:
    x, y = data
    found = clone(model).fit(torch.asarray(x), torch.asarray(y)).predict(torch.asarray(x))
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, clone(model).fit(x, y).predict(x))
