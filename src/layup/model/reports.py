"""What the methods of a model return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from layup.algebra import Floats
from layup.features import BadImage
from layup.model.plan import Conflict


@dataclass(frozen=True)
class BatchReport:
    """What one `learn`, `forget` or `sync` did: how many images per class, and what it left out."""

    learned: dict[str, int] = field(default_factory=dict)
    forgotten: dict[str, int] = field(default_factory=dict)
    moved: int = 0
    """How many of these only changed their class."""
    known: int = 0
    """How many images were known already, or given twice."""
    conflicts: list[Conflict] = field(default_factory=list)
    """Images that are known as another class: they were not learned."""
    missing: list[str] = field(default_factory=list)
    """Photos that should be forgotten, but are neither at hand nor in the cache."""
    kept: int = 0
    """Photos that are no longer given, but stay: images that cannot be read may be these."""
    bad: list[BadImage] = field(default_factory=list)
    """Images that cannot be used."""
    exact: bool = True
    """Whether the sums are now as if what was forgotten had never been learned."""

    @property
    def changed(self) -> bool:
        """Whether anything was learned or forgotten."""
        return bool(self.learned or self.forgotten)


@dataclass(frozen=True)
class Prediction:
    """The class with the highest score, the second one, and how far behind it is. One class has no second."""

    label: str
    score: float
    second: str | None
    margin: float | None


@dataclass(frozen=True)
class Predictions:
    """Scores for the images that could be used: row i is for image `kept[i]`, columns are the classes."""

    classes: list[str]
    scores: Floats
    kept: list[int]
    bad: list[BadImage]

    @property
    def labels(self) -> list[str]:
        """The class with the highest score; the first one if scores are equal."""
        return [self.classes[best] for best in self.scores.argmax(axis=1)]

    def each(self) -> Iterator[Prediction]:
        """The prediction for every image, in order.

        >>> next(Predictions(["beagle", "tabby"], np.array([[0.25, 0.75]]), [0], []).each())
        Prediction(label='tabby', score=0.75, second='beagle', margin=0.5)
        """
        rows = np.arange(len(self.scores))
        best = self.scores.argmax(axis=1)
        others = self.scores.copy()
        others[rows, best] = -np.inf
        for row, first, second in zip(rows, best, others.argmax(axis=1), strict=True):
            score, next_score = float(self.scores[row, first]), float(self.scores[row, second])
            if first == second:
                yield Prediction(self.classes[first], score, None, None)
            else:
                yield Prediction(self.classes[first], score, self.classes[second], score - next_score)


def counted(labels: Iterable[str]) -> dict[str, int]:
    """How often each label is there, sorted by label.

    >>> counted(["dog", "cat", "dog"])
    {'cat': 1, 'dog': 2}
    """
    return dict(sorted(Counter(labels).items()))
