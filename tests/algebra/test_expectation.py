"""What is predicted without a fold is what a classifier would predict that never learned it."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binomtest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import oracle
from layup import schema
from layup.algebra.auto import AutoClassifier
from layup.algebra.blocks import AverageClassifier, DepthsClassifier, LayersClassifier
from layup.algebra.class_covariances import ClassCovariancesClassifier
from layup.algebra.discriminant import DiscriminantClassifier
from layup.algebra.expectation import MOST_LISTED, Expected, Tally, held_out_tally, wilson
from layup.algebra.folds import stratified
from layup.algebra.kinds import CLASSIFIERS
from layup.algebra.nearest_mean import NearestMeanClassifier
from layup.algebra.parameters import KINDS
from layup.algebra.ridge_classifier import HeldOutRidgeClassifier, RidgeClassifier
from layup.algebra.samples import CHUNK
from layup.algebra.truncated import TruncatedClassifier
from layup.errors import InputError
from layup.model.log import EXPECTED

LAYERS = {"a": 3, "b": 4, "c": 2}
DIM = sum(LAYERS.values())
CLASSIFIERS_OF_ONE_LABEL = [
    AutoClassifier(),
    *(RidgeClassifier(lam, balance=b) for lam in ("search", "gcv", 0.0, 0.3) for b in (False, True)),
    RidgeClassifier(1.0, precision="float32"),
    HeldOutRidgeClassifier(seed=3),
    AverageClassifier("search"),
    AverageClassifier("gcv", balance=True),
    AverageClassifier(0.1),
    NearestMeanClassifier(),
    NearestMeanClassifier("euclidean"),
    DiscriminantClassifier(0.1),
    TruncatedClassifier(),
    ClassCovariancesClassifier(2.0, 1.0),
    DiscriminantClassifier("oas", balance=True),
]
CLASSIFIERS_OF_SEVERAL = [DepthsClassifier((1, 2)), LayersClassifier((1, 2), 1.0)]


def learned(classifier: Any, *batches: tuple[Any, Any]) -> Any:
    """A fresh one of these layers that learned the batches."""
    fresh = clone(classifier)
    sums = KINDS[fresh.kind].sums
    fresh.adopt(sums(LAYERS, getattr(fresh, "precision", "float64")))
    for x, y in batches:
        fresh.partial_fit(x, y)
    return fresh


def batch_of(classifier: Any, x: Any, y: Any) -> Any:
    """The sums of samples. Learning them needs no search."""
    sums = classifier.statistics_.empty()
    sums.update(x, y)
    return sums


def fixed(classifier: Any) -> Any:
    """One with the λ in force as its parameter, which no fold can change."""
    in_force = classifier.in_force()
    if not isinstance(getattr(classifier, "lam", None), str) or "lambda" not in in_force:
        return clone(classifier)
    return RidgeClassifier(in_force["lambda"], balance=classifier.balance, precision=classifier.precision)


def literal(classifier: Any, past: tuple[Any, Any], x: Any, y: Any, folds: int) -> dict[Any, tuple[int, int]]:
    """Every fold, predicted by a classifier that learned all other samples from scratch."""
    counts = Counter([*past[1].tolist(), *y.tolist()])
    tested = [i for i, label in enumerate(y.tolist()) if counts[label] > 1]
    found: dict[Any, tuple[int, int]] = {}
    for rows in stratified(y[tested], folds):
        left_out = [tested[row] for row in rows]
        if not left_out:
            continue
        rest = np.delete(x, left_out, axis=0), np.delete(y, left_out)
        both = np.concatenate([past[0], rest[0]]), np.concatenate([past[1], rest[1]])
        twin = learned(fixed(classifier))
        twin.absorb(batch_of(twin, *both))
        if isinstance(classifier, AverageClassifier) and classifier.lam == "search":
            twin.adopt(twin.statistics_, classifier.lambdas_)
        for label, prediction in zip(y[left_out].tolist(), twin.predict(x[left_out]).tolist(), strict=True):
            right, count = found.get(label, (0, 0))
            found[label] = right + (label == prediction), count + 1
    return found


@pytest.mark.parametrize("classifier", CLASSIFIERS_OF_ONE_LABEL, ids=repr)
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), counts=st.lists(st.integers(0, 9), min_size=2, max_size=5))
def test_the_tally_is_that_of_classifiers_that_never_learned_the_fold(
    classifier: Any, seed: int, counts: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    past = oracle.blobs(rng, [5, 4, 1], DIM, spread=1.5)
    x, y = oracle.blobs(rng, counts, DIM, spread=1.5)
    if not len(y):
        return
    model = learned(classifier, past, (x, y))
    for folds in (2, 4):
        found = held_out_tally(model, x, y, folds=folds)
        assert found.by_label == literal(model, past, x, y, folds)


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize(("past", "sizes"), [([9, 8, 1], [7, 6, 5]), ([60, 70, 2], [6, 9, 3]), ([0], [5, 4])])
@pytest.mark.parametrize("lam", [0.01, 1.0, 100.0])
def test_by_default_each_sample_is_left_out_by_itself(
    lam: float, past: list[int], sizes: list[int], balance: bool
) -> None:
    """With fewer samples than dimensions and with more, and with nothing else learned."""
    rng = np.random.default_rng(4)
    history, (x, y) = oracle.blobs(rng, past, 60, spread=9.0), oracle.blobs(rng, sizes, 60, spread=9.0)
    model = RidgeClassifier(lam, balance=balance)
    model.fit(np.concatenate([history[0], x]), np.concatenate([history[1], y]))
    slow = model.right_without_fold(x, y, [np.array([row]) for row in range(len(y))])
    assert held_out_tally(model, x, y) == Tally.of(y.tolist(), slow.tolist())
    assert 0 < slow.sum() < len(slow)


def test_every_kind_is_tried_here() -> None:
    tried = [*CLASSIFIERS_OF_ONE_LABEL, *CLASSIFIERS_OF_SEVERAL]
    assert {classifier.kind for classifier in tried} == {*CLASSIFIERS}


def test_the_accuracy_is_that_of_new_samples() -> None:
    """Not that of the samples themselves, which ridge with more dimensions than samples fits perfectly."""
    expected, true = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, y = oracle.blobs(rng, [12] * 4, 150, spread=4.0)
        with threadpool_limits(1):  # threads would wait for each other
            model = RidgeClassifier(10.0).fit(x, y)
            found = Expected.of(held_out_tally(model, x, y, folds=10), model.statistics_.count_by_label())
            assert found is not None
            assert model.score(x, y) == 1.0
            expected.append(found.accuracy)
            true.append(model.score(*oracle.blobs(rng, [200] * 4, 150, spread=4.0)))
    assert 0.4 < np.mean(true) < 0.9
    assert np.mean(expected) == pytest.approx(np.mean(true), abs=0.04)


@pytest.mark.parametrize("classifier", [*CLASSIFIERS_OF_ONE_LABEL, *CLASSIFIERS_OF_SEVERAL], ids=repr)
def test_the_classifier_does_not_change(classifier: Any) -> None:
    x, y = oracle.blobs(np.random.default_rng(1), [9, 8, 1], DIM, spread=2.0)
    model = learned(classifier, (x, y))
    before = pickle.dumps((model.state()[0], oracle.held(model.statistics_), model.in_force()))
    held_out_tally(model, x, y)
    assert pickle.dumps((model.state()[0], oracle.held(model.statistics_), model.in_force())) == before


@pytest.mark.parametrize("classifier", CLASSIFIERS_OF_SEVERAL, ids=repr)
def test_nothing_is_tested_where_several_labels_are_predicted(classifier: Any) -> None:
    x, y = oracle.blobs(np.random.default_rng(1), [9, 8, 1], DIM)
    assert held_out_tally(learned(classifier, (x, y)), x, y) == Tally()


def test_only_samples_of_the_batch_are_tested_and_those_of_unseen_classes_are_not() -> None:
    x, y = oracle.blobs(np.random.default_rng(1), [9, 8, 2, 1], DIM)
    model = learned(RidgeClassifier(1.0), (x, y))
    batch = np.concatenate([np.flatnonzero(y == "c00")[:5], np.flatnonzero(np.isin(y, ["c02", "c03"]))])
    tally = held_out_tally(model, x[batch], y[batch])
    assert {label: tested for label, (_, tested) in tally.by_label.items()} == {"c00": 5, "c02": 2}
    alone = np.flatnonzero(y == "c03")
    assert held_out_tally(model, x[alone], y[alone]) == Tally()


def test_one_sample_of_a_class_that_was_known_before_is_tested() -> None:
    x, y = np.eye(2)[[0, 1, 0, 1]], np.array(["cat", "dog"] * 2)
    model = RidgeClassifier(1.0).fit(x, y)
    assert held_out_tally(model, x[2:], y[2:]).by_label == {"cat": (1, 1), "dog": (1, 1)}


def test_folds_of_several_chunks_are_tested_whole() -> None:
    x, y = oracle.blobs(np.random.default_rng(2), [2 * CHUNK, CHUNK + 100], 3)
    model = RidgeClassifier(1.0).fit(x, y)
    tally = held_out_tally(model, x.astype(np.float32), y, folds=2)
    assert tally.tested == len(y)
    assert tally.right / tally.tested == pytest.approx(model.score(x, y), abs=0.01)


def test_labels_may_be_numbers() -> None:
    x, y = oracle.blobs(np.random.default_rng(2), [6, 7], 3, spread=0.1)
    model = NearestMeanClassifier().fit(x, (y == "c01").astype(int))
    assert held_out_tally(model, x, (y == "c01").astype(int)).by_label == {0: (6, 6), 1: (7, 7)}


def test_samples_that_were_not_learned_cannot_be_held_out() -> None:
    x, y = np.eye(2)[[0, 1, 0, 1]], np.array(["cat", "dog"] * 2)
    model = RidgeClassifier(1.0).fit(x, y)
    with pytest.raises(InputError, match="Cannot hold out 3 samples of 'cat': 2 were learned"):
        held_out_tally(model, x[[0, 0, 0]], ["cat"] * 3)
    with pytest.raises(InputError, match="Cannot hold out 1 samples of 'eel': 0 were learned"):
        held_out_tally(model, x[:1], ["eel"])
    with pytest.raises(InputError, match="have 3 values but the model was built with 2"):
        held_out_tally(model, np.eye(3), ["cat"] * 3)
    with pytest.raises(InputError, match="in 1 folds: give at least 2"):
        held_out_tally(model, x, y, folds=1)


# ---- tallies and what follows from them


TALLIES = st.dictionaries(
    st.sampled_from("abcde"),
    st.integers(0, 30).flatmap(lambda tested: st.tuples(st.integers(0, tested), st.just(tested))),
).map(Tally)


@given(TALLIES, TALLIES)
def test_tallies_are_added_label_by_label(one: Tally, two: Tally) -> None:
    both = one + two
    assert (both.right, both.tested) == (one.right + two.right, one.tested + two.tested)
    for label in {*one.by_label, *two.by_label}:
        parts = [each.by_label.get(label, (0, 0)) for each in (one, two)]
        assert both.by_label[label] == (parts[0][0] + parts[1][0], parts[0][1] + parts[1][1])
    assert one + two == two + one


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_the_interval_is_wilsons(tested: int, share: float) -> None:
    right = round(share * tested)
    expected = binomtest(right, tested).proportion_ci(confidence_level=0.95, method="wilson")
    assert wilson(right, tested) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-12)
    low, high = wilson(right, tested)
    assert 0 <= low <= right / tested <= high <= 1


@given(TALLIES, st.dictionaries(st.sampled_from("abcdefghijklmnop"), st.integers(1, 60)))
def test_what_is_expected_is_what_a_log_can_hold(tally: Tally, counts: dict[str, int]) -> None:
    expected = Expected.of(tally, counts)
    assert (expected is None) == (tally.tested == 0 or len(counts) < 2)
    if expected is None:
        return
    values = json.loads(json.dumps(expected.to_dict()))
    schema.require(values, EXPECTED, "expected")
    assert Expected.from_dict(values) == expected
    assert expected.accuracy == tally.right / tally.tested
    assert (expected.low, expected.high) == wilson(tally.right, tally.tested)
    needing = {label for label, count in counts.items() if count < 5 or below(tally, label)}
    assert {*expected.needs_more} <= needing
    assert len(expected.needs_more) == min(len(needing), MOST_LISTED)


def below(tally: Tally, label: str) -> bool:
    """Whether the accuracy of a class is below the overall one, by more than chance."""
    right, tested = tally.by_label.get(label, (0, 0))
    if not tested:
        return False
    interval = binomtest(right, tested).proportion_ci(method="wilson")
    return bool(interval.high < tally.right / tally.tested)


def test_classes_that_need_more_photos_come_worst_first() -> None:
    tally = Tally({"fine": (95, 100), "weak": (10, 40), "weaker": (2, 40), "few": (2, 4), "fewer": (1, 2)})
    counts = {"fewer": 2, "weak": 40, "fine": 100, "single": 1, "weaker": 40, "few": 4, "untested": 8}
    expected = Expected.of(tally, counts)
    assert expected is not None
    assert expected.needs_more == ["single", "weaker", "weak", "fewer", "few"]


def test_a_class_is_not_called_weak_by_chance() -> None:
    tally = Tally({"fine": (95, 100), "one of five wrong": (4, 5)})
    expected = Expected.of(tally, {"fine": 100, "one of five wrong": 5})
    assert expected is not None
    assert expected.needs_more == []
