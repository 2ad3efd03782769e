"""How often predictions of labelled images are right, and where they are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from layup.algebra import wilson
from layup.benchmark import metrics
from layup.benchmark.mistakes import Mistake, Pair, confused_pairs, mistakes
from layup.images import require_one_label_each

if TYPE_CHECKING:
    from layup.images import ImageSource
    from layup.model import Predictions


@dataclass(frozen=True)
class ClassScore:
    """How many images a class has, and how many of them are right."""

    images: int
    right: int

    @property
    def accuracy(self) -> float:
        """The share that is right."""
        return self.right / self.images

    def to_dict(self) -> dict[str, object]:
        """As JSON has it."""
        return {"accuracy": self.accuracy, "images": self.images, "right": self.right}


@dataclass(frozen=True)
class Evaluation:
    """Predictions of images beside their true classes. Images that could not be used do not count.

    images, labels: all that were predicted, and the true class of each.
    found: what `ImageModel.predictions` gave for them.

    >>> from layup.model import Predictions
    >>> scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> found = Predictions(["cat", "dog"], scores, kept=[0, 1, 2], bad=[])
    >>> evaluation = Evaluation(["1.jpg", "2.jpg", "3.jpg"], ["cat", "dog", "eel"], found)
    >>> evaluation.accuracy, evaluation.accuracy_known_classes, evaluation.unknown
    (0.3333333333333333, 0.5, ['eel'])
    """

    images: Sequence[ImageSource]
    labels: Sequence[str]
    found: Predictions

    def __post_init__(self) -> None:
        require_one_label_each(self.images, self.labels)

    @cached_property
    def truth(self) -> list[str]:
        """The true classes of the images that could be used."""
        return [self.labels[i] for i in self.found.kept]

    @cached_property
    def confusion(self) -> tuple[list[str], NDArray[np.int64]]:
        """See `metrics.confusion`."""
        return metrics.confusion(self.truth, self.found.labels)

    @cached_property
    def accuracy(self) -> float:
        """The share of right predictions."""
        return metrics.accuracy(self.truth, self.found.labels)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Where the accuracy on very many such images lies, in 95 of 100 cases (Wilson's interval)."""
        return wilson(sum(score.right for score in self.per_class.values()), len(self.truth))

    @cached_property
    def unknown(self) -> list[str]:
        """Classes that were never learned, so that their images cannot be right."""
        return sorted(set(self.truth) - set(self.found.classes))

    @cached_property
    def images_of_known_classes(self) -> int:
        """How many images have a class that was learned."""
        return sum(score.images for label, score in self.per_class.items() if label not in self.unknown)

    @cached_property
    def accuracy_known_classes(self) -> float | None:
        """The share of right predictions among the images whose class was learned; None if there are none."""
        right = sum(score.right for score in self.per_class.values())  # only known classes are ever right
        return right / self.images_of_known_classes if self.images_of_known_classes else None

    @cached_property
    def per_class(self) -> dict[str, ClassScore]:
        """The score of each true class, the worst first; of equal ones the one with the most images wrong."""
        labels, table = self.confusion
        sizes, right = table.sum(axis=1).tolist(), table.diagonal().tolist()
        scores = {label: ClassScore(sizes[i], right[i]) for i, label in enumerate(labels) if sizes[i]}
        return dict(sorted(scores.items(), key=lambda item: (item[1].accuracy, -item[1].images, item[0])))

    @cached_property
    def pairs(self) -> list[Pair]:
        """Which classes are taken for which, the most frequent first."""
        return confused_pairs(*self.confusion)

    @cached_property
    def mistakes(self) -> list[Mistake]:
        """All wrong predictions, the most confident first."""
        usable = [self.images[i] for i in self.found.kept]
        return mistakes(usable, self.truth, self.found.classes, self.found.scores)

    def to_dict(self) -> dict[str, object]:
        """All numbers, as JSON has them."""
        return {
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "images": len(self.truth),
            "accuracy_known_classes": self.accuracy_known_classes,
            "images_of_known_classes": self.images_of_known_classes,
            "unknown_classes": self.unknown,
            "per_class": {label: score.to_dict() for label, score in self.per_class.items()},
            "confused": [pair.to_dict() for pair in self.pairs],
        }
