"""How probable it is that a sample is of none of the learned classes, from the first sample on.

A sample is the stranger, the less familiar it is (its largest cosine with a class mean, after whitening). How
familiar samples of the learned classes are is told by two numbers: the familiarity of the middle one, t, and
the one l that all but 5 % exceed. Before any sample was judged by the others, both follow from the number of
classes C, since the largest of many cosines is larger; m judged samples have m² / (m² + 9) of the say:

    t₀ = 0.3 + 0.03 ln C        l₀ = t₀ − 0.25

    P(none of these) = 1 / (1 + exp(−1.3 (l − s) / (t − l)))        of a sample with familiarity s

So it is one half where 5 % of the samples of learned classes are called strange. It is the share of strange
ones among samples like it where one sample in four is of something that was never learned: docs/answers.md
has how these numbers were chosen, and how well they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any, Self

import numpy as np

from layup.algebra.calibration import LEVELS, Calibration
from layup.algebra.samples import Floats

REJECTED = 0.05
"""The share of samples of learned classes that may be taken for strange ones."""
TYPICAL = 0.3
"""How familiar half of the samples of one class are, before any was judged."""
GAIN = 0.03
"""How much more familiar they are with e times as many classes."""
SPREAD = 0.25
"""How much less familiar the strangest of them are."""
TRUST = 3
"""How many samples must be judged to have half of the say."""
SLOPE = 1.3
"""How fast the probability changes, over one spread."""
ROUNDING = 1e-9
"""The smallest spread."""


@dataclass(frozen=True)
class Novelty:
    """How familiar samples of the learned classes are, and so how strange another one is.

    typical: half of them are more familiar. least: all but 5 % of them are.

    >>> Novelty.of(classes=1).probabilities(np.array([1.0, 0.3, 0.05, -0.2])).round(2).tolist()
    [0.01, 0.21, 0.5, 0.79]
    """

    typical: float
    least: float

    @classmethod
    def of(cls, classes: int, calibration: Calibration | None = None) -> Self:
        """For so many classes, with what judged samples said about them."""
        typical = TYPICAL + GAIN * log(classes)
        least = typical - SPREAD
        if calibration is None or calibration.familiar is None:
            return cls(typical, least)
        say = calibration.tested**2 / (calibration.tested**2 + TRUST**2)
        middle, strangest = np.interp([0.5, REJECTED], LEVELS, calibration.familiar)
        return cls(float(typical + say * (middle - typical)), float(least + say * (strangest - least)))

    def probabilities(self, familiarity: Floats) -> Floats:
        """How probable it is that samples which are this familiar are of no learned class."""
        return np.asarray(self.curve(familiarity, np.tanh))

    def curve(self, familiarity: Any, tanh: Callable[[Any], Any]) -> Any:
        """The same for any kind of numbers, with their hyperbolic tangent."""
        spread = max(self.typical - self.least, ROUNDING)
        # The logistic function of z is (1 + tanh(z / 2)) / 2, which does not overflow.
        return (1 + tanh(SLOPE / 2 * (self.least - familiarity) / spread)) / 2
