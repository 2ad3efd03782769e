"""What a model gets wrong: which classes it takes for which, and which photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from layup.formats import csv_text

if TYPE_CHECKING:
    from layup.algebra import Floats
    from layup.images import ImageSource

COLUMNS = ("path", "truth", "prediction", "score", "truth_score", "margin")


@dataclass(frozen=True)
class Pair:
    """Two classes that are confused: how many images of the first were predicted as the second."""

    truth: str
    predicted: str
    count: int
    of: int
    """How many images of the true class there are."""

    def to_dict(self) -> dict[str, object]:
        """As JSON has it."""
        return {"truth": self.truth, "predicted": self.predicted, "count": self.count, "of": self.of}


def confused_pairs(labels: Sequence[str], table: NDArray[np.int64]) -> list[Pair]:
    """All pairs of classes that were confused, the most frequent first, of equal ones the largest share.

    `labels` and `table` are those of `metrics.confusion`.

    >>> confused_pairs(["cat", "dog"], np.array([[3, 1], [2, 2]]))[0]
    Pair(truth='dog', predicted='cat', count=2, of=4)
    """
    off = table.copy()
    np.fill_diagonal(off, 0)
    truth, predicted = np.nonzero(off)
    counts, sizes = off[truth, predicted], table.sum(axis=1)[truth]
    order = np.lexsort((predicted, truth, sizes, -counts))  # of equal counts, the smaller class has more
    return [
        Pair(labels[truth[i]], labels[predicted[i]], int(counts[i]), int(sizes[i])) for i in order.tolist()
    ]


@dataclass(frozen=True)
class Mistake:
    """An image whose prediction is wrong."""

    image: ImageSource
    truth: str
    predicted: str
    score: float
    """Of the prediction."""
    truth_score: float | None
    """Of the true class; None if it was never learned."""

    @property
    def margin(self) -> float | None:
        """By how much the prediction beats the truth."""
        return None if self.truth_score is None else self.score - self.truth_score


def mistakes(
    images: Sequence[ImageSource], truth: Sequence[str], classes: Sequence[str], scores: Floats
) -> list[Mistake]:
    """All wrong predictions, the most confident first: those that beat the truth by the largest margin.

    Row i of `scores` belongs to image i, column j to class j. Images of classes that were never learned come
    last: they cannot be right, so they say less about the model.

    >>> scores = np.array([[0.9, 0.1], [0.6, 0.5]])
    >>> [each.image for each in mistakes(["a.jpg", "b.jpg"], ["dog", "dog"], ["cat", "dog"], scores)]
    ['a.jpg', 'b.jpg']
    """
    column = {label: i for i, label in enumerate(classes)}
    found = []
    for image, label, row, best in zip(images, truth, scores, scores.argmax(axis=1), strict=True):
        if classes[best] != label:
            own = float(row[column[label]]) if label in column else None
            found.append(Mistake(image, label, classes[best], float(row[best]), own))
    return sorted(found, key=_confidence, reverse=True)  # stable: equal ones stay in the order of the images


def _confidence(mistake: Mistake) -> tuple[bool, float]:
    margin = mistake.margin
    return margin is not None, mistake.score if margin is None else margin


def mistakes_csv(found: Sequence[Mistake]) -> str:
    """Mistakes as CSV, in their order; cells are empty where the true class was never learned.

    >>> print(mistakes_csv([Mistake("a.jpg", "dog", "cat", 0.75, 0.25)]), end="")
    path,truth,prediction,score,truth_score,margin
    a.jpg,dog,cat,0.75,0.25,0.5
    """
    rows = (
        (str(each.image), each.truth, each.predicted, each.score, each.truth_score, each.margin)
        for each in found
    )
    return csv_text([COLUMNS, *rows])
