"""How sure a classifier may be, from samples that were judged by all the others.

Scores become probabilities by a softmax of β times the scores. The temperature 1/β is the one under which the
classes of held-out samples are most probable, and of one more that may be of any class: nothing is certain,
even if all of them were right. A set of labels holds the truth with a given probability if it
holds all labels that are as probable as that of most held-out samples. How familiar they are is kept as well:
`layup.algebra.novelty` says what that tells of others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import floor
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from layup import schema
from layup.algebra.held_out import HeldOut
from layup.algebra.samples import Floats
from layup.errors import InputError
from layup.schema import NUMBER, Rule, Shape, listed, whole

FEWEST = 10
"""The smallest number of held-out samples that says anything about probabilities."""
STEEPNESSES = np.geomspace(0.01, 1000.0, 201)
"""The values of β that are tried, where the scores of a sample have a standard deviation of 1, in mean."""
LEVELS = np.linspace(0.0, 1.0, 201)
"""At which shares of the samples quantiles are kept."""


def _ascending(least: int, most: int) -> Rule:
    numbers = listed(NUMBER, len(LEVELS))
    return Rule(
        f"{numbers.words}, ascending, from {least} to {most}",
        lambda value: numbers.holds(value) and [least, *value, most] == sorted([least, *value, most]),
    )


CALIBRATION: Shape = {
    "steepness": Rule("a positive number", lambda value: NUMBER.holds(value) and value > 0),
    "tested": whole(1),
    "truths": _ascending(0, 1),
    "familiar": _ascending(-1, 1).or_none(),
}


@dataclass(frozen=True)
class Calibration:
    """What held-out samples say about scores.

    steepness: β, what scores are multiplied by before the softmax.
    tested: how many samples said so.
    truths: quantiles of the probability that samples give to their true class.
    familiar: quantiles of how familiar they are, if the classifier can say so.

    >>> held = HeldOut(["cat", "dog"], np.array([0, 1] * 10), np.ones(20, bool), np.array([[2.0, 1.0]] * 20))
    >>> calibration = Calibration.of(held)
    >>> calibration.probabilities(np.array([[2.0, 1.0]])).round(2).tolist()  # half of them are wrong
    [[0.5, 0.5]]
    """

    steepness: float
    tested: int
    truths: list[float]
    familiar: list[float] | None = None

    @classmethod
    def of(cls, held: HeldOut) -> Self | None:
        """From held-out samples; None if there are none."""
        rows = np.flatnonzero(held.tested)
        if not len(rows):
            return None
        scores, index = held.scores[rows], held.index[rows]
        tried = STEEPNESSES / (float(scores.std(axis=1).mean()) or 1.0)

        def falls(at: int) -> bool:
            return _likelihood(tried[at + 1] * scores, index) <= _likelihood(tried[at] * scores, index)

        # The logarithm of the likelihood is concave in β: once it falls, it goes on falling.
        best = float(tried[bisect_left(range(len(tried) - 1), True, key=falls)])
        truths = softmax(best * scores)[np.arange(len(rows)), index]
        familiar = None if held.familiarity is None else _quantiles(held.familiarity[rows])
        return cls(best, len(rows), _quantiles(truths), familiar)

    @property
    def enough(self) -> bool:
        """Whether so many samples were judged that they tell probabilities of classes."""
        return self.tested >= FEWEST

    def probabilities(self, scores: Floats) -> Floats:
        """One row per sample, one column per class; rows add up to 1."""
        return softmax(self.steepness * scores)

    def set_threshold(self, coverage: float) -> float:
        """How probable a label must be to be in a set that holds the truth with this probability.

        Of n samples, the true labels of all but ⌊(1 − coverage)(n + 1)⌋ are that probable.
        """
        require_share(coverage, "coverage")
        left = floor((1 - coverage) * (self.tested + 1) + 1e-9)
        if not left:
            return 0.0
        return self.truths[int(np.searchsorted(_ranks(self.tested), left)) - 1]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; a `ValueError` says what is wrong."""
        schema.require(values, CALIBRATION, "calibration")
        return cls(**values)


def plausibility(held: HeldOut) -> Floats:
    """How plausible the label of each sample is to all the others: its probability, NaN where not tested.

    Too few samples give no probabilities: then it is the margin. Where many classes are hard to tell apart,
    the best of the others is often ahead, so that the margin of a right label is as low as that of a wrong
    one; its probability is not.

    >>> held = HeldOut(["cat", "dog"], np.array([0, 1] * 10), np.ones(20, bool), np.array([[2.0, 1.0]] * 20))
    >>> plausibility(held)[:2].round(2).tolist()
    [0.5, 0.5]
    """
    calibration = Calibration.of(held)
    if calibration is None or not calibration.enough:
        return held.margin
    found = np.full(len(held.index), np.nan)
    own = held.index[held.tested]
    found[held.tested] = calibration.probabilities(held.scores[held.tested])[np.arange(len(own)), own]
    return found


def softmax(logits: Floats) -> Floats:
    """exp of each row, divided by its sum.

    >>> softmax(np.array([[0.0, 0.0], [1000.0, 0.0]])).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    return np.asarray(np.exp(_log_softmax(logits)))


def _log_softmax(logits: Floats) -> Floats:
    lowered = logits - logits.max(axis=1, keepdims=True, initial=-np.inf)
    return np.asarray(lowered - np.log(np.exp(lowered).sum(axis=1, keepdims=True)))


def _likelihood(logits: Floats, index: NDArray[np.int64]) -> float:
    """The logarithm of how probable these classes are, and the mean for one more sample of any class."""
    found = _log_softmax(logits)
    return float(found[np.arange(len(index)), index].sum() + found.mean())


def require_share(value: float, name: str) -> None:
    """Refuse what is not strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InputError(f"{name} = {value:g} is impossible: give a number between 0 and 1.", about=name)


def _quantiles(values: Floats) -> list[float]:
    """Of the values themselves: a mean of two, or a rounded one, could be above those that it stands for."""
    return [float(each) for each in np.sort(values)[_ranks(len(values))]]


def _ranks(samples: int) -> NDArray[np.int64]:
    """Which of so many sorted values is kept for each level."""
    return np.floor(LEVELS * (samples - 1)).astype(np.int64)
