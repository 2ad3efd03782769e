"""Which samples are nearly the same: much nearer to each other than to the samples around them.

How alike two samples are is the cosine of their distances from the mean. One limit does not fit all: a
network may take all sketches for nearly the same, and tell two copies of a bird apart. So a sample's own
surroundings are the measure: with c₁₀ the cosine with the tenth of its nearest samples, two samples are
nearly the same if

    1 − c ≤ (1 − c₁₀) · 0.3        for one of the two, within 0.8 ≤ c ≤ 0.995
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layup.algebra.samples import CHUNK, Floats

NEAREST = 10
"""Which of the nearest samples says how near is near."""
NEARER = 0.3
"""How much nearer near-duplicates are."""
LEAST, MOST = 0.8, 0.995
"""The least cosine of near-duplicates; and the cosine that always makes them, however many there are."""
ACROSS = 8192
"""So many samples are compared with a chunk at a time."""

Directions = NDArray[np.float32]
Twins = list[tuple[int, int, float]]
"""Two samples, the later one first, and their cosine."""


def directions(x: NDArray[Any], mean: Floats) -> Directions:
    """Rows as seen from a mean, of length one, so that inner products are cosines; zero for the mean itself.

    >>> directions(np.array([[4.0, 5.0], [1.0, 1.0]]), np.array([1.0, 1.0])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    rows = np.asarray(x - mean, np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))


def limits(rows: Directions) -> Directions:
    """The least cosine of each sample with its near-duplicates. Costs n² d operations."""
    found = [np.zeros(0, np.float32)]
    for part in _parts(len(rows), CHUNK):
        nearest = np.full((len(part), NEAREST + 1), -1, np.float32)  # the first is the sample itself
        for others in _parts(len(rows), ACROSS):
            both = np.concatenate([nearest, rows[part] @ rows[others].T], axis=1)
            nearest = np.partition(both, -NEAREST - 1, axis=1)[:, -NEAREST - 1 :]
        found.append(np.clip(1 - NEARER * (1 - nearest.min(axis=1)), LEAST, MOST))
    return np.concatenate(found)


def twins(rows: Directions, classes: NDArray[np.int64]) -> Twins:
    """Of each sample the nearest of its near-duplicates before it, in its own class and in others.

    The most alike come first. Of many copies each is listed once or twice, not with all the others. Costs
    2 n² d operations, and holds a few blocks of cosines.

    >>> rows = directions(np.array([[1, 0], [0, 1], [1, 0.1], [-1, 0]]), np.zeros(2))
    >>> [pair[:2] for pair in twins(rows, np.array([0, 0, 1, 0]))]
    [(2, 0)]
    """
    least, found = limits(rows), Twins()
    for part in _parts(len(rows), CHUNK):
        best, whose = np.full((2, len(part)), -np.inf, np.float32), np.zeros((2, len(part)), np.int64)
        for others in _parts(int(part[-1]), ACROSS):
            cosines = rows[part] @ rows[others].T
            near = cosines >= np.minimum(least[part][:, None], least[others])
            near &= others < part[:, None]
            same = classes[part][:, None] == classes[others]
            for kind, wanted in enumerate((same, ~same)):
                among = np.where(near & wanted, cosines, -np.inf)
                place = among.argmax(axis=1)
                most = among[np.arange(len(part)), place]
                better = most > best[kind]
                best[kind, better], whose[kind, better] = most[better], others[place[better]]
        for kind, row in np.argwhere(np.isfinite(best)).tolist():
            found.append((int(part[row]), int(whose[kind, row]), min(float(best[kind, row]), 1.0)))
    return sorted(found, key=lambda each: (-each[2], each[:2]))


def _parts(count: int, size: int) -> Iterator[NDArray[np.int64]]:
    """The numbers up to a count, so many at a time."""
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))
