from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oracle
from layup import RidgeClassifier
from layup.algebra.blocks import AverageClassifier, DepthsClassifier
from layup.algebra.held_out_search import search_lambda_by_error
from layup.algebra.lambda_grid import SEARCHES
from layup.algebra.lambda_search import search_lambda
from layup.algebra.parameters import GRIDS
from layup.algebra.ridge_classifier import HeldOutRidgeClassifier
from layup.algebra.statistics import GramStatistics
from layup.errors import InputError, UnknownNameError


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(23)


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


@pytest.mark.parametrize("kind", [RidgeClassifier, AverageClassifier, DepthsClassifier])
def test_of_equally_good_lambdas_the_largest_is_taken_or_the_first_of_the_authors_code(kind: Any) -> None:
    x, y = oracle.blobs(np.random.default_rng(5), [12, 12], dim=3, spread=0.1)  # every λ is right
    accuracies = oracle.search(None, x, y)
    best = max(accuracies.values())
    equal = [lam for lam, accuracy in accuracies.items() if accuracy == best]
    assert 1e-8 in equal
    assert len(equal) > 2
    for grid, expected in (("paper", max(equal)), ("official", sorted(equal)[1])):  # 1e-8 is tried last
        chosen = kind(grid=grid).fit(x, y).chosen()
        assert [*chosen.get("lambdas", chosen).values()] == pytest.approx([expected])


def test_every_grid_is_a_way_to_search() -> None:
    assert tuple(SEARCHES) == GRIDS


def test_an_unknown_grid_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"grid of λ 'papers'\. Known: wide, paper, official\. Did you mean 'paper'"
    ):
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
    searched = search_lambda(model.statistics_.copy(), x, y, grid=SEARCHES["wide"])
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
