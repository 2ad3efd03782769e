"""Samples as all the others see them: the scores of each learned sample, had it not been learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup.algebra.class_sums import ClassSums
from layup.algebra.folds import chunks
from layup.algebra.samples import Floats, checked_samples
from layup.errors import InputError


@dataclass(frozen=True)
class HeldOut:
    """Scores of samples without themselves; −∞ for all classes where a sample is the only one of its class.

    labels: of the columns. index: the column of each sample's own class. tested: which samples have others.
    familiarity: how like any class each sample is, if the classifier can say so; NaN where not tested.
    """

    labels: list[Any]
    index: NDArray[np.int64]
    tested: NDArray[np.bool_]
    scores: Floats
    familiarity: Floats | None = None

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which samples are predicted right."""
        return np.asarray(self.tested & (self.scores.argmax(axis=1) == self.index))

    @property
    def margin(self) -> Floats:
        """By how much the own class of each sample beats the best other one; NaN where not tested."""
        rows, others = np.arange(len(self.index)), self.scores.copy()
        others[rows, self.index] = -np.inf
        with np.errstate(invalid="ignore"):
            margin = self.scores[rows, self.index] - others.max(axis=1, initial=-np.inf)
        return np.asarray(np.where(self.tested, margin, np.nan))


def judged(
    sums: ClassSums,
    features: ArrayLike,
    labels: ArrayLike,
    left_out: Callable[[Floats, NDArray[np.int64]], tuple[Floats, Floats | None]],
) -> HeldOut:
    """Samples that the sums hold, without themselves.

    left_out: the scores and the familiarity of samples, given the columns of their classes.
    """
    x, y = checked_samples(features, labels, sums.layers, sums.precision)
    if unknown := sorted({*y.tolist()} - {*sums.labels}):
        raise InputError(f"Samples of {unknown[0]!r} cannot be judged: that class was not learned.")
    index = np.searchsorted(np.array(sums.labels), y).astype(np.int64)
    tested = sums.counts[index] > 1
    scores, familiarity = np.full((len(x), len(sums.labels)), -np.inf), np.full(len(x), np.nan)
    known: Floats | None = None
    for chunk in chunks(np.flatnonzero(tested)):
        scores[chunk], known = left_out(x[chunk].astype(np.float64), index[chunk])
        if known is not None:
            familiarity[chunk] = known
    return HeldOut(sums.labels, index, tested, scores, None if known is None else familiarity)
