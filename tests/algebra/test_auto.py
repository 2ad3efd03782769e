from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import oracle
from layup.algebra.auto import AutoClassifier, Prior, Votes, stronger
from layup.algebra.kinds import restored
from layup.algebra.statistics import GramStatistics
from layup.errors import InputError

LAYERS = {"shallow": 3, "middle": 5, "deep": 4}
WIDTHS = [*LAYERS.values()]
DIM = 12
SIZES = np.repeat([200.0, 0.01, 3.0], WIDTHS)
COLUMNS = np.repeat([0, 1, 2], WIDTHS)
"""The layer of each column."""


def layered(counts: list[int], seed: int = 4, spread: float = 1.0) -> tuple[Any, Any]:
    """Samples whose layers differ in scale."""
    x, y = oracle.blobs(np.random.default_rng(seed), counts, DIM, spread)
    return x * SIZES, y


def learned(x: Any, y: Any) -> AutoClassifier:
    model = AutoClassifier()
    model.adopt(GramStatistics(LAYERS))
    return model.learn_rows(np.asarray(x), np.asarray(y))


def probes() -> Any:
    return 2 * SIZES * np.random.default_rng(9).normal(size=(40, DIM))


def assert_same(a: AutoClassifier, b: AutoClassifier, probes_of_b: Any = 1.0, rtol: float = 1e-6) -> None:
    """Equal scores, familiarity and predictions; probes may be in other units for the second."""
    one, other = a.scores_of(probes()), b.scores_of(probes() * probes_of_b)
    np.testing.assert_allclose(other, one, rtol=rtol, atol=rtol)
    assert oracle.least_lead(one) > rtol  # no prediction is a matter of rounding
    assert (one.argmax(axis=1) == other.argmax(axis=1)).all()
    found = a.familiarity(probes()), b.familiarity(probes() * probes_of_b)
    np.testing.assert_allclose(*found, rtol=rtol, atol=rtol)


# ---- the formula

EQUAL, UNEQUAL = [12, 12, 12], [3, 30, 9, 5, 1]
FEW = [3, 2, 4]


@pytest.mark.parametrize("counts", [EQUAL, UNEQUAL, FEW, [2, 2], [200, 300]], ids=str)
def test_scores_and_familiarity_are_those_of_the_formula(counts: list[int]) -> None:
    x, y = layered(counts)
    prior, total = oracle.auto_prior(x, y, WIDTHS), sum(counts)
    centre = total / (total + 5)
    ridge, cosine, *at_means = oracle.two_votes(x, y, probes(), prior, total / len(counts), centre)
    expected = sum(
        vote / 2 / oracle.mean_margin(means) for vote, means in zip((ridge, cosine), at_means, strict=True)
    )
    model = learned(x, y)
    np.testing.assert_allclose(model.scores_of(probes()), expected, rtol=1e-8, atol=1e-10)
    found = model.familiarity(probes())
    np.testing.assert_allclose(found, oracle.familiarity(x, y, probes(), prior, centre), rtol=1e-8)
    assert (np.abs(found) <= 1).all()
    assert model.in_force() == {"lambda": pytest.approx(prior[1])}


def test_with_one_sample_per_class_values_vary_around_the_mean_of_all() -> None:
    x, y = layered([1, 1, 1, 1])
    prior = Prior.of(learned(x, y).statistics_)
    variances = [((x - x.mean(axis=0)) ** 2).sum(axis=0)[layer == COLUMNS].mean() for layer in range(3)]
    expected = np.array(variances) * [3**2, 3, 1]  # γ = 1 + 4 / 2
    np.testing.assert_allclose(prior.scale**2, np.repeat(expected, WIDTHS))
    share = np.mean(((x - x.mean(axis=0)) ** 2).sum(axis=0) / prior.scale**2)
    assert prior.lam == pytest.approx(3 * share)  # d / N = 12 / 4


def test_a_single_sample_varies_around_zero() -> None:
    x, y = layered([1])
    prior = Prior.of(learned(x, y).statistics_)
    expected = [(x[0][layer == COLUMNS] ** 2).mean() * 3 ** (2 - layer) for layer in range(3)]
    np.testing.assert_allclose(prior.scale**2, np.repeat(expected, WIDTHS))


# ---- no unit is better than another


@pytest.mark.parametrize("counts", [EQUAL, UNEQUAL, FEW, [1, 1, 1, 1], [6]], ids=str)
@pytest.mark.parametrize("factor", [1e-30, 1e-3, 7.0, 1e30])
def test_multiplying_all_features_by_a_constant_changes_no_score(counts: list[int], factor: float) -> None:
    x, y = layered(counts)
    assert_same(learned(x, y), learned(factor * x, y), factor)


@pytest.mark.parametrize("counts", [EQUAL, UNEQUAL, FEW, [1, 1, 1, 1], [6]], ids=str)
@pytest.mark.parametrize("factor", [1e-30, 1e-3, 7.0, 1e30])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_multiplying_one_layer_by_a_constant_changes_no_score(
    counts: list[int], factor: float, layer: int
) -> None:
    x, y = layered(counts)
    factors = np.where(layer == COLUMNS, factor, 1.0)
    assert_same(learned(x, y), learned(factors * x, y), factors)


@pytest.mark.parametrize("factor", [1e-30, 1e-3, 7.0, 1e30])
def test_multiplying_repeated_samples_by_a_constant_changes_no_score(factor: float) -> None:
    """Nothing varies within classes, but for rounding."""
    x, y = layered([1, 1, 1])
    x, y = np.repeat(x, 7, axis=0), np.repeat(y, 7)
    assert_same(learned(x, y), learned(factor * x, y), factor)
    assert learned(factor * x, y).predict(factor * x).tolist() == y.tolist()


# ---- whatever the order


@given(
    order=st.permutations(range(24)),
    cut=st.integers(1, 23),
    dropped=st.lists(st.integers(0, 23), max_size=6, unique=True),
)
def test_order_shards_and_what_was_forgotten_make_no_difference(
    order: list[int], cut: int, dropped: list[int]
) -> None:
    x, y = layered([9, 7, 8])
    first, second = order[:cut], order[cut:]
    merged = learned(x[first], y[first])
    merged.absorb(learned(x[second], y[second]).statistics_)
    assert_same(learned(x, y), merged)
    kept = np.setdiff1d(np.arange(24), dropped)
    if dropped:
        merged.revert(x[dropped], y[dropped])
    assert_same(learned(x[kept], y[kept]), merged)


def test_forgetting_one_sample_after_another_down_to_the_last_never_fails() -> None:
    x, y = layered([20, 20, 20])
    x += 1e4 * SIZES  # far from zero, so that sums lose digits
    model = learned(x, y)
    for i in range(59):
        model.revert(x[[i]], y[[i]])
        assert np.isfinite(model.scores_of(x)).all()
    assert model.predict(x).tolist() == [y[59]] * 60


@pytest.mark.parametrize("counts", [EQUAL, [2, 2, 2], [1, 1, 1]], ids=str)
def test_what_is_left_of_a_dropped_class_does_not_keep_others_from_being_predicted(counts: list[int]) -> None:
    x, y = layered(counts, spread=0.1)
    model = learned(x, y)
    model.adopt(model.statistics_.without_class("c01"))
    rest = y != "c01"
    assert model.predict(x[rest]).tolist() == y[rest].tolist()
    assert np.isfinite(model.familiarity(x)).all()
    assert np.isfinite(model.held_out(x[rest], y[rest]).scores[:, 0]).any() == (counts[0] > 1)


# ---- odd data


def test_one_class_is_all_that_can_be_predicted() -> None:
    x, y = layered([6])
    model = learned(x, y)
    assert model.predict(probes()).tolist() == ["c00"] * 40
    assert (model.familiarity(x) > model.familiarity(-x)).all()


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e20])
@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("counts", [[20, 30, 25], FEW, [1, 1, 1]], ids=str)
def test_a_layer_that_is_the_same_for_all_samples_spoils_nothing(
    counts: list[int], layer: int, value: float
) -> None:
    x, y = layered(counts, spread=0.1)
    x[:, layer == COLUMNS] = value
    model = learned(x, y)
    assert model.predict(x).tolist() == y.tolist()
    assert np.isfinite(model.familiarity(x)).all()


def test_features_of_zeros_say_nothing() -> None:
    model = learned(np.zeros((4, DIM)), list("abab"))
    assert (model.scores_of(probes()) == 0).all()
    assert (model.familiarity(probes()) == 0).all()
    assert model.predict(probes()).tolist() == ["a"] * 40
    assert model.held_out(np.zeros((4, DIM)), np.array(list("abab"))).scores.tolist() == [[0.0, 0.0]] * 4


def test_classes_with_equal_means_have_equal_scores() -> None:
    x, y = layered([6, 9])
    model = learned(np.concatenate([x, x[y == "c00"]]), np.concatenate([y, ["c02"] * 6]))
    scores = model.scores_of(probes())
    np.testing.assert_allclose(scores[:, 2], scores[:, 0], rtol=1e-9, atol=1e-9)
    alone = learned(np.concatenate([x, x]), np.repeat(["a", "b"], 15)).scores_of(probes())
    np.testing.assert_allclose(alone[:, 1], alone[:, 0], rtol=1e-9, atol=1e-9)


def test_a_class_whose_mean_is_the_centre_has_no_direction() -> None:
    """Its scores are zero, not rounding divided by rounding."""
    x, _ = layered([4])
    x -= x.mean(axis=0)
    model = learned(np.concatenate([x + SIZES, x, x - SIZES]), np.repeat(["a", "b", "c"], 4))
    np.testing.assert_allclose(model.scores_of(probes())[:, 1], 0, atol=1e-9)
    assert model.predict([SIZES, -SIZES]).tolist() == ["a", "c"]
    np.testing.assert_allclose(model.familiarity(x.mean(axis=0, keepdims=True)), 0, atol=1e-9)


@pytest.mark.parametrize("size", [0.0, 1e-200, 1e-160, 1e-100, 1e-60, 1e-30, 1e-12])
def test_class_sums_next_to_nothing_have_finite_scores(size: float) -> None:
    """As in a forged file: photos never have them."""
    header, arrays = learned(*layered(UNEQUAL)).statistics_.state()
    signs = np.sign(np.random.default_rng(1).normal(size=arrays["prototypes"].shape))
    model = AutoClassifier()
    model.adopt(GramStatistics.from_state(header, {**arrays, "prototypes": size * signs}))
    assert np.isfinite(model.scores_of(probes())).all()
    assert np.isfinite(model.familiarity(probes())).all()


def test_repeated_samples_count_as_samples() -> None:
    x, y = layered([5, 4, 6])
    twice = learned(np.repeat(x, 2, axis=0), np.repeat(y, 2))
    assert twice.statistics_.total == 30
    assert twice.predict(x).tolist() == learned(x, y).predict(x).tolist()


# ---- as the other classifiers are


def test_nothing_is_solved_before_it_is_used() -> None:
    x, y = layered(EQUAL)
    model = learned(x, y)
    assert model.in_force()["lambda"] > 0
    assert not model.ready
    model.scores_of(x)
    assert model.ready
    assert not model.learn_rows(x, y).ready


def test_its_state_is_that_of_the_sums() -> None:
    model = learned(*layered(UNEQUAL))
    header, sums = model.state()
    made_with = {"kind": "auto", "strength": "search"}
    assert header == {"classifier": made_with, "chosen": {"strength": 1.0}}
    again = restored(json.loads(json.dumps(header)), GramStatistics.from_state(*sums.state()))
    assert isinstance(again, AutoClassifier)
    np.testing.assert_array_equal(again.scores_of(probes()), model.scores_of(probes()))


def faint(count: int, seed: int = 0, width: int = 40) -> tuple[Any, Any]:
    """Samples whose classes differ in values that vary little, among many that only vary."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 3
    x = 10 * rng.normal(size=(count, width))
    x[:, :2] = np.eye(3, 2)[y] + 0.1 * rng.normal(size=(count, 2))
    return x, y


def test_what_is_right_is_told_by_leaving_one_out() -> None:
    """The decision of `stronger`, with what refitting without each sample says."""
    x, y = faint(210)
    sums = GramStatistics(x.shape[1])
    sums.update(x, y)
    prior = Prior.of(sums)

    def right(strength: float) -> Any:
        votes, scores = Votes(sums, prior.times(strength)), []
        for row in range(len(y)):
            rest = GramStatistics(x.shape[1])
            rest.update(np.delete(x, row, axis=0), np.delete(y, row))
            twin = Votes(rest, prior.times(strength))
            vars(twin)["_mix"] = votes._mix
            weights, offsets = twin.weights_and_offsets
            scores.append(x[row] @ weights + offsets)
        return np.argmax(scores, axis=1) == y

    assert AutoClassifier().fit(x, y).chosen() == {"strength": stronger(right)}


def test_the_strength_is_found_and_stays() -> None:
    (x, y), new = faint(240), faint(300, seed=1)
    model = AutoClassifier().fit(x, y)
    found = model.chosen()
    assert found["strength"] < 0.1
    assert model.score(*new) > 0.1 + AutoClassifier(strength=1).fit(x, y).score(*new)
    model.partial_fit(x[:20], y[:20])  # too few to tell
    assert model.chosen() == found
    merged = AutoClassifier().fit(x[:20], y[:20])
    merged.adopt_merged(merged.statistics_ + model.statistics_, model)
    assert merged.chosen() == found
    half = model.with_parameters(strength=0.5).in_force()["lambda"]
    assert half == pytest.approx(0.5 * Prior.of(model.statistics_).lam)


def test_a_few_samples_in_their_span_have_the_strength_that_their_sums_have() -> None:
    x, y = faint(260, width=300)
    x[:, 2:] /= np.arange(3, 301)
    whole, few = AutoClassifier().fit(x[:10], y[:10]), AutoClassifier().fit(x[:10], y[:10])
    whole.statistics_.state()  # writing a file adds all samples to G
    assert whole.statistics_.rows is None
    assert few.statistics_.rows is not None
    strengths = {str(each.partial_fit(x[10:], y[10:]).chosen()) for each in (whole, few)}
    assert strengths == {str(AutoClassifier().fit(x, y).chosen())}
    assert strengths != {str({"strength": 1.0})}


@pytest.mark.parametrize("strength", [0, -1.0, "gcv", None, np.nan])
def test_what_is_no_strength_is_refused(strength: Any) -> None:
    with pytest.raises(InputError, match=r"strength = .* cannot be used"):
        AutoClassifier(strength).fit([[1.0], [2.0]], ["cat", "dog"])


def test_without_any_class_nothing_is_familiar() -> None:
    model = AutoClassifier()
    model.adopt(GramStatistics(LAYERS))
    assert model.in_force() == {}
    for verb in (model.scores_of, model.familiarity):
        with pytest.raises(InputError, match="Cannot predict: no class was learned"):
            verb(probes())


# ---- each sample without itself


@pytest.mark.parametrize("counts", [EQUAL, UNEQUAL, FEW, [2, 2], [2, 1, 1]], ids=str)
def test_held_out_scores_are_those_of_learning_again_without_the_sample(counts: list[int]) -> None:
    x, y = layered(counts)
    model = learned(x, y)
    held, prior, mix = model.held_out(x, y), model.votes.prior, model.votes._mix
    for row, label in enumerate(y):
        if not held.tested[row]:
            continue
        kept = np.arange(len(y)) != row
        without = GramStatistics(LAYERS)
        without.update(x[kept], y[kept])
        again = Votes(without, prior)
        vars(again)["_mix"] = mix  # in the place of the cached one: the weights of the votes stay
        weights, offsets = again.weights_and_offsets
        np.testing.assert_allclose(held.scores[row], x[row] @ weights + offsets, rtol=1e-7, atol=1e-9)
        assert held.familiarity is not None
        assert held.familiarity[row] == pytest.approx(again.familiarity(x[[row]])[0], rel=1e-7)
        assert held.labels[held.index[row]] == label


def test_held_out_scores_are_those_of_the_formula_without_the_sample() -> None:
    x, y = layered(UNEQUAL)
    model = learned(x, y)
    held, prior, mix = model.held_out(x, y), model.votes.prior, model.votes._mix
    for row in np.flatnonzero(held.tested)[:10]:
        rest, labels = np.delete(x, row, axis=0), np.delete(y, row)
        given = (prior.scale**2, prior.lam), prior.size, prior.centre
        votes = oracle.two_votes(rest, labels, x[[row]], *given)
        expected = mix[0] * votes[0] + mix[1] * votes[1]
        np.testing.assert_allclose(held.scores[[row]], expected, rtol=1e-7, atol=1e-9)
