from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.covariance import EmpiricalCovariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances
from sklearn.utils.estimator_checks import parametrize_with_checks

import oracle
from layup import NearestMeanClassifier, RidgeClassifier
from layup.algebra.auto import AutoClassifier
from layup.algebra.blocks import AverageClassifier, DepthsClassifier
from layup.algebra.classifier import DiscriminantClassifier, HeldOutRidgeClassifier
from layup.algebra.held_out_search import search_lambda_by_error
from layup.algebra.lambda_search import search_lambda
from layup.algebra.samples import SUMMABLE
from layup.algebra.statistics import GramStatistics
from layup.errors import ForgetError, InputError, MismatchError, UnknownNameError

ESTIMATORS = [
    AutoClassifier(),
    *(RidgeClassifier(lam, balance=b) for lam in ("search", "gcv", 0, 1.0) for b in (False, True)),
    *(RidgeClassifier(lam, precision="float32") for lam in ("search", "gcv", 1.0)),
    HeldOutRidgeClassifier(),
    *(NearestMeanClassifier(metric) for metric in ("cosine", "euclidean")),
    *(DiscriminantClassifier(lam) for lam in (0.1, 1.0)),
]


ONE_OF_EACH = [*{type(estimator): estimator for estimator in reversed(ESTIMATORS)}.values()]


def all_checks(estimators: list[Any]) -> Any:
    """scikit-learn's checks. It warns that these do not inherit from its own class."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimator .* does not inherit from", UserWarning)
        return parametrize_with_checks(estimators)


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
    with pytest.raises(InputError, match="give a number ≥ 0\\."):
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


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("lam", [0, 0.1, 10.0])
def test_ridge_scores_are_those_of_the_joint_oracle(
    lam: float, balance: bool, rng: np.random.Generator
) -> None:
    x, y = oracle.blobs(rng, [9, 4, 1, 30], dim=8, spread=2.0)
    test = rng.normal(size=(20, 8))
    model = RidgeClassifier(lam, balance=balance)
    for start in range(0, len(y), 7):
        model.partial_fit(x[start : start + 7], y[start : start + 7])
    labels, weights = oracle.classifier(x, y, lam, balance)
    np.testing.assert_allclose(model.scores(test), test @ weights, atol=1e-10)
    assert model.predict(test).tolist() == oracle.predict(labels, weights, test)
    assert model.lambda_ == lam


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_nearest_mean_is_nearest(metric: str, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [9, 4, 1], dim=5, spread=2.0)
    model = NearestMeanClassifier(metric).fit(x, y)
    means = np.array([x[y == label].mean(axis=0) for label in ("c00", "c01", "c02")])
    expected = cosine_similarity(x, means) if metric == "cosine" else -euclidean_distances(x, means)
    np.testing.assert_allclose(model.scores(x), expected, atol=1e-12)
    for phi, answer in zip(x, model.predict(x), strict=True):
        gaps = [
            1 - phi @ mean / np.linalg.norm(phi) / np.linalg.norm(mean)
            if metric == "cosine"
            else np.linalg.norm(phi - mean)
            for mean in means
        ]
        assert answer == f"c{int(np.argmin(gaps)):02d}"


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


def test_float32_features_are_scored_in_float64(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [9, 9], dim=5)
    x = x.astype(np.float32)
    for model in (RidgeClassifier(1e-3), NearestMeanClassifier()):
        scores = model.fit(x, y).scores(x)
        assert scores.dtype == np.float64
        np.testing.assert_array_equal(scores, clone(model).fit(x.astype(np.float64), y).scores(x))


# ---- λ


def test_lambda_is_searched_again_in_each_batch_with_the_history_and_the_balance() -> None:
    found = {}
    for balance in (False, True):
        rng = np.random.default_rng(5)
        model, past, found[balance] = RidgeClassifier(balance=balance, grid="paper"), None, []
        for counts in ([20, 1, 2, 3], [3, 15, 1, 1, 2]):
            x, y = oracle.blobs(rng, counts, dim=20, spread=3.0)
            expected = oracle.best(oracle.search(past, x, y, balance))
            found[balance].append(model.partial_fit(x, y).lambda_)
            assert model.lambda_ == pytest.approx(expected)
            past = (x, y)
    assert found[False] != found[True]
    assert found[True][0] != found[True][1]


@pytest.mark.parametrize("kind", [RidgeClassifier, AverageClassifier, DepthsClassifier])
def test_lambda_goes_beyond_the_papers_grid_unless_told_not_to(kind: Any) -> None:
    x, y = oracle.blobs(np.random.default_rng(5), [12, 12], dim=20, spread=3.0)
    x *= 300
    paper, wide = (oracle.best(search(None, x, y)) for search in (oracle.search, oracle.wide_search))
    assert paper in oracle.SIXTEEN
    assert paper != wide
    for given, expected in (({}, wide), ({"grid": "wide"}, wide), ({"grid": "paper"}, paper)):
        chosen = kind(**given).fit(x, y).chosen()
        assert [*chosen.get("lambdas", chosen).values()] == pytest.approx([expected])


def test_an_unknown_grid_is_refused() -> None:
    with pytest.raises(InputError, match=r"grid of λ 'papers'\. Known: wide, paper\. Did you mean 'paper'"):
        RidgeClassifier(grid="papers").fit(np.eye(2), ["a", "b"])


def test_ranpacs_lambda_is_searched_again_in_each_batch_without_the_history() -> None:
    rng = np.random.default_rng(5)
    model = HeldOutRidgeClassifier(seed=3)
    found = []
    for counts, spread in (([20, 1, 2, 3], 0.1), ([3, 15, 1, 1, 2], 3.0), ([2, 2], 1.0)):
        x, y = oracle.blobs(rng, counts, dim=20, spread=spread)
        found.append(model.partial_fit(x, y).lambda_)
        expected = search_lambda_by_error(x, y, 3)
        assert found[-1] == (found[-2] if expected is None else expected.best)
        plain = RidgeClassifier(model.lambda_)
        plain.adopt(model.statistics_)
        np.testing.assert_array_equal(model.scores(x), plain.scores(x))
    assert len(set(found)) == 2
    assert HeldOutRidgeClassifier().partial_fit(x, y).lambda_ == 1.0


def test_precision_is_that_of_the_sums(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [9, 9], dim=5)
    model = RidgeClassifier(1.0, precision="float32").fit(x, y)
    assert model.statistics_.gram.dtype == model.solution_.weights.dtype == np.float32
    np.testing.assert_allclose(model.scores(x), RidgeClassifier(1.0).fit(x, y).scores(x), atol=1e-4)
    model.set_params(precision="float64").partial_fit(x, y)  # what is there stays as it is
    assert model.statistics_.gram.dtype == np.float32
    assert model.fit(x, y).statistics_.gram.dtype == np.float64
    with pytest.raises(UnknownNameError, match="Did you mean 'float32'"):
        RidgeClassifier(precision="float23").fit(x, y)


@pytest.mark.parametrize("lam", [0, 1.0, "search", "gcv"])
def test_only_learned_classes_are_predictions_however_wrong_float32_is(lam: Any) -> None:
    model = RidgeClassifier(lam, precision="float32")
    model.partial_fit(np.ones((8, 40)), ["a", "b"] * 4, classes=["A", "z"])  # as singular as can be
    model.partial_fit(1e6 * np.eye(8, 40), ["c", "d"] * 4)
    wide = 1e6 * np.random.default_rng(0).normal(size=(50, 40))
    assert np.isfinite(model.scores(wide)[:, 1:5]).all()
    assert set(model.predict(wide)) <= set("abcd")


def test_lambda_stays_as_it_was_where_a_batch_cannot_be_searched(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(np.random.default_rng(5), [12, 12], dim=20, spread=3.0)
    model = RidgeClassifier().partial_fit(x[:3], ["a", "b", "b"])
    assert model.lambda_ == 1.0
    searched = search_lambda(model.statistics_.copy(), x, y, widen=True)
    assert searched is not None
    assert model.partial_fit(x, y).lambda_ == searched.best != 1.0
    assert model.partial_fit(x[:3], ["new"] * 3).lambda_ == searched.best


def test_fit_forgets_all_that_was_learned_and_chosen_before() -> None:
    x, y = oracle.blobs(np.random.default_rng(5), [12, 12], dim=20, spread=3.0)
    model = RidgeClassifier().partial_fit(x, y, classes=["declared"])
    assert model.lambda_ != 1.0
    assert model.fit(x[:2, :3], ["a", "b"]).lambda_ == 1.0
    assert model.classes_.tolist() == ["a", "b"]
    assert model.n_features_in_ == 3


@pytest.mark.parametrize("lam", ["search", "gcv", 0.3])
def test_reverting_undoes_learning_and_keeps_lambda(lam: Any, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [12, 12, 12], dim=20, spread=3.0)
    model = RidgeClassifier(lam).partial_fit(x[:20], y[:20]).partial_fit(x[20:], y[20:])
    before = model.lambda_
    model.revert(x[20:], y[20:])
    assert model.statistics_.total == 20
    if lam == "gcv":  # no choice of the past, but a function of the sums
        assert model.lambda_ == pytest.approx(RidgeClassifier("gcv").fit(x[:20], y[:20]).lambda_, rel=1e-4)
    else:
        assert model.lambda_ == before
    twin = RidgeClassifier(model.lambda_).fit(x[:20], y[:20])
    np.testing.assert_allclose(model.scores(x), twin.scores(x), atol=1e-9)


def test_parameters_may_change_between_batches(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [12, 12], dim=5, spread=3.0)
    model = RidgeClassifier("gcv").fit(x, y)
    chosen = model.lambda_
    model.set_params(lam="search").partial_fit(x[:1], y[:1])  # nothing to search on: λ stays
    assert model.lambda_ == pytest.approx(chosen, rel=0.1)
    model.partial_fit(x[:1], y[:1])
    assert model.solution_.lam == model.lambda_
    assert model.set_params(lam=7).partial_fit(x[:1], y[:1]).lambda_ == 7.0


def test_an_interrupted_batch_changes_no_prediction(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = oracle.blobs(rng, [8, 8, 8], dim=5)
    model = RidgeClassifier(1.0).fit(x[y != "c02"], y[y != "c02"])
    before = model.scores(x)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(GramStatistics, "_combined", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(x, y)
    np.testing.assert_array_equal(model.scores(x), before)


def test_sums_can_be_adopted_and_absorbed(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [8, 8, 8], dim=5)
    whole = RidgeClassifier(1.0).fit(x, y)
    model, batch = RidgeClassifier(1.0), GramStatistics(5)
    sums = GramStatistics(5)
    sums.update(x[:10], y[:10])
    batch.update(x[10:], y[10:])
    model.adopt(sums)
    model.absorb(batch)
    np.testing.assert_allclose(model.scores(x), whole.scores(x), atol=1e-12)
    searching = RidgeClassifier()
    searching.adopt(sums, lam=0.25)
    assert searching.lambda_ == 0.25
    assert searching.needs_samples
    assert not model.needs_samples


# ---- a stream of samples


def streamed(model: Any, x: Any, y: Any) -> list[bool]:
    """Learn and predict in turn; whether the recursion was used, each time."""
    found = []
    for i in range(len(y)):
        model.partial_fit(x[i : i + 1], y[i : i + 1])
        model.predict(x[:3])
        found.append(model.recursive_ is not None)
    return found


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("lam", [1.0, "search"])
def test_learning_and_predictioning_in_turn_becomes_a_stream(
    lam: Any, balance: bool, rng: np.random.Generator
) -> None:
    x, y = oracle.blobs(rng, [30, 20, 25], dim=8, spread=2.0)
    model = RidgeClassifier(lam, balance=balance).fit(x[:40], y[:40])
    model.predict(x[:1])
    assert streamed(model, x[40:], y[40:]) == [False] + [True] * 34
    fresh = RidgeClassifier(model.lambda_, balance=balance).fit(x, y)
    np.testing.assert_allclose(model.scores(x), fresh.scores(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.statistics_.gram, x.T @ x, rtol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        RidgeClassifier("gcv"),
        RidgeClassifier(0.0),
        RidgeClassifier(1e-13),
        RidgeClassifier(1.0, precision="float32"),
    ],
    ids=repr,
)
def test_what_cannot_be_streamed_is_solved(model: Any, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [8, 8], dim=40)
    assert not any(streamed(model.partial_fit(x[:3], y[:3]), x[3:], y[3:]))


def test_learning_without_being_asked_needs_no_stream(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [30, 30], dim=8)
    model = RidgeClassifier(1.0).fit(x[:10], y[:10])
    for i in range(10, 40):
        model.partial_fit(x[i : i + 1], y[i : i + 1])
    model.predict(x)
    model.partial_fit(x[40:], y[40:]).predict(x)
    assert model.recursive_ is None


def test_a_stream_ends_with_a_large_batch_a_new_lambda_or_forgetting(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [90, 90], dim=8, spread=3.0)
    for end in (
        lambda model: model.partial_fit(x[60:], y[60:]),
        lambda model: model.partial_fit(x[60:68], y[60:68]),  # enough to search λ on
        lambda model: model.revert(x[:1], y[:1]),
        lambda model: model.adopt(model.statistics_),
    ):
        model = RidgeClassifier("search").fit(x[:40], y[:40])
        model.predict(x[:1])
        assert streamed(model, x[40:60], y[40:60])[-1]
        end(model)
        assert model.recursive_ is None
        fresh = RidgeClassifier(model.lambda_)
        fresh.adopt(model.statistics_.copy())
        np.testing.assert_allclose(model.scores(x), fresh.scores(x), rtol=1e-9, atol=1e-12)


def test_an_interruption_while_streaming_leaves_nothing_half_done(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = oracle.blobs(rng, [30, 30], dim=8)
    model = RidgeClassifier(1.0).fit(x[:40], y[:40])
    model.predict(x[:1])
    streamed(model, x[40:50], y[40:50])
    follow = model.recursive_._follow

    def interrupted(*args: Any) -> None:
        follow(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(model.recursive_, "_follow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(x[50:53], y[50:53])
    known = model.statistics_.total
    fresh = RidgeClassifier(1.0).fit(x[:known], y[:known])
    np.testing.assert_allclose(model.scores(x), fresh.scores(x), rtol=1e-9, atol=1e-12)
