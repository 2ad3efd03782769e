from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import oracle
from layup import NearestMeanClassifier, RidgeClassifier
from layup.algebra.auto import AutoClassifier
from layup.algebra.class_covariances import ClassCovariancesClassifier
from layup.algebra.discriminant import DiscriminantClassifier
from layup.algebra.ridge_classifier import HeldOutRidgeClassifier
from layup.algebra.samples import SUMMABLE
from layup.algebra.truncated import TruncatedClassifier
from layup.errors import ForgetError, InputError, MismatchError, UnknownNameError

ESTIMATORS = [
    AutoClassifier(),
    *(RidgeClassifier(lam, balance=b) for lam in ("search", "gcv", 0, 1.0) for b in (False, True)),
    *(RidgeClassifier(lam, precision="float32") for lam in ("search", "gcv", 1.0)),
    HeldOutRidgeClassifier(),
    *(NearestMeanClassifier(metric) for metric in ("cosine", "euclidean")),
    *(TruncatedClassifier(share) for share in (0, 0.1)),
    *(ClassCovariancesClassifier(*gammas) for gammas in ((10.0, 10.0), (1.0, 0.0))),
    *(DiscriminantClassifier(lam, balance=b) for lam, b in ((0.1, True), ("oas", False), (1.0, False))),
]


ONE_OF_EACH = [*{type(estimator): estimator for estimator in reversed(ESTIMATORS)}.values()]


OTHERWISE = {"check_array_api_same_namespace": "what was learned from one library predicts arrays of any"}
"""Checks that fail because something else is promised."""


def all_checks(estimators: list[Any]) -> Any:
    """scikit-learn's checks. It warns that these do not inherit from its own class.

    Those of arrays of other libraries run in test_namespaces.py.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimator .* does not inherit from", UserWarning)
        return parametrize_with_checks(estimators, expected_failed_checks=lambda estimator: OTHERWISE)


@all_checks(ONE_OF_EACH)
def test_scikit_learn_finds_no_fault(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@all_checks([estimator for estimator in ESTIMATORS if estimator not in ONE_OF_EACH])
def test_scikit_learn_finds_no_fault_however_it_is_configured(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(23)


def each() -> Any:
    """Every kind of classifier, under its own name."""
    return pytest.mark.parametrize("model", [clone(model) for model in ESTIMATORS], ids=repr)


# ---- features of any size, or a sentence


def precision_of(model: Any) -> str:
    return model.get_params().get("precision", "float64")


@each()
@pytest.mark.parametrize("dim", [8, 60])
@pytest.mark.parametrize("end", [0, 1])
def test_features_near_the_limits_are_learned_and_predicted(
    model: Any, end: int, dim: int, rng: np.random.Generator
) -> None:
    """By batches and in a stream; with a given λ of another size, predictions may be wrong, but finite."""
    x, y = oracle.blobs(rng, [9, 8, 10], dim, spread=0.1)
    x *= SUMMABLE[precision_of(model)][end] * (20 if end == 0 else 0.05)
    model = clone(model).fit(x, y)
    for i in range(6):
        assert np.isfinite(model.scores(x)).all()
        model.partial_fit(x[i : i + 1], y[i : i + 1])
    if end == 1 or model.get_params().get("lam") in ("gcv", 0, None):
        assert model.predict(x).tolist() == y.tolist()


@each()
@pytest.mark.parametrize("size", [1e-160, 1e-70, 1e70, 1e200])
def test_features_whose_squares_overflow_or_vanish_are_neither_learned_nor_predicted(
    model: Any, size: float, rng: np.random.Generator
) -> None:
    x, y = oracle.blobs(rng, [9, 8, 10], 8)
    model = clone(model)
    with pytest.raises(InputError, match=f"squares of features must fit into {precision_of(model)}"):
        model.fit(size * x, y)
    with pytest.raises(NotFittedError):
        model.predict(x)
    model.partial_fit(x[:, :5], y)  # as many values as there are, not as were refused
    before = model.scores(x[:, :5])
    for call in (model.predict, model.scores, model.decision_function):
        with pytest.raises(InputError, match="squares of features must fit"):
            call(size * x[:, :5])
    for verb in (model.partial_fit, model.revert):
        with pytest.raises(InputError, match="squares of features must fit"):
            verb(size * x[:, :5], y)
    np.testing.assert_array_equal(model.scores(x[:, :5]), before)


@each()
def test_samples_of_zeros_and_of_some_zeros_are_learned_and_predicted(model: Any) -> None:
    x = np.maximum(0, np.random.default_rng(1).normal(size=(24, 8)))  # as a network with ReLU gives
    x[:4] = 0
    x[5] *= 1e-12
    x[6, 1:] *= 1e-200
    model = clone(model).fit(x, list("abc") * 8)
    assert np.isfinite(model.scores(x)).all()


# ---- any label, at any time


@each()
@pytest.mark.parametrize(
    "labels", [[3, -1, 20], ["dog", "ant", "a longer name"], [2.0, -1.0, 0.0], [True, False, True]]
)
def test_labels_of_any_type_come_back_as_they_went_in(model: Any, labels: list[Any]) -> None:
    x = np.repeat(np.eye(3), 5, axis=0)
    y = np.repeat(labels, 5)
    predictions = clone(model).fit(x, y).predict(x)
    assert predictions.tolist() == y.tolist()
    assert predictions.dtype.kind == y.dtype.kind


@each()
def test_longer_names_are_not_cut_short_when_they_come_later(model: Any) -> None:
    model = clone(model).partial_fit([[1.0, 0.0]], ["ox"]).partial_fit([[0.0, 1.0]], ["hippopotamus"])
    assert model.predict(np.eye(2)).tolist() == ["ox", "hippopotamus"]


@each()
def test_one_class_is_always_the_prediction(model: Any, rng: np.random.Generator) -> None:
    model = clone(model).fit(rng.normal(size=(6, 3)), ["only"] * 6)
    assert set(model.predict(100 * rng.normal(size=(50, 3)))) == {"only"}
    assert model.decision_function(np.ones((2, 3))).shape == (2, 1)


@each()
def test_declared_classes_are_listed_and_not_predicted_before_they_are_seen(
    model: Any, rng: np.random.Generator
) -> None:
    x, y = oracle.blobs(rng, [6, 6], dim=3)
    model = clone(model).partial_fit(x, y, classes=["a", "c00", "z"])
    assert model.classes_.tolist() == [
        "a",
        "c00",
        "c01",
        "z",
    ]  # c01 was not declared and may come all the same
    wide = 1000 * rng.normal(size=(200, 3))  # some samples have negative scores for all seen classes
    assert set(model.predict(wide)) == {"c00", "c01"}
    assert np.isneginf(model.decision_function(wide)[:, [0, 3]]).all()
    assert np.isfinite(model.decision_function(wide)[:, [1, 2]]).all()
    model.partial_fit(10 * np.ones((4, 3)), ["z"] * 4, classes=["b"])
    assert model.classes_.tolist() == ["a", "b", "c00", "c01", "z"]
    assert model.predict([[10.0, 10.0, 10.0]]).tolist() == ["z"]


@each()
def test_two_classes_of_which_one_is_only_declared(model: Any) -> None:
    model = clone(model).partial_fit(np.eye(2), ["b", "b"], classes=["a", "b"])
    assert np.isposinf(model.decision_function([[1.0, -5.0]])).all()
    assert model.predict([[-1.0, -5.0]]).tolist() == ["b"]


@each()
def test_equal_scores_go_to_the_first_label_in_sorted_order(model: Any) -> None:
    for labels in (["b", "a", "c"], ["c", "b", "a"]):
        fitted = clone(model).fit(np.ones((3, 2)), labels)
        assert np.ptp(fitted.scores([[1.0, 2.0]])) == 0
        assert fitted.predict([[1.0, 2.0], [-1.0, 0.0]]).tolist() == ["a", "a"]


@each()
def test_with_two_classes_the_decision_is_the_lead_of_the_second(
    model: Any, rng: np.random.Generator
) -> None:
    x, y = oracle.blobs(rng, [9, 9], dim=4)
    model = clone(model).fit(x, y)
    decision, scores = model.decision_function(x), model.scores(x)
    assert decision.shape == (18,)
    assert scores.shape == (18, 2)
    np.testing.assert_allclose(decision, scores[:, 1] - scores[:, 0])
    assert (model.predict(x) == np.where(decision > 0, "c01", "c00")).all()
    model.partial_fit(x[:1], ["c02"])
    np.testing.assert_array_equal(model.decision_function(x), model.scores(x))
    assert model.scores(x).shape == (18, 3)


@each()
def test_many_classes_of_one_sample_each_need_no_warning(model: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(40, 60))
    names = [f"c{i:02d}" for i in range(40)]
    assert clone(model).fit(x, names).predict(x).tolist() == names
    x, y = np.concatenate([x, x[:1], x[:1], x[:1]]), [*names, *["c00"] * 3]
    assert len(clone(model).fit(x, y).classes_) == 40


# ---- what is refused


@each()
def test_labels_of_another_type_change_nothing(model: Any) -> None:
    model = clone(model).partial_fit(np.eye(2), ["a", "b"])
    before = copy.deepcopy(model)
    eight = np.ones((8, 2))
    for call in (
        lambda: model.partial_fit(eight, [1, 2] * 4),
        lambda: model.partial_fit(eight, ["a", "b"] * 4, classes=[1, 2]),
        lambda: model.partial_fit(eight, [1, 2] * 4, classes=[1, 2]),
    ):
        with pytest.raises(MismatchError, match="of one type"):
            call()
    assert model.classes_.tolist() == before.classes_.tolist()
    assert model.statistics_.counts.tolist() == before.statistics_.counts.tolist()
    np.testing.assert_array_equal(model.scores(np.eye(2)), before.scores(np.eye(2)))


@each()
def test_without_any_class_there_is_nothing_to_predict(model: Any) -> None:
    with pytest.raises(NotFittedError):
        clone(model).predict([[1.0, 2.0]])
    with pytest.raises(NotFittedError):
        clone(model).revert([[1.0, 2.0]], ["a"])
    model = clone(model).partial_fit(np.eye(2), ["a", "b"], classes=["a", "z"])
    model.revert(np.eye(2), ["a", "b"])
    with pytest.raises(InputError, match="Cannot predict: no class was learned"):
        model.predict([[1.0, 2.0]])
    assert model.partial_fit(np.eye(2), ["a", "b"]).predict(np.eye(2)).tolist() == ["a", "b"]


@pytest.mark.parametrize("lam", [-1.0, np.nan, np.inf, None, 1j, [1.0]])
def test_lambda_must_be_a_number_from_zero_up(lam: Any) -> None:
    with pytest.raises(InputError, match="give a number ≥ 0, 'search' or 'gcv'"):
        RidgeClassifier(lam).fit(np.eye(2), ["a", "b"])
    with pytest.raises(InputError, match="give a number ≥ 0, or 'oas'"):
        DiscriminantClassifier(lam).fit(np.eye(2), ["a", "b"])


def test_a_mistyped_rule_or_metric_is_guessed() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown rule for λ 'serch'.*Did you mean 'search'"):
        RidgeClassifier("serch").fit(np.eye(2), ["a", "b"])
    with pytest.raises(UnknownNameError, match=r"Unknown metric 'cosin'.*Did you mean 'cosine'"):
        NearestMeanClassifier("cosin").fit(np.eye(2), ["a", "b"])
    with pytest.raises(UnknownNameError, match=r"Unknown metric 3\. Known: cosine, euclidean"):
        NearestMeanClassifier(3).fit(np.eye(2), ["a", "b"])  # type: ignore[arg-type]


@each()
def test_what_was_never_learned_cannot_be_reverted(model: Any, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [5, 5], dim=12)
    model = clone(model).fit(x, y)
    before = model.scores(x)
    with pytest.raises(ForgetError, match="Cannot forget 6 images of 'c00': only 5 were learned"):
        model.revert(np.ones((6, 12)), ["c00"] * 6)
    np.testing.assert_array_equal(model.scores(x), before)
    if not isinstance(model, NearestMeanClassifier):
        with pytest.raises(ForgetError, match="not what was learned"):
            model.revert(x[:1] + 1, y[:1])
        np.testing.assert_array_equal(model.scores(x), before)
    with pytest.raises(ValueError, match="11 features"):
        model.revert(x[:, :11], y)


# ---- the scores


def test_float32_features_are_scored_in_float64(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [9, 9], dim=5)
    x = x.astype(np.float32)
    for model in (RidgeClassifier(1e-3), NearestMeanClassifier()):
        scores = model.fit(x, y).scores(x)
        assert scores.dtype == np.float64
        np.testing.assert_array_equal(scores, clone(model).fit(x.astype(np.float64), y).scores(x))
