"""Two ways of doing the same thing, timed in turn, so that a noisy machine disturbs both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ratio:
    """How many times as fast the second way is as the first: median over pairs, with a 95 % interval."""

    median: float
    low: float
    high: float
    first_seconds: float
    second_seconds: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} … {self.high:.3f})"


def compare(first: Callable[[], object], second: Callable[[], object], pairs: int = 21) -> Ratio:
    """Time both in interleaved pairs, the order turned each time, after one untimed round."""
    first(), second()
    times = np.empty((pairs, 2))
    for i in range(pairs):
        order = ((0, first), (1, second)) if i % 2 == 0 else ((1, second), (0, first))
        for column, work in order:
            started = time.perf_counter()
            work()
            times[i, column] = time.perf_counter() - started
    ratios = times[:, 0] / times[:, 1]
    # The interval of the median by resampling the pairs: no assumption about the noise.
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(ratios, (2000, pairs)), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return Ratio(float(np.median(ratios)), float(low), float(high), *np.median(times, axis=0).tolist())
