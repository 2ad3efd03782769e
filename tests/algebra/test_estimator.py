"""What scikit-learn builds of estimators, it builds of ours: with its own as the oracle of what is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metadata_routing import get_routing_for_object

import oracle
from layup import NearestMeanClassifier, RidgeClassifier
from layup.algebra.auto import AutoClassifier
from layup.errors import UnknownNameError

KINDS = [RidgeClassifier(), RidgeClassifier("gcv", balance=True), AutoClassifier()]


def each() -> Any:
    return pytest.mark.parametrize("model", KINDS, ids=repr)


@pytest.fixture(params=[False, True], ids=["", "routed"])
def routed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything works with metadata routing, and without."""
    with sklearn.config_context(enable_metadata_routing=request.param):
        yield


@pytest.fixture
def data() -> tuple[Any, Any]:
    """Four classes of unequal size that overlap a little."""
    return oracle.blobs(np.random.default_rng(3), [40, 30, 20, 30], 8, spread=0.7)


# ---- inside of others


@each()
@pytest.mark.usefixtures("routed")
def test_the_last_step_of_a_pipeline(model: Any, data: Any) -> None:
    x, y = data
    pipeline = make_pipeline(StandardScaler(), PCA(6), sklearn.clone(model)).fit(x, y)
    before = pipeline[:-1].transform(x)
    assert (pipeline.predict(x) == sklearn.clone(model).fit(before, y).predict(before)).all()
    assert pipeline.score(x, y) > 0.85
    assert cross_val_score(pipeline, x, y, cv=3).min() > 0.7


@each()
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.usefixtures("routed")
def test_calibrated_it_gives_probabilities(model: Any, method: str, data: Any) -> None:
    x, y = data
    calibrated = CalibratedClassifierCV(model, method=method, cv=3).fit(x, y)
    probabilities = calibrated.predict_proba(x)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert probabilities.shape == (len(x), 4)
    assert calibrated.score(x, y) > 0.85
    sure = probabilities.max(axis=1)
    right = calibrated.predict(x) == y
    assert sure[right].mean() > sure[~right].mean()


@pytest.mark.usefixtures("routed")
def test_a_grid_search_finds_the_parameter_that_is_best(data: Any) -> None:
    x, y = data
    grid = {"ridge__lam": [1e-3, 1.0, 1e6, "gcv"], "ridge__balance": [False, True]}
    search = GridSearchCV(Pipeline([("ridge", RidgeClassifier())]), grid, cv=3).fit(x, y)
    results = search.cv_results_
    means = {repr(p): s for p, s in zip(results["params"], results["mean_test_score"], strict=True)}
    for parameters in results["params"]:
        alone = RidgeClassifier(parameters["ridge__lam"], balance=parameters["ridge__balance"])
        assert means[repr(parameters)] == pytest.approx(cross_val_score(alone, x, y, cv=3).mean())
    assert search.best_score_ == max(means.values())
    assert search.best_estimator_["ridge"].lam == search.best_params_["ridge__lam"]


@each()
@pytest.mark.parametrize(
    "around",
    [
        lambda model: StackingClassifier([("ours", model), ("nmc", NearestMeanClassifier())], cv=3),
        lambda model: VotingClassifier([("ours", model), ("other", LogisticRegression())]),
        lambda model: OneVsRestClassifier(model),
        lambda model: OneVsOneClassifier(model),
        lambda model: BaggingClassifier(model, n_estimators=3, random_state=0),
    ],
    ids=["stacking", "voting", "one against the rest", "one against one", "bagging"],
)
@pytest.mark.usefixtures("routed")
def test_it_is_a_part_of_ensembles(model: Any, around: Any, data: Any) -> None:
    x, y = data
    whole = around(model).fit(x, y)
    assert whole.score(x, y) > 0.85
    assert not hasattr(model, "statistics_")  # what is inside was cloned


# ---- tables


def frames(x: Any) -> list[Any]:
    names = [f"value {i}" for i in range(x.shape[1])]
    return [
        pandas.DataFrame(x, columns=names, index=np.arange(len(x)) * 7),
        polars.DataFrame(x, schema=names),
    ]


@each()
def test_tables_are_learned_by_the_names_of_their_columns(model: Any, data: Any) -> None:
    x, y = data
    expected = sklearn.clone(model).fit(x, y)
    columns = [pandas.Series(y, index=np.arange(len(y)) * 7), polars.Series(y)]
    for table, column in zip(frames(x), columns, strict=True):
        fitted = sklearn.clone(model).fit(table, column)
        assert fitted.feature_names_in_.tolist() == [f"value {i}" for i in range(8)]
        assert fitted.n_features_in_ == 8
        assert (fitted.predict(table) == expected.predict(x)).all()
        assert fitted.score(table, column) == expected.score(x, y)
        with pytest.raises(ValueError, match="feature names should match"):
            fitted.predict(table[list(table.columns)[::-1]])
        assert not hasattr(sklearn.clone(model).fit(x, y), "feature_names_in_")


# ---- metadata


@each()
def test_it_can_ask_for_the_same_metadata_as_scikit_learns_own(model: Any) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        ours, theirs = (get_routing_for_object(each) for each in (model, SGDClassifier()))
        for method in ("score", "partial_fit"):
            wanted = getattr(theirs, method).requests
            if method == "partial_fit":
                wanted.pop("sample_weight")  # sums count samples: no part of one can be learned or reverted
            assert getattr(ours, method).requests == wanted
        assert ours.fit.requests == {}
        asking = (
            sklearn.clone(model).set_score_request(sample_weight="w").set_partial_fit_request(classes=True)
        )
        for one in (asking, sklearn.clone(asking), sklearn.clone(asking).set_score_request()):
            found = get_routing_for_object(one)
            assert found.score.requests == {"sample_weight": "w"}
            assert found.partial_fit.requests == {"classes": True}
        assert get_routing_for_object(model).score.requests == {"sample_weight": None}
        again = sklearn.clone(asking).set_score_request(sample_weight=False)
        assert get_routing_for_object(again).score.requests == {"sample_weight": False}
        assert get_routing_for_object(asking).score.requests == {"sample_weight": "w"}


def test_what_it_cannot_ask_for_is_guessed() -> None:
    with pytest.raises(
        UnknownNameError, match=r"metadata of score 'sample_weigth'.*Did you mean 'sample_weight'"
    ):
        RidgeClassifier().set_score_request(sample_weigth=True)


@each()
def test_weights_reach_the_score_through_cross_validation(model: Any, data: Any) -> None:
    x, y = data
    weights = np.random.default_rng(1).integers(0, 2, len(y)).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        asking = make_pipeline(scaler, sklearn.clone(model).set_score_request(sample_weight=True))
        found = cross_validate(asking, x, y, params={"sample_weight": weights}, return_indices=True, cv=3)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            cross_validate(sklearn.clone(model), x, y, params={"sample_weight": weights}, cv=3)
    folds = zip(found["test_score"], found["indices"]["train"], found["indices"]["test"], strict=True)
    for score, train, test in folds:
        right = sklearn.clone(asking).fit(x[train], y[train]).predict(x[test]) == y[test]
        assert score == pytest.approx(right[weights[test] == 1].mean())


def test_declared_classes_reach_partial_fit_through_others(data: Any) -> None:
    x, y = data
    several = np.column_stack([y, np.where(y == "c00", "first", "other")])
    classes = [np.array(["c00", "c01", "c02", "c03", "c99"]), np.array(["first", "other"])]
    model = MultiOutputClassifier(RidgeClassifier(1.0)).partial_fit(x, several, classes=classes)
    assert [each.classes_.tolist() for each in model.estimators_] == [each.tolist() for each in classes]
    assert (model.predict(x)[:, 0] == RidgeClassifier(1.0).fit(x, y).predict(x)).all()


# ---- what is shown


@each()
def test_a_notebook_shows_its_diagram_alone_and_in_a_pipeline(model: Any, data: Any) -> None:
    name = type(model).__name__
    assert name in model._repr_html_()
    assert "Not fitted" in model._repr_html_()
    assert "Not fitted" not in sklearn.clone(model).fit(*data)._repr_html_()
    assert name in make_pipeline(StandardScaler(), model)._repr_html_()
    with sklearn.config_context(display="text"):
        assert model._repr_html_() is None


def test_its_text_names_what_differs_from_the_default() -> None:
    assert repr(RidgeClassifier("gcv", balance=True)) == "RidgeClassifier(balance=True, lam='gcv')"
    pipeline = make_pipeline(StandardScaler(), RidgeClassifier(1.0))
    assert "RidgeClassifier(lam=1.0)" in repr(pipeline)
