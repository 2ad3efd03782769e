"""How sure a classifier may be, from samples that were judged by all the others.

Scores become probabilities by a softmax of β times the scores. The temperature 1/β is the one under which the
classes of held-out samples are most probable. A set of labels holds the truth with a given probability if it
holds all labels that are as probable as that of most held-out samples; and what is less familiar than nearly
all of them is not like anything that was learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import floor
from typing import Any, Self

import numpy as np

from layup import schema
from layup.algebra.held_out import HeldOut
from layup.algebra.samples import Floats
from layup.errors import InputError
from layup.schema import NUMBER, Rule, Shape, listed, whole

FEWEST = 10
"""The smallest number of held-out samples that says anything."""
STEEPNESSES = np.geomspace(0.1, 1000.0, 161)
"""The values of β that are tried: two neighbours differ by 6 %."""
LEVELS = np.linspace(0.0, 1.0, 201)
"""At which shares of the samples quantiles are kept."""
REJECTED = 0.05
"""The share of known photos that may be taken for unknown ones."""
DIGITS = 6

_QUANTILES = listed(NUMBER, len(LEVELS))
_ASCENDING = Rule(
    f"{_QUANTILES.words}, ascending", lambda value: _QUANTILES.holds(value) and value == sorted(value)
)
CALIBRATION: Shape = {
    "steepness": Rule("a positive number", lambda value: NUMBER.holds(value) and value > 0),
    "tested": whole(FEWEST),
    "truths": _ASCENDING,
    "familiar": _ASCENDING.or_none(),
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
    [[0.52, 0.48]]
    """

    steepness: float
    tested: int
    truths: list[float]
    familiar: list[float] | None = None

    @classmethod
    def of(cls, held: HeldOut) -> Self | None:
        """From held-out samples; None if they are too few."""
        rows = np.flatnonzero(held.tested)
        if len(rows) < FEWEST:
            return None
        scores, index = held.scores[rows], held.index[rows]
        truths = {
            steepness: softmax(steepness * scores)[np.arange(len(rows)), index] for steepness in STEEPNESSES
        }
        tiny = np.finfo(float).tiny
        best = max(truths, key=lambda steepness: float(np.log(truths[steepness] + tiny).sum()))
        familiar = None if held.familiarity is None else _quantiles(held.familiarity[rows])
        return cls(float(best), len(rows), _quantiles(truths[best]), familiar)

    def probabilities(self, scores: Floats) -> Floats:
        """One row per sample, one column per class; rows add up to 1."""
        return softmax(self.steepness * scores)

    def least(self, coverage: float) -> float:
        """How probable a label must be to be in a set that holds the truth with this probability.

        Of n samples, the true labels of all but ⌊(1 − coverage)(n + 1)⌋ are that probable.
        """
        require_share(coverage, "coverage")
        left = floor((1 - coverage) * (self.tested + 1) + 1e-9)
        if not left:
            return 0.0
        at = np.searchsorted(LEVELS, (left - 1) / (self.tested - 1), side="right") - 1
        return self.truths[int(at)]

    def strange_below(self, rejected: float = REJECTED) -> float | None:
        """How familiar a sample must be to count as known, if this share of known ones may be rejected."""
        require_share(rejected, "rejected")
        if self.familiar is None:
            return None
        return float(np.interp(rejected, LEVELS, self.familiar))

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
    [0.52, 0.48]
    """
    calibration = Calibration.of(held)
    if calibration is None:
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
    raised = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def require_share(value: float, name: str) -> None:
    """Refuse what is not strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InputError(f"A {name} of {value:g} is impossible: give a number between 0 and 1.", about=name)


def _quantiles(values: Floats) -> list[float]:
    return [float(f"{each:.{DIGITS}g}") for each in np.quantile(values, LEVELS, method="lower")]
