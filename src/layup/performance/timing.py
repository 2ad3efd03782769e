"""Ways of doing the same thing, timed in turn, so that a noisy machine disturbs all of them equally."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEW = 6
"""Fewer pairs than this give no interval: their lowest and highest ratio are given instead."""


@dataclass(frozen=True)
class Ratio:
    """How many times as fast the second way is as the first: the median over pairs, and how far it spreads.

    `low` and `high` are a 95 % interval of the median; of fewer than six pairs, the lowest and the highest.
    """

    median: float
    low: float
    high: float
    first_seconds: float
    second_seconds: float
    pairs: int

    @property
    def spread(self) -> str:
        """What `low` and `high` are, as text."""
        return "min … max" if self.pairs < FEW else "95 % interval"

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} … {self.high:.3f})"


@dataclass(frozen=True)
class Work:
    """What is timed; `prepare` makes its arguments, again before every round and outside of the time."""

    run: Callable[..., Any]
    prepare: Callable[[], tuple[Any, ...]] = tuple


@dataclass(frozen=True)
class Timed:
    """The seconds of every round, and what the last one gave."""

    seconds: NDArray[np.float64]
    result: Any


def interleaved(works: Mapping[str, Work], rounds: int, untimed: int = 1) -> dict[str, Timed]:
    """Do all works in turn, in the opposite order every other round, after some untimed rounds.

    >>> timed = interleaved({"sum": Work(sum, lambda: ([1, 2],)), "none": Work(list)}, rounds=3)
    >>> timed["sum"].result, timed["none"].seconds.shape
    (3, (3,))
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    results: dict[str, Any] = {}
    for number in range(-untimed, rounds):
        for name in works if number % 2 == 0 else reversed(list(works)):
            given = works[name].prepare()
            results.pop(name, None)  # the last result must not take memory from the next
            started = time.perf_counter()
            results[name] = works[name].run(*given)
            taken = time.perf_counter() - started
            if number >= 0:
                seconds[name].append(taken)
    return {name: Timed(np.array(seconds[name]), results[name]) for name in works}


def ratio(first: NDArray[np.float64], second: NDArray[np.float64]) -> Ratio:
    """The ratio of seconds that were taken in pairs.

    >>> str(ratio(np.array([2.0, 8.0, 3.0]), np.array([1.0, 2.0, 1.0])))
    '3.000 (2.000 … 4.000)'
    """
    ratios, pairs = first / second, len(first)
    low, high = ratios.min(), ratios.max()
    if pairs >= FEW:
        # The interval of the median by resampling the pairs: no assumption about the noise.
        rng = np.random.default_rng(0)
        low, high = np.quantile(np.median(rng.choice(ratios, (2000, pairs)), axis=1), [0.025, 0.975])
    medians = [float(np.median(values)) for values in (ratios, first, second)]
    return Ratio(medians[0], float(low), float(high), medians[1], medians[2], pairs)


def compare(first: Callable[[], object], second: Callable[[], object], pairs: int = 21) -> Ratio:
    """Time both in interleaved pairs, after one untimed round."""
    timed = interleaved({"first": Work(first), "second": Work(second)}, pairs)
    return ratio(timed["first"].seconds, timed["second"].seconds)
