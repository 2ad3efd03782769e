"""What a model asks its classifier, whether that has its sums or only its weights."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from layup.algebra import Floats


class Scorer(Protocol):
    """Scores of features, and how familiar they are: a `SumsClassifier`, or a `Readout` of one."""

    @property
    def labels(self) -> list[Any]:
        """The classes, sorted."""
        ...

    @property
    def steepness(self) -> float | None:
        """What makes scores probabilities, by rule of thumb; None if there is no such rule."""
        ...

    def scores_of(self, x: NDArray[Any]) -> Floats:
        """The scores of finite features of the right width, one column per class."""
        ...

    def familiarity(self, x: NDArray[Any]) -> Floats | None:
        """How like anything learned each row is; None if it cannot be told."""
        ...
