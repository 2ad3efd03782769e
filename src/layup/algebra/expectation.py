"""How good a classifier is: the accuracy to expect, from the samples that it learned.

Every sample is predicted by sums without the fold that it is in. Sums can be subtracted, so nothing has to be
learned again: G − G_v and c − c_v are those of all samples but fold v.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import sqrt
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from layup.algebra.classifier import SumsClassifier
from layup.algebra.folds import stratified
from layup.algebra.samples import checked_samples
from layup.errors import InputError

CONFIDENCE = 0.95
ENOUGH = 5
"""A class of fewer photos needs more: where four of four are right, the interval still begins at 0.51."""
MOST_LISTED = 10
"""How many of the classes that need more photos are named."""


@dataclass(frozen=True)
class Tally:
    """Of each class, how many samples were right, and how many were tested. Tallies can be added.

    >>> tally = Tally({"cat": (3, 4)}) + Tally({"cat": (1, 1), "dog": (0, 2)})
    >>> tally.by_label, tally.right, tally.tested
    ({'cat': (4, 5), 'dog': (0, 2)}, 4, 7)
    """

    by_label: Mapping[Any, tuple[int, int]] = field(default_factory=dict)

    @property
    def right(self) -> int:
        """How many samples were right."""
        return sum(right for right, _ in self.by_label.values())

    @property
    def tested(self) -> int:
        """How many samples were tested."""
        return sum(tested for _, tested in self.by_label.values())

    @classmethod
    def of(cls, truths: Iterable[Any], right: Iterable[bool]) -> Self:
        """Of samples with these labels, of which these were right."""
        found: dict[Any, tuple[int, int]] = {}
        for label, hit in zip(truths, right, strict=True):
            before = found.get(label, (0, 0))
            found[label] = before[0] + bool(hit), before[1] + 1
        return cls(found)

    def __add__(self, other: Self) -> Self:
        both = dict(self.by_label)
        for label, (right, tested) in other.by_label.items():
            before = both.get(label, (0, 0))
            both[label] = before[0] + right, before[1] + tested
        return type(self)(both)


def held_out_tally(
    classifier: SumsClassifier, features: ArrayLike, labels: ArrayLike, *, folds: int | None = None
) -> Tally:
    """How many samples would be right if the fold that each is in had not been learned.

    The samples (n × d) must have been learned by the classifier, which does not change. By default each is
    left out by itself, if the classifier can do that (`held_out`); else, or if `folds` says so, they are
    split into stratified folds, in the order given. λ is the one in force. All else that was
    learned stays in the sums.

    Left out is the only sample of a class: without it the class is unknown, and its prediction would be wrong
    whatever the classifier is like. `Expected.of` lists such classes. The tally is empty for a classifier
    that predicts several labels per sample (`DepthsClassifier`).

    Leaving one out costs one solve, and d² operations per sample; folds cost a solve each.

    >>> from layup.algebra.nearest_mean import NearestMeanClassifier
    >>> x = [[1.0, 0.1], [0.9, 0.0], [0.1, 1.0], [0.8, 0.3], [1.0, 1.0]]
    >>> y = ["cat", "cat", "dog", "dog", "eel"]
    >>> held_out_tally(NearestMeanClassifier().fit(x, y), x, y).by_label
    {'cat': (2, 2), 'dog': (0, 2)}
    """
    if folds is not None and folds < 2:
        raise InputError(f"Samples cannot be held out in {folds} folds: give at least 2.")
    sums = classifier.statistics_
    x, y = checked_samples(features, labels, sums.layers, sums.precision)
    learned = sums.count_by_label()
    for label, count in Counter(y.tolist()).items():
        if (have := learned.get(label, 0)) < count:
            raise InputError(
                f"Cannot hold out {count} samples of {label!r}: {have} were learned. Give samples that the "
                "classifier has learned."
            )
    if classifier.several:
        return Tally()
    if folds is None and (held := classifier.held_out(x, y)) is not None:
        return Tally.of(y[held.tested].tolist(), held.right[held.tested].tolist())
    tested = np.flatnonzero([learned[label] > 1 for label in y.tolist()])
    split = [tested[rows] for rows in stratified(y[tested], folds or classifier.folds) if len(rows)]
    right = classifier.right_without_fold(x, y, split)
    return Tally.of(y[tested].tolist(), right[tested].tolist())


def wilson(right: int, tested: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a proportion: all p with |p̂ − p| ≤ z √(p (1 − p) / n).

    >>> [round(end, 3) for end in wilson(9, 10)]
    [0.596, 0.982]
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share, more = right / tested, z**2 / tested
    middle = (share + more / 2) / (1 + more)
    half = sqrt(more * (share * (1 - share) + more / 4)) / (1 + more)
    # Both ends are reached exactly where all or none are right; rounding would miss them.
    return 0.0 if right == 0 else middle - half, 1.0 if right == tested else middle + half


@dataclass(frozen=True)
class Expected:
    """The accuracy to expect on photos like those that were learned, and the classes that need more.

    `low` and `high` are Wilson's 95 % interval for `tested` photos, as if each had been drawn by itself.
    Folds are stratified by class, which makes it a little too wide; all are predicted by nearly the same
    sums, which makes it too narrow where photos are few.

    >>> tally = Tally({"cat": (9, 10), "dog": (3, 10), "eel": (3, 3)})
    >>> expected = Expected.of(tally, {"cat": 10, "dog": 10, "eel": 3, "fox": 1})
    >>> round(expected.accuracy, 3), round(expected.low, 3), round(expected.high, 3), expected.tested
    (0.652, 0.449, 0.812, 23)
    >>> expected.needs_more
    ['fox', 'dog', 'eel']
    """

    accuracy: float
    low: float
    high: float
    tested: int
    needs_more: list[Any]

    @classmethod
    def of(cls, tally: Tally, counts: Mapping[Any, int]) -> Self | None:
        """From a tally, and how many photos each class has in all; None if nothing could go wrong in it.

        That is so if nothing was tested, and if there is one class: every photo is told to be of that.
        A class needs more photos if it has fewer than five, or if its accuracy is lower than the overall one
        by more than chance: its own interval ends below it. Those that could not be tested come first, then
        those of the lowest accuracy, then those of the fewest photos. Ten are listed at most.
        """
        if not tally.tested or len(counts) < 2:
            return None
        accuracy = tally.right / tally.tested
        shares = {label: right / tested for label, (right, tested) in tally.by_label.items() if tested}
        few = {label for label, count in counts.items() if count < ENOUGH}
        weak = {label for label in shares if wilson(*tally.by_label[label])[1] < accuracy}
        needing = [label for label in counts if label in few | weak]
        worst = sorted(needing, key=lambda label: (shares.get(label, -1.0), counts[label]))
        return cls(accuracy, *wilson(tally.right, tally.tested), tally.tested, worst[:MOST_LISTED])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**values)
