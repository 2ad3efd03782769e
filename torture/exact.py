"""Random ways to the same sums: all of them end with the same hash."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np

from layup import GramStatistics
from layup.algebra import ClassRoots, Steps
from torture.promise import BrokenError, Promise, Tries

LAYERS = {"shallow": 7, "deep": 5}
EXPONENTS = {"shallow": -6, "deep": 2}
LABELS = ("ant", "bee", "cat", "dog")
KEPT, PASSING, MOVES = 60, 40, 40
"""Samples that are there at the end, samples that come and go, and how often something happens."""


def _samples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    steps = Steps(LAYERS, EXPONENTS)
    size = 10.0 ** rng.uniform(0, 5, (count, 1))  # from a few steps to a hundred thousand
    rows = rng.standard_normal((count, sum(LAYERS.values()))) * steps.columns * size
    return steps.nearest(rows), rng.choice(LABELS, count)


def _sums(x: np.ndarray, y: np.ndarray) -> GramStatistics:
    sums = GramStatistics(LAYERS, steps=EXPONENTS)
    sums.update(x, y)
    return sums


def walk(chance: Random, folder: Path) -> str:
    """The hash at the end of a random history."""
    x, y = _samples(KEPT, 0)
    guests, names = _samples(PASSING, 1)
    waiting, away, here = chance.sample(range(KEPT), KEPT), [*range(PASSING)], list[int]()
    sums = _sums(x[:0], y[:0])
    for _ in range(MOVES):
        match chance.choice(("learn", "merge", "visit", "leave", "file", "class")):
            case "learn" if waiting:
                part = [waiting.pop() for _ in range(chance.randint(1, len(waiting)))]
                sums.update(x[part], y[part])
            case "merge" if waiting:
                part = [waiting.pop() for _ in range(chance.randint(1, len(waiting)))]
                sums = (
                    _sums(x[part], y[part]) + sums
                    if chance.random() < 0.5
                    else sums + _sums(x[part], y[part])
                )
            case "visit" if away:
                part = [away.pop(chance.randrange(len(away))) for _ in range(chance.randint(1, len(away)))]
                sums.update(guests[part], names[part])
                here += part
            case "leave" if here:
                part = [here.pop(chance.randrange(len(here))) for _ in range(chance.randint(1, len(here)))]
                sums.revert(guests[part], names[part])
                away += part
            case "file":
                sums.save(folder / "sums")
                sums = GramStatistics.load(folder / "sums")
            case "class":
                roots = ClassRoots(guests.shape[1])
                roots.update(guests, np.full(PASSING, "guest"))
                sums.update(guests, np.full(PASSING, "guest"))
                sums = sums.without_class("guest", roots.root("guest"))
    sums.update(x[waiting], y[waiting])
    if here:
        sums = sums - _sums(guests[here], names[here])
    return sums.digest()


def attempt(chance: Random, folder: Path) -> None:
    """One history."""
    found, expected = walk(chance, folder), _sums(*_samples(KEPT, 0)).digest()
    if found != expected:
        raise BrokenError("the same samples have another hash", found)


def prepare(home: Path) -> Tries:
    """Nothing: all histories share their samples."""
    return Tries(lambda index, chance, home: attempt(chance, home))


PROMISE = Promise(
    "exact",
    "However the same samples were learned, merged, saved and forgotten, sums and hash are the same.",
    10_000,
    prepare,
)
