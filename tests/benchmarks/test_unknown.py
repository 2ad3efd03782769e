"""What the benchmark of "none of these" counts is what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import unknown
from benchmarks.certainty import Data
from benchmarks.unknown import Draw, Pictures

LAYERS = {"one": 6, "two": 6}


def pictures(spread: float, others: bool = False) -> Pictures:
    """Three classes, around means that are far from each other."""
    rng = np.random.default_rng(0)
    means = 10 * np.linalg.qr(rng.standard_normal((12, 3)))[0].T  # at right angles, in both layers
    sets = [
        (means[y] + spread * rng.standard_normal((len(y), 12)), np.array(["a", "b", "c"])[y])
        for y in (np.repeat(np.arange(3), each) for each in (20, 30))
    ]
    x, y = sets[1]
    return Pictures("made", Data(sets[0], sets[1], LAYERS), (-x, y) if others else None)


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("per_class", [1, 3, 20])
def test_what_is_far_from_the_learned_classes_is_caught(per_class: int, others: bool) -> None:
    found = unknown.draw("none", pictures(0.1, others), 2, per_class, seed=0)
    assert found.area == 1
    assert found.unseen.min() > 0.3
    assert found.now == (0, 1) or per_class == 1
    assert found.judged == (2 * per_class if per_class > 1 else 0)
    assert (found.before is None) == (found.judged < 10)
    assert (len(found.known), len(found.unseen)) == ((60, 60) if others else (60, 30))


def test_nothing_can_be_told_where_classes_are_alike() -> None:
    found = unknown.draw("none", pictures(100.0), 1, 10, seed=0)
    assert 0.2 < found.area < 0.8


def test_draws_are_those_that_there_are_images_for() -> None:
    found = [*unknown.draws("none", pictures(1.0), 2)]
    assert {each.classes for each in found} == {1, 2}  # one must be left that is unseen
    assert {each.per_class for each in found} == {1, 2, 3, 5, 10, 20}
    assert len(found) == 2 * 6 * 2


def test_tables_have_the_shares_of_their_draws() -> None:
    first = Draw("net", "made", 1, 1, np.array([0.1, 0.6]), np.array([0.4, 0.8, 0.9, 0.95]), 0, None)
    second = replace(first, per_class=20, judged=20, before=(0.0, 0.25))
    assert unknown.by_images([first, second], 1) == [
        ["made", "net", *unknown_cells({1: "0.88: 0.50, 0.75", 20: "0.88: 0.50, 0.75"})]
    ]
    assert unknown.by_judged([first, second, replace(second, before=(0.5, 0.75))]) == [
        ["net", "none", "0.50, 0.75", "never"],
        ["net", "20 to 99", "0.50, 0.75", "0.25, 0.50"],
    ]
    shares, asked = unknown.reliability([first])
    at = unknown.BINS.index(0.7)  # one of four unseen ones is from 0.7 to 0.9, and no known one
    assert (shares[1 + at], asked[1 + at]) == ("1.00", "0.06")
    assert shares[1 + unknown.BINS.index(0.5)] == "0.00"


def unknown_cells(cells: dict[int, str]) -> list[str]:
    return [cells.get(count, "") for count in unknown.PER_CLASS]
