"""What a claim is judged by: differences between runs, and whether they are beyond their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from layup.benchmark.comparison import Difference
from layup.benchmark.metrics import Interval
from layup.formats import points
from layup.reproduction.results import Pairing, Results
from layup.reproduction.spec import Spec
from layup.tables import Row

HOLDS, MIXED, FAILS, OPEN, NOT_RUN = "holds", "mixed", "does not hold", "cannot be told", "not run"


@dataclass(frozen=True)
class Pair:
    """Two runs that a claim compares, for every dataset of a setting and every network."""

    what: str
    spec: Spec
    over: Spec


@dataclass(frozen=True)
class Gain:
    """A difference, and where it was measured."""

    pairing: Pairing
    pair: Pair
    found: Difference | Interval

    @property
    def value(self) -> float:
        """The difference itself."""
        return self.found.value if isinstance(self.found, Interval) else self.found.mean

    @property
    def above(self) -> bool:
        """Whether the gain is beyond its interval."""
        return self.found.low is not None and self.found.low > 0

    @property
    def below(self) -> bool:
        """Whether the loss is beyond its interval."""
        return self.found.high is not None and self.found.high < 0

    @property
    def nothing(self) -> bool:
        """Whether every test image counts the same in both: the difference is exactly zero."""
        return self.value == self.found.low == self.found.high == 0

    @property
    def row(self) -> Row:
        """A row of a table."""
        low, high = self.found.low, self.found.high
        ends = "" if low is None or high is None else f"[{points(low)}, {points(high)}]"
        sure = "gain" if self.above else "loss" if self.below else ""
        return Row(f"{self.pairing.label}: {self.pair.what}", [points(self.value), ends, sure])


@dataclass(frozen=True)
class Judgement:
    """Whether a claim holds, why, and the differences behind it."""

    verdict: str
    said: Sequence[str] = ()
    gains: Sequence[Gain] = ()


def gains(results: Results, pairs: Iterable[Pair]) -> list[Gain]:
    """The differences of all pairs that were run, on every dataset and network."""
    return [
        Gain(pairing, pair, found)
        for pair in pairs
        for pairing in results.pairings(results.config.of(pair.spec.setting))
        if pair.spec.network in (None, pairing.network)
        and (
            found := results.gain(
                pairing.column, pair.spec.on(pairing.network), pair.over.on(pairing.network)
            )
        )
    ]


def planned(results: Results, pairs: Iterable[Pair]) -> int:
    """How many comparisons there would be if everything had been run."""
    return sum(
        pair.spec.network in (None, pairing.network)
        for pair in pairs
        for pairing in results.pairings(results.config.of(pair.spec.setting))
    )


def tally(found: Sequence[Gain], expected: int) -> str:
    """How many differences are beyond their intervals, and their mean, as a sentence."""
    above, below = sum(each.above for each in found), sum(each.below for each in found)
    lacking = f" ({expected} planned)" if expected > len(found) else ""
    mean = float(np.mean([each.value for each in found]))
    return (
        f"Of {len(found)}{lacking}, gains beyond their intervals: {above}, losses: {below}; the mean "
        f"difference is {points(mean)} points."
    )


def mostly(found: Sequence[Gain], expected: int) -> str:
    """The verdict of "half or more are gains beyond their intervals, and none is a loss"."""
    above, below = sum(each.above for each in found), sum(each.below for each in found)
    if not found:
        return NOT_RUN
    if 2 * len(found) < expected or not above + below:
        return OPEN
    if not above:
        return FAILS
    return HOLDS if 2 * above >= len(found) and not below else MIXED


def reached(won: int, lost: int, of: int, share: Fraction) -> str:
    """The verdict of "such a share of all is won", where some may be neither won nor lost.

    >>> reached(4, 3, 7, Fraction(4, 7)), reached(3, 4, 7, Fraction(4, 7)), reached(3, 3, 7, Fraction(4, 7))
    ('holds', 'does not hold', 'cannot be told')
    """
    if not of:
        return NOT_RUN
    if won >= share * of:
        return HOLDS
    return FAILS if of - lost < share * of else OPEN


def all_of(*verdicts: str) -> str:
    """The verdict of several statements together.

    >>> all_of(HOLDS, HOLDS), all_of(HOLDS, FAILS), all_of(OPEN, FAILS), all_of(HOLDS, OPEN)
    ('holds', 'mixed', 'does not hold', 'cannot be told')
    """
    told = [verdict for verdict in verdicts if verdict != NOT_RUN]
    if not told:
        return NOT_RUN
    if MIXED in told or {HOLDS, FAILS} <= {*told}:
        return MIXED
    if FAILS in told:
        return FAILS
    return HOLDS if told.count(HOLDS) == len(verdicts) else OPEN
