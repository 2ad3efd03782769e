"""What learning and all else will take grows with what decides it."""

from __future__ import annotations

from typing import Any

import pytest

from layup.algebra import forecasts
from layup.algebra.class_sums import ClassSums
from layup.algebra.forecasts import (
    forecast_class_sums,
    forecast_learning,
    forecast_merging,
    forecast_reverting,
    forecast_solving,
)
from layup.algebra.held_out_search import search_values as held_out_values
from layup.algebra.lambda_search import search_values
from layup.algebra.statistics import GramStatistics


def searched(dim: int, classes: int, samples: int, known: int = 0, **more: Any) -> int:
    values = search_values(more.get("solved", dim), classes, samples, known)
    return forecast_learning(dim, classes, samples, search=values, **more).total


def test_only_a_search_needs_more_for_more_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "SOLVING", 1)  # so that the search is what takes most
    plain = [forecast_learning(2000, 10, n).total for n in (2_000, 200_000)]
    assert plain[0] == plain[1]
    searching = [searched(2000, 10, n) for n in (500, 2_000, 20_000, 200_000, 10**7)]
    assert searching == sorted(searching)
    assert searching[-2] == searching[-1]  # all else is on the disk
    assert searching[1] > plain[0]
    assert searched(2000, 10, 500, known=10**6) > searching[0]  # there is more to factorise than the samples


def test_wider_features_more_classes_and_more_digits_need_more() -> None:
    base = searched(2000, 10, 5000)
    assert searched(2500, 10, 5000) > base
    assert searched(2000, 500, 5000) > base
    assert searched(2000, 10, 5000, precision="float32") < base
    assert searched(2000, 10, 5000, solved=500) < base
    assert forecast_class_sums(2000, 10, 5000).total < base / 5


def test_a_held_out_search_holds_its_samples_twice_and_the_smaller_matrix_three_times() -> None:
    assert held_out_values(100, 10) == 2 * 10 * 100 + 3 * 8**2
    assert held_out_values(100, 1000) == 2 * 1000 * 100 + 3 * 100**2


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_solving_reverting_and_merging_need_more_with_g_and_with_a_base(precision: str) -> None:
    gram, plain = GramStatistics(300, precision), ClassSums(300, precision)
    for forecast in (
        lambda sums: forecast_solving(sums, sums.dim, 10),
        lambda sums: forecast_reverting(sums, 10),
        lambda sums: forecast_merging(sums, 10, base=False),
        lambda sums: forecast_merging(sums, 10, base=True),
    ):
        assert forecast(gram).total > forecast(plain).total > 0
        assert forecast(GramStatistics(600, precision)).total > forecast(gram).total
    for sums in (gram, plain):
        assert forecast_merging(sums, 10, base=True).total >= forecast_reverting(sums, 10).total
        assert forecast_merging(sums, 20, base=False).total > forecast_merging(sums, 10, base=False).total
    assert forecast_merging(gram, 10, base=True).total > forecast_merging(gram, 10, base=False).total
    assert forecast_solving(gram, 100, 10).total < forecast_solving(gram, 300, 10).total
