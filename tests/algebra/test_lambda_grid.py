from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from layup.algebra.lambda_grid import LAMBDAS, SEARCHES, Grid, LambdaSearch


def measured_by(accuracy: dict[float, int], asked: list[float]) -> Any:
    """Accuracies in hundredths, zero where none is given; notes which λ are asked for."""

    def measured(lams: Any) -> list[Fraction]:
        asked.extend(lams)
        return [Fraction(accuracy.get(round(lam, 12), 0), 100) for lam in lams]

    return measured


@pytest.mark.parametrize(
    ("accuracy", "trace", "best", "further"),
    [
        ({10.0: 50}, 1e9, 10.0, []),  # inside
        ({1e3: 50}, 1e9, 1e3, [3.5, 4]),  # the end is best
        ({1e3: 50, 1e4: 60}, 1e9, 1e4, [3.5, 4, 4.5, 5]),
        ({1e3: 50, 1e4: 50}, 1e9, 1e3, [3.5, 4]),  # the same is not better
        ({1e3: 50, 1e4: 60, 1e5: 60, 1e6: 70}, 1e9, 1e4, [3.5, 4, 4.5, 5]),
        ({1e3: 50, 1e4: 60}, 9e2, 1e3, [3.5]),  # ten traces are the most
        ({1e3: 50, 1e4: 60}, 99.0, 1e3, []),
        ({1e-4: 50, 1e-5: 60}, 1.0, 1e-5, [-5, -4.5, -6, -5.5]),  # the gap
        ({1e-8: 50, 1e-7: 60}, 1.0, 1e-7, [-9, -8.5, -7.5, -7, -6.5, -6]),
        ({1e-8: 50, 1e-9: 60}, 1.0, 1e-9, [-9, -8.5, -7.5, -7, -10, -9.5]),
        ({1e-8: 50, 1e-9: 60}, 4e7, 1e-8, [-7.5, -7]),  # less is rounding
        (dict.fromkeys((round(lam, 12) for lam in LAMBDAS), 100), 1e9, 1e3, []),  # nothing is better
        ({}, 1e9, 1e3, [3.5, 4]),
    ],
)
def test_the_grid_is_widened_while_that_is_better(
    accuracy: dict[float, int], trace: float, best: float, further: list[float]
) -> None:
    asked: list[float] = []
    found = Grid(widen=True).searched(measured_by(accuracy, asked), trace, float(np.finfo(float).eps))
    assert found.best == pytest.approx(best)
    np.testing.assert_allclose(np.log10(asked[len(LAMBDAS) :]), further, atol=1e-9)


def test_a_search_can_be_told_accuracies_round_by_round() -> None:
    """As by machines that write them down, and a search that begins again with what is known."""
    accuracy = {1e3: 50, 1e4: 60}
    expected = Grid(widen=True).searched(measured_by(accuracy, []), 1e9, 1e-16)
    rounds = Grid(widen=True).rounds(1e9, 1e-16)
    asked = [next(rounds)]
    for _ in range(2):
        asked.append(rounds.send(measured_by(accuracy, [])(asked[-1])))
    with pytest.raises(StopIteration) as end:
        rounds.send(measured_by(accuracy, [])(asked[-1]))
    assert end.value.value == expected
    assert [len(lams) for lams in asked] == [16, 2, 2]


def test_the_official_grid_has_the_same_values_in_another_order() -> None:
    assert sorted(SEARCHES["official"].lams) == sorted(LAMBDAS)
    assert SEARCHES["official"].lams[-1] == min(LAMBDAS)
    half = Fraction(1, 2)
    assert LambdaSearch({1.0: half, 0.1: half, 10.0: half}, first=True).best == 1.0
