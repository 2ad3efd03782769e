"""Readouts predict as the classifiers that they were made from, and familiarity is nearly the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from layup.algebra import (
    AutoClassifier,
    AverageClassifier,
    ClassCovariancesClassifier,
    DiscriminantClassifier,
    HeldOutRidgeClassifier,
    NearestMeanClassifier,
    RidgeClassifier,
    SumsClassifier,
    TruncatedClassifier,
)

LAYERS = {"shallow": 8, "deep": 24}
CLASSIFIERS: dict[str, Callable[[], SumsClassifier]] = {
    "auto": AutoClassifier,
    "ridge": lambda: RidgeClassifier(1.0, balance=True),
    "gcv": lambda: RidgeClassifier("gcv"),
    "held-out ridge": HeldOutRidgeClassifier,
    "truncated": TruncatedClassifier,
    "discriminant": DiscriminantClassifier,
    "cosine": NearestMeanClassifier,
    "euclidean": lambda: NearestMeanClassifier("euclidean"),
}


def samples(count: int, seed: int = 0, classes: int = 4) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    index = np.arange(count) % classes
    means = np.random.default_rng(99).normal(size=(classes, 32)) + 3
    return means[index] + rng.normal(size=(count, 32)), [f"class {i}" for i in index]


def taught(make: Callable[[], SumsClassifier], count: int = 100) -> Any:
    classifier = make()
    classifier.adopt(classifier.empty(LAYERS))
    x, y = samples(count)
    return classifier.learn_rows(x, np.array(y))


@pytest.mark.parametrize("count", [1, 4, 20, 400])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_scores_are_those_of_the_classifier(name: str, count: int) -> None:
    classifier = taught(CLASSIFIERS[name], count)
    readout = classifier.readout()
    x = np.vstack([samples(50, seed=1)[0], np.zeros(32)]).astype(np.float32)
    scores = classifier.scores_of(x)
    np.testing.assert_allclose(readout.scores_of(x), scores, rtol=1e-10, atol=1e-10 * np.abs(scores).max())
    assert readout.labels == classifier.labels
    assert readout.steepness == classifier.steepness
    assert (readout.familiarity(x) is None) == (classifier.familiarity(x) is None)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_parts_add_up_to_the_scores(name: str) -> None:
    readout = taught(CLASSIFIERS[name]).readout()
    x = samples(1, seed=1)[0][0]
    parts = readout.parts(x)
    if readout.metric is not None:
        assert parts is None
        return
    assert list(parts) == list(LAYERS)
    np.testing.assert_allclose(sum(parts.values()) + readout.average_scores, readout.scores_of(x[None])[0])


def test_the_average_sample_says_nothing_beyond_itself() -> None:
    classifier = taught(AutoClassifier)
    parts = classifier.readout().parts(classifier.statistics_.means.mean(axis=0))
    for said in parts.values():
        np.testing.assert_allclose(said, 0, atol=1e-9)


@pytest.mark.parametrize("classifier", [ClassCovariancesClassifier, AverageClassifier])
def test_what_is_not_linear_has_no_readout(classifier: Callable[[], SumsClassifier]) -> None:
    assert taught(classifier).readout() is None


def test_classes_that_are_equal_but_for_rounding_stay_so() -> None:
    classifier = AutoClassifier().fit([[0.1, 0.7], [0.1, 0.7], [0.9, 0.3]], ["b", "a", "c"])
    assert classifier.readout().labels[classifier.readout().scores_of(np.array([[0.1, 0.7]])).argmax()] == "a"


def test_the_sketch_is_exact_where_it_is_as_large_as_the_space() -> None:
    """The formula itself, without its error: cosines are then those of the whole classifier."""
    classifier, x = taught(AutoClassifier), samples(30, seed=1)[0]
    near = classifier.votes.nearness(32)
    assert near.sketch.shape == (32, 32)
    np.testing.assert_allclose(near.familiarity(x), classifier.familiarity(x), atol=1e-4)


@pytest.mark.parametrize("count", [20, 2000])
def test_sketched_lengths_have_the_error_that_is_said(count: int) -> None:
    """1/√(2r), for samples few and many: measured over samples, in 512 dimensions."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(count, 512)) + 1, np.array(["a", "b"] * (count // 2))
    classifier = AutoClassifier(1.0).fit(x, y)
    near, new = classifier.readout().nearness, rng.normal(size=(400, 512)) + 1
    assert near.sketch.shape == (512, 256)
    centre = classifier.votes._centre @ classifier.statistics_.means
    _, squares = classifier.votes.whitening.of(new - centre)
    sketched = np.linalg.norm(new @ near.sketch - near.origin, axis=1)
    errors = sketched / np.sqrt(squares) - 1
    assert np.sqrt((errors**2).mean()) < 1 / np.sqrt(2 * 256)
    assert np.abs(errors).max() < 0.2
    assert np.abs(errors).max() > 1e-3


def test_equal_sums_give_equal_sketches_and_others_do_not() -> None:
    one, two, other = (taught(AutoClassifier, count).readout().nearness for count in (40, 40, 44))
    np.testing.assert_array_equal(one.sketch, two.sketch)
    assert np.abs(one.sketch - other.sketch).max() > 0.1 * np.abs(one.sketch).max()
