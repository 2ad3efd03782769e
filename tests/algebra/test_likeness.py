"""Near-duplicates: as all pairs, compared one by one, have them."""

from __future__ import annotations

import numpy as np
import pytest

from layup.algebra import directions, likeness, limits, twins


def with_copies(count: int, copies: int) -> np.ndarray:
    """Random samples; the last ones are nearly the same as the first ones."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((count, 12))
    return np.concatenate([x, x[:copies] + 0.05 * rng.standard_normal((copies, 12))])


def by_hand(rows: np.ndarray, classes: np.ndarray) -> set[tuple[int, int]]:
    """One pair after the other."""
    cosines = rows @ rows.T
    tenth = [sorted(row)[-11] if len(row) > 10 else -1.0 for row in cosines]
    least = [min(max(1 - 0.3 * (1 - each), 0.8), 0.995) for each in tenth]
    found = set()
    for i in range(len(rows)):
        for same in (True, False):
            before = [
                j
                for j in range(i)
                if (classes[i] == classes[j]) == same and cosines[i, j] >= min(least[i], least[j])
            ]
            if before:
                found.add((i, max(before, key=lambda j: cosines[i, j])))
    return found


@pytest.mark.parametrize("sizes", [(1024, 8192), (7, 5)])
def test_twins_are_those_of_all_pairs(sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likeness, "CHUNK", sizes[0])
    monkeypatch.setattr(likeness, "ACROSS", sizes[1])
    x = with_copies(40, 9)
    classes = np.arange(len(x)) % 3
    rows = directions(x, x.mean(axis=0))
    found = twins(rows, classes)
    assert {pair[:2] for pair in found} == by_hand(rows, classes)
    assert {(40 + i, i) for i in range(9)} <= {pair[:2] for pair in found}
    cosines = [pair[2] for pair in found]
    assert cosines == sorted(cosines, reverse=True)


def test_many_copies_of_one_sample_are_found_too() -> None:
    """Then the tenth of the nearest is a copy as well."""
    x = np.concatenate([with_copies(30, 0), np.repeat(with_copies(1, 0), 20, axis=0)])
    pairs = twins(directions(x, x.mean(axis=0)), np.zeros(len(x), np.int64))
    assert len(pairs) == 20
    assert max(j for _, j, _ in pairs) < 50


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_samples(count: int) -> None:
    rows = directions(with_copies(count, 0), np.zeros(12))
    assert limits(rows).shape == (count,)
    assert twins(rows, np.zeros(count, np.int64)) == []
