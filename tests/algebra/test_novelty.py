"""How probable it is that a sample is of none of the learned classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from layup.algebra.calibration import LEVELS, Calibration
from layup.algebra.novelty import SPREAD, TRUST, Novelty

ASKED = np.linspace(-1, 1, 201)


def said(tested: int, familiar: Any) -> Calibration:
    """What so many samples said that are as familiar as these."""
    quantiles = np.quantile(familiar, LEVELS, method="lower").tolist()
    return Calibration(1.0, tested, [0.5] * len(LEVELS), quantiles)


def expected(familiarity: float, classes: int, familiar: list[float]) -> float:
    """The formula, from the sorted familiarities of judged samples themselves."""
    count = len(familiar)
    typical = 0.3 + 0.05 * math.log(classes)
    least = typical - 0.25
    if count:
        middle, low = familiar[(count - 1) // 2], familiar[math.floor(0.05 * (count - 1))]
        typical = (count * middle + 2 * typical) / (count + 2)
        least = (count * low + 2 * least) / (count + 2)
    return 1 / (1 + math.exp(-1.3 * (least - familiarity) / (typical - least)))


@pytest.mark.parametrize("classes", [1, 2, 100])
@pytest.mark.parametrize("count", [0, 1, 2, 9, 40, 501])
def test_probabilities_are_those_of_the_formula(classes: int, count: int) -> None:
    familiar = np.sort(np.random.default_rng(count).uniform(-0.2, 0.9, count)).tolist()
    found = Novelty.of(classes, said(count, familiar) if count else None).probabilities(ASKED)
    np.testing.assert_allclose(found, [expected(each, classes, familiar) for each in ASKED], rtol=1e-9)


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**12),
    st.lists(st.floats(-1, 1), min_size=1, max_size=30),
    st.lists(st.floats(-1, 1), min_size=2, max_size=30),
)
def test_they_are_from_0_to_1_and_fall_where_a_sample_is_more_familiar(
    classes: int, tested: int, familiar: list[float], asked: list[float]
) -> None:
    found = Novelty.of(classes, said(tested, familiar)).probabilities(np.sort(asked))
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert (found <= 1).all()
    assert (np.diff(found) <= 0).all()


@pytest.mark.parametrize("familiar", [-1.0, 0.0, 0.4, 1.0])
def test_equal_samples_do_not_divide_by_zero(familiar: float) -> None:
    found = Novelty.of(1, said(10**300, [familiar]))
    less, more = found.probabilities(np.array([familiar - 0.01, familiar + 0.01]))
    assert (less, more) == pytest.approx((1, 0))


def test_many_judged_samples_reject_one_in_twenty_of_their_kind() -> None:
    familiar = np.random.default_rng(8).uniform(-1, 1, 2000)
    rejected = Novelty.of(7, said(2000, familiar)).probabilities(familiar) > 0.5
    assert rejected.mean() == pytest.approx(0.05, abs=0.002)


def test_each_judged_sample_has_more_of_the_say() -> None:
    """From what holds of any network to what this model's samples say, without a jump."""
    familiar = np.linspace(0.5, 0.9, 41)
    prior, judged = Novelty.of(3), (0.7, 0.52)
    for tested in (1, 2, 10, 1000):
        found, share = Novelty.of(3, said(tested, familiar)), tested / (tested + TRUST)
        for now, before, after in zip(
            (found.typical, found.least), (prior.typical, prior.least), judged, strict=True
        ):
            assert now == pytest.approx(before + share * (after - before))


def test_a_classifier_that_cannot_say_how_familiar_samples_are_changes_nothing() -> None:
    silent = Calibration(1.0, 40, [0.5] * len(LEVELS), None)
    assert Novelty.of(4, silent) == Novelty.of(4)


def test_with_more_classes_more_is_expected_of_a_sample() -> None:
    found = [Novelty.of(classes) for classes in (1, 2, 10, 1000)]
    assert [each.least for each in found] == sorted(each.least for each in found)
    assert all(each.typical - each.least == pytest.approx(SPREAD) for each in found)
