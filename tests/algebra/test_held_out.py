from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oracle
from layup.algebra.auto import AutoClassifier
from layup.algebra.discriminant import DiscriminantClassifier
from layup.algebra.held_out import HeldOut
from layup.algebra.nearest_mean import NearestMeanClassifier
from layup.algebra.ridge_classifier import HeldOutRidgeClassifier, RidgeClassifier
from layup.algebra.samples import CHUNK
from layup.errors import InputError

JUDGES = [AutoClassifier(), RidgeClassifier(0.3), RidgeClassifier(0.3, balance=True)]
every_judge = pytest.mark.parametrize("model", JUDGES, ids=repr)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(8)


@pytest.mark.parametrize("dim", [5, 40])
@pytest.mark.parametrize("lam", [1e-6, 0.1, 30.0])
@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("counts", [[6, 6, 6], [2, 13, 1, 5], [2, 2], [9]], ids=str)
def test_ridge_scores_are_those_of_learning_again_without_the_sample(
    counts: list[int], balance: bool, lam: float, dim: int, rng: np.random.Generator
) -> None:
    x, y = oracle.blobs(rng, counts, dim)
    held = RidgeClassifier(lam, balance=balance).fit(x, y).held_out(x, y)
    assert held is not None
    for row in np.flatnonzero(held.tested):
        _, weights = oracle.classifier(np.delete(x, row, axis=0), np.delete(y, row), lam, balance)
        np.testing.assert_allclose(held.scores[row], x[row] @ weights, rtol=1e-5, atol=1e-7)
    assert held.familiarity is None


def test_ridge_scores_are_exact_down_to_the_smallest_lambda_that_is_judged(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [6, 6, 6], 40)
    lam = 1.1e6 * np.finfo(float).eps * (x**2).sum()
    held = RidgeClassifier(lam).fit(x, y).held_out(x, y)
    assert held is not None
    for row in range(18):
        _, weights = oracle.classifier(np.delete(x, row, axis=0), np.delete(y, row), lam)
        np.testing.assert_allclose(held.scores[row], x[row] @ weights, rtol=1e-3, atol=1e-3)


def test_where_lambda_is_rounding_nothing_can_be_told(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [6, 6], 4)
    for model in (RidgeClassifier(0), RidgeClassifier(1e-12), RidgeClassifier(1.0, precision="float32")):
        assert model.fit(x, y).held_out(x, y) is None
    for model in (NearestMeanClassifier(), DiscriminantClassifier()):
        assert model.fit(x, y).held_out(x, y) is None
        assert model.familiarity(x) is None
    assert HeldOutRidgeClassifier(1.0).fit(x, y).held_out(x, y) is not None


@every_judge
def test_the_only_sample_of_its_class_is_not_tested(model: Any, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [4, 1, 5, 1], 6)
    held = model.fit(x, y).held_out(x, y)
    alone = np.isin(y, ["c01", "c03"])
    assert held.tested.tolist() == (~alone).tolist()
    assert np.isneginf(held.scores[alone]).all()
    assert np.isfinite(held.scores[~alone]).all()
    assert not held.right[alone].any()
    assert np.isnan(held.margin).tolist() == alone.tolist()
    if held.familiarity is not None:
        assert np.isnan(held.familiarity).tolist() == alone.tolist()
    single = model.fit(x[:1], y[:1]).held_out(x[:1], y[:1])
    assert single.tested.tolist() == [False]


@every_judge
def test_some_learned_samples_are_judged_as_all_are(model: Any, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [40, 30, 50], 6)
    model.fit(x, y)
    held, some = model.held_out(x, y), model.held_out(x[50:60].astype(np.float32).astype(float), y[50:60])
    np.testing.assert_allclose(some.scores, held.scores[50:60], rtol=1e-4, atol=1e-5)
    none = model.held_out(x[:0], y[:0])
    assert none.scores.shape == (0, 3)
    assert none.right.tolist() == []


@every_judge
def test_more_samples_than_a_chunk_are_judged_chunk_by_chunk(model: Any, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [CHUNK - 3, CHUNK + 9, 1], 4)
    x = x.astype(np.float32)  # as networks give them
    model.fit(x, y)
    held = model.held_out(x, y)
    for rows in (slice(0, 5), slice(CHUNK - 2, CHUNK + 2), slice(-3, None)):
        part = model.held_out(x[rows], y[rows])
        np.testing.assert_allclose(part.scores, held.scores[rows], rtol=1e-9, atol=1e-12)


@every_judge
def test_an_unknown_label_is_refused(model: Any, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [4, 5], 6)
    model.fit(x, y)
    with pytest.raises(InputError, match="Samples of 'zebra' cannot be judged: that class was not learned"):
        model.held_out(x[:2], np.array(["zebra", "c00"]))


@every_judge
def test_what_could_not_have_been_learned_is_refused(model: Any, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [4, 5], 6)
    model.fit(x, y)
    with pytest.raises(InputError, match="These features have 5 values but the model was built with 6"):
        model.held_out(x[:, :5], y)
    with pytest.raises(InputError, match="There are 9 feature vectors but 8 labels"):
        model.held_out(x, y[:8])
    with pytest.raises(InputError, match="row 0 holds NaN or infinity"):
        model.held_out(np.nan * x, y)


@every_judge
def test_a_repeated_photo_is_judged_by_its_twin(model: Any, rng: np.random.Generator) -> None:
    """Far from all others of its class, and near another: only the twin says which class it is of."""
    x, y = oracle.blobs(rng, [20, 20], 30, spread=0.1)
    odd = x[y == "c01"][:1] + 0.05
    once = model.fit(np.concatenate([x, odd]), [*y, "c00"]).held_out(odd, np.array(["c00"]))
    twice = model.fit(np.concatenate([x, odd, odd]), [*y, "c00", "c00"]).held_out(odd, np.array(["c00"]))
    assert once.margin[0] < 0
    assert once.margin[0] < twice.margin[0]
    assert np.isfinite(twice.scores).all()


@every_judge
def test_labels_may_be_numbers(model: Any, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [6, 5, 7], 4, spread=0.1)
    numbers = np.array([10 * int(label[1:]) - 10 for label in y])
    held = model.fit(x, numbers).held_out(x, numbers)
    assert held.labels == [-10, 0, 10]
    assert np.array(held.labels)[held.index].tolist() == numbers.tolist()
    assert held.right.all()


def test_margins_are_leads_over_the_best_other_class() -> None:
    scores = np.array([[3.0, 1.0, 2.5], [3.0, 1.0, 2.5], [-np.inf] * 3])
    held = HeldOut(["a", "b", "c"], np.array([0, 1, 2]), np.array([True, True, False]), scores)
    assert held.right.tolist() == [True, False, False]
    np.testing.assert_array_equal(held.margin, [0.5, -2.0, np.nan])
    before = scores.copy()
    np.testing.assert_array_equal(held.scores, before)


def test_a_single_class_beats_nothing() -> None:
    held = HeldOut(["a"], np.array([0, 0]), np.array([True, True]), np.array([[0.5], [-1.0]]))
    assert held.right.all()
    assert np.isposinf(held.margin).all()
