"""What a model predicts, how sure it is, and what it does not know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from layup.algebra import Calibration, Floats, Novelty, softmax
from layup.errors import InputError
from layup.features import BadImage


@dataclass(frozen=True)
class Prediction:
    """The class with the highest score, how sure that is, and the second one. One class has no second."""

    label: str
    confidence: float | None
    """How probable it is, from 0 to 1, if the photo is of any known class; None where that cannot be told."""
    unknown: bool | None
    """Whether the photo is probably of none of the classes; None where that cannot be told."""
    none_of_these: float | None
    """How probable that is, from 0 to 1; None where it cannot be told."""
    score: float
    second: str | None
    margin: float | None
    """How far the score of the second class is behind."""


@dataclass(frozen=True)
class Predictions:
    """Scores for the images that could be used: row i is for image `kept[i]`, columns are the classes."""

    classes: list[str]
    scores: Floats
    kept: list[int]
    bad: list[BadImage]
    steepness: float | None = None
    """What scores are multiplied by to make them probabilities."""
    familiarity: Floats | None = None
    """How like anything learned each image is, from −1 to 1."""
    calibration: Calibration | None = None
    """What the photos of the model said, if they were judged."""

    @classmethod
    def joined(cls, parts: Sequence[Predictions], size: int) -> Predictions:
        """The predictions of one model for all images, from those for each `size` of them.

        >>> parts = [Predictions(["cat"], np.ones((1, 1)), [1], [BadImage(0, "no")]) for _ in range(2)]
        >>> found = Predictions.joined(parts, 2)
        >>> found.kept, [bad.index for bad in found.bad], found.scores.shape
        ([1, 3], [0, 2], (2, 1))
        """
        known = [part.familiarity for part in parts if part.familiarity is not None]
        return replace(
            parts[0],
            scores=np.concatenate([part.scores for part in parts]),
            kept=[number * size + index for number, part in enumerate(parts) for index in part.kept],
            bad=[
                replace(each, index=number * size + each.index)
                for number, part in enumerate(parts)
                for each in part.bad
            ],
            familiarity=np.concatenate(known) if known else None,
        )

    @property
    def labels(self) -> list[str]:
        """The class with the highest score; the first one if scores are equal."""
        return [self.classes[best] for best in self.scores.argmax(axis=1)]

    @property
    def probabilities(self) -> Floats | None:
        """How probable each class is, if the image is of any of them; None where that cannot be told."""
        return None if self.steepness is None else softmax(self.steepness * self.scores)

    @property
    def none_of_these(self) -> Floats | None:
        """How probable it is that each image is of none of the classes; None where that cannot be told.

        It is told from the first photo on, and better once the model has judged its own photos (`expect`).
        """
        if self.familiarity is None:
            return None
        return Novelty.of(len(self.classes), self.calibration).probabilities(self.familiarity)

    @property
    def unknown(self) -> NDArray[np.bool_] | None:
        """Which images are probably of none of the classes: about 5 % of photos of the classes are, too."""
        none = self.none_of_these
        return None if none is None else none > 0.5

    def each(self) -> Iterator[Prediction]:
        """The prediction for every image, in order.

        >>> found = Predictions(["beagle", "tabby"], np.array([[0.25, 0.75]]), [0], [], steepness=5.0)
        >>> next(found.each()).label, round(next(found.each()).confidence, 2)
        ('tabby', 0.92)
        """
        rows = np.arange(len(self.scores))
        best, sure, none = self.scores.argmax(axis=1), self.probabilities, self.none_of_these
        others = self.scores.copy()
        others[rows, best] = -np.inf
        for row, first, second in zip(rows, best, others.argmax(axis=1), strict=True):
            score, next_score = float(self.scores[row, first]), float(self.scores[row, second])
            alone = first == second
            yield Prediction(
                self.classes[first],
                None if sure is None else float(sure[row, first]),
                None if none is None else bool(none[row] > 0.5),
                None if none is None else float(none[row]),
                score,
                None if alone else self.classes[second],
                None if alone else score - next_score,
            )

    def sets(self, coverage: float) -> list[list[str]]:
        """For every image, the labels that hold the truth with this probability, the most probable first.

        All labels that are as probable as the true label of most photos of the model, when each was judged by
        all the others; at least the most probable one.
        """
        sure = self.probabilities
        if self.calibration is None or not self.calibration.enough or sure is None:
            raise InputError(
                "This model cannot give sets of labels: fewer than ten of its own photos were judged. Let it "
                "learn, or sync, more of them, with the cache of this machine.",
                about="coverage",
            )
        least, order = self.calibration.set_threshold(coverage), np.argsort(-sure, axis=1, kind="stable")
        return [
            [self.classes[i] for at, i in enumerate(ranks) if not at or row[i] >= least]
            for ranks, row in zip(order, sure, strict=True)
        ]
