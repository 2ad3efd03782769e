from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from layup.algebra.calibration import FEWEST, LEVELS, Calibration, softmax
from layup.algebra.held_out import HeldOut
from layup.errors import InputError


def judged(scores: Any, index: Any, tested: Any = None, familiarity: Any = None) -> HeldOut:
    labels = [f"c{i}" for i in range(scores.shape[1])]
    tested = np.ones(len(index), bool) if tested is None else tested
    return HeldOut(labels, np.asarray(index), tested, scores, familiarity)


def calibrated(*given: Any, **more: Any) -> Calibration:
    found = Calibration.of(judged(*given, **more))
    assert found is not None
    return found


def drawn(
    rng: np.random.Generator, samples: int, steepness: float, classes: int = 5
) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and classes that are as probable as a softmax of so many times the scores says."""
    scores = rng.normal(size=(samples, classes))
    return scores, (steepness * scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


# ---- probabilities


@pytest.mark.parametrize("steepness", [0.3, 1.0, 4.0, 20.0])
def test_the_temperature_is_the_one_that_classes_were_drawn_with(steepness: float) -> None:
    found = calibrated(*drawn(np.random.default_rng(1), 4000, steepness))
    assert found.steepness == pytest.approx(steepness, rel=0.15)


def test_no_other_temperature_that_is_tried_makes_the_classes_more_probable() -> None:
    scores, index = drawn(np.random.default_rng(2), 200, 2.0)
    found = calibrated(scores, index).steepness

    def surprise(steepness: float) -> float:
        shares = softmax(steepness * scores)
        return float(-np.log(shares[np.arange(200), index]).sum() - np.log(shares).mean())

    for factor in (0.3, 0.9, 0.94, 1.07, 1.2, 5.0):
        assert surprise(found) < surprise(found * factor)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_multiplying_all_scores_by_a_constant_changes_no_probability(factor: float) -> None:
    scores, index = drawn(np.random.default_rng(3), 300, 2.0)
    one, other = calibrated(scores, index), calibrated(factor * scores, index)
    np.testing.assert_allclose(other.probabilities(factor * scores), one.probabilities(scores))
    np.testing.assert_allclose(other.truths, one.truths)


@pytest.mark.parametrize("samples", [FEWEST, 100, 10_000])
def test_nothing_is_certain_even_if_all_samples_were_right(samples: int) -> None:
    index = np.arange(samples) % 4
    scores = np.eye(4)[index]
    sure = calibrated(scores, index).probabilities(scores[:1]).max()
    assert 1 - 2 / samples < sure < 1 - 0.2 / samples


def test_scores_that_say_nothing_give_equal_probabilities() -> None:
    index = np.arange(60) % 3
    found = calibrated(np.eye(3)[(index + np.arange(60) // 3) % 3], index)
    np.testing.assert_allclose(found.probabilities(np.eye(3)), 1 / 3, atol=0.02)
    assert calibrated(np.zeros((60, 3)), index).probabilities(np.zeros((1, 3))).tolist() == [[1 / 3] * 3]


def test_one_class_is_certain() -> None:
    found = calibrated(np.linspace(-1, 1, 20)[:, None], np.zeros(20, int))
    assert found.probabilities(np.array([[0.3], [-5.0]])).tolist() == [[1.0], [1.0]]
    assert found.set_threshold(0.9) == 1.0


def test_classes_that_cannot_be_predicted_have_no_probability() -> None:
    """Declared classes have scores of −∞."""
    shares = softmax(np.array([[1.0, -np.inf, 1.0], [-np.inf, -np.inf, -1000.0]]))
    assert shares.tolist() == [[0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]
    assert softmax(np.zeros((0, 3))).shape == (0, 3)


# ---- too few


def test_samples_that_were_not_tested_do_not_count() -> None:
    scores, index = drawn(np.random.default_rng(4), 50, 2.0)
    familiarity, tested = np.linspace(0, 1, 50), np.arange(50) % 2 == 0
    scores[~tested], familiarity[~tested] = -np.inf, np.nan
    found = calibrated(scores, index, tested, familiarity)
    assert found == calibrated(scores[tested], index[tested], None, familiarity[tested])
    assert found.tested == 25


def test_few_samples_say_nothing_of_probabilities() -> None:
    scores, index = drawn(np.random.default_rng(5), FEWEST, 2.0)
    assert calibrated(scores, index).enough
    assert not calibrated(scores[1:], index[1:]).enough


@pytest.mark.parametrize("classes", [1, 5])
def test_a_single_sample_says_how_familiar_it_is(classes: int) -> None:
    scores, index = drawn(np.random.default_rng(5), 3, 2.0, classes)
    found = calibrated(scores, index, np.arange(3) == 1, np.array([np.nan, 0.25, np.nan]))
    assert (found.tested, found.familiar, found.enough) == (1, [0.25] * len(LEVELS), False)


def test_without_samples_there_is_no_calibration() -> None:
    scores, index = drawn(np.random.default_rng(5), FEWEST, 2.0)
    assert Calibration.of(judged(scores, index, np.zeros(FEWEST, bool))) is None
    assert Calibration.of(judged(scores[:0], index[:0])) is None


# ---- sets of labels


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("samples", [30, 300])
def test_sets_hold_the_truth_as_often_as_promised(samples: int, coverage: float) -> None:
    """Over many splits of exchangeable samples; a little more often, as few samples allow no finer step."""
    rng = np.random.default_rng(6)
    held = []
    for _ in range(200):
        scores, index = drawn(rng, samples + 200, 2.0)
        found = calibrated(scores[:samples], index[:samples])
        shares = found.probabilities(scores[samples:])
        truths = shares[np.arange(200), index[samples:]]
        held.append((truths >= found.set_threshold(coverage)).mean())
    # One step is a sample, or a level at which quantiles are kept, whichever is coarser.
    assert coverage - 0.01 < np.mean(held) < coverage + 2 / samples + 1 / len(LEVELS) + 0.01


def test_the_least_probability_is_that_of_a_sample() -> None:
    scores, index = drawn(np.random.default_rng(7), 40, 2.0)
    found = calibrated(scores, index)
    truths = np.sort(found.probabilities(scores)[np.arange(40), index])
    for left, coverage in ((1, 1 - 1 / 41), (4, 1 - 4 / 41), (8, 0.8)):
        assert found.set_threshold(coverage) == truths[left - 1]
    assert found.set_threshold(0.99) == 0  # 40 samples cannot promise this: all labels are in the set
    assert found.set_threshold(0.5) >= found.set_threshold(0.9)


def test_probabilities_next_to_one_are_not_rounded_up() -> None:
    """What is that probable must be in a set that holds nearly all truths."""
    scores = np.array([[1.0, 0.0]] * 400 + [[60.0, 0.0]] * 400)
    found = calibrated(scores, [1] * 160 + [0] * 640)
    shares = found.probabilities(np.array([[60.0, 0.0]]))
    assert 1 - 1e-6 < shares.max() < 1
    assert shares.max() >= found.set_threshold(0.3) > 0.9


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 2.0, np.nan])
def test_shares_are_between_zero_and_one(value: float) -> None:
    found = calibrated(*drawn(np.random.default_rng(1), 20, 2.0))
    with pytest.raises(InputError, match=r"^coverage = .* is impossible: give a number between 0 and 1\."):
        found.set_threshold(value)


# ---- as files have it


@pytest.mark.parametrize("familiarity", [None, np.linspace(-1, 1, 30)], ids=["without", "with"])
def test_what_was_written_as_json_is_read_again(familiarity: Any) -> None:
    found = calibrated(*drawn(np.random.default_rng(10), 30, 2.0), familiarity=familiarity)
    assert Calibration.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("steepness", 0, "steepness is 0, not a positive number"),
        ("steepness", "1", "steepness is '1', not a positive number"),
        ("steepness", float("nan"), "steepness is nan, not a positive number"),
        ("tested", 0, "tested is 0, not a whole number from 1"),
        ("tested", 30.0, "tested is 30.0, not a whole number"),
        ("truths", [0.5] * 200, "truths is .* ascending"),
        ("truths", [0.5] * 200 + [0.4], "truths is .* ascending"),
        ("truths", [*[0.5] * 200, 1.5], "truths is .*from 0 to 1"),
        ("truths", None, "truths is None"),
        ("familiar", [0.5], "familiar is .* or null"),
        ("familiar", [-2.0, *[0.5] * 200], "familiar is .*from -1 to 1"),
        ("more", 1, "has a field 'more', which is unknown"),
    ],
)
def test_what_is_no_calibration_is_refused(field: str, value: Any, says: str) -> None:
    good = calibrated(*drawn(np.random.default_rng(11), 30, 2.0), familiarity=np.linspace(-1, 1, 30))
    with pytest.raises(ValueError, match=says):
        Calibration.from_dict({**good.to_dict(), field: value})
    lacking = good.to_dict()
    lacking.pop(field, None)
    if field in good.to_dict():
        with pytest.raises(ValueError, match=f"no field '{field}'"):
            Calibration.from_dict(lacking)
