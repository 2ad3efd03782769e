"""What predicting takes of sums, and no more: weights, and for the default classifier a sketch of lengths.

Scores are linear in a sample x, so W and what is added are all that they need. How familiar x is to the
default classifier is a cosine after whitening, (x − m)ᵀ R (μ_y − m) / ‖μ_y − m‖_R / ‖x − m‖_R. Its numerator
is linear too, with one direction per class. But the length ‖x − m‖_R needs all of R, and whoever has R and
these directions can compute the sums. So a readout holds a *sketch* instead (Johnson and Lindenstrauss): r
random projections of whitened vectors,

    ‖x − m‖_R ≈ ‖S (x − m)‖     S = √(D / r) P F with R = FᵀF, and r orthonormal random rows P of D values.

The relative error of a length is about 1 / √(2 r), the same for any sums: 4 % for 256 rows. Scores, labels
and confidences do not depend on it. P follows from a hash of the sums: equal sums give equal files, and only
who has the sums can know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layup.algebra.samples import Floats, require_summable

SKETCH = 256
"""How many random projections are kept, but at most one for two dimensions."""
TIE = 1e-12
"""Scores that differ by less than this, as a share of them, are equal."""


def rank_for(dim: int) -> int:
    """How many random projections are kept of so many dimensions.

    >>> rank_for(2368), rank_for(128)
    (256, 64)
    """
    return max(1, min(SKETCH, dim // 2))


def level(scores: Floats) -> Floats:
    """Scores of each row, the highest of them equal where they are but for rounding.

    >>> level(np.array([[1.0, 1.0 + 1e-15, 0.5]])).argmax()
    np.int64(0)
    """
    highest = scores.max(axis=1, keepdims=True)
    return np.where(scores >= highest - TIE * np.abs(highest), highest, scores)


@dataclass(frozen=True)
class Nearness:
    """How like any class a sample is: cosines after whitening, with sketched lengths.

    directions: d × C, and what is subtracted, C: the numerators. sketch: Sᵀ, d × r, and S m, r.
    """

    directions: Floats
    around: Floats
    sketch: Floats
    origin: Floats

    @classmethod
    def of(
        cls,
        whitened: Callable[[Floats], Floats],
        centre: Floats,
        directions: Floats,
        around: Floats,
        *,
        rank: int,
        key: str,
    ) -> Nearness:
        """From a function that whitens rows, and the centre m; the hash `key` decides the projections."""
        factor = whitened(np.eye(len(centre)))  # Fᵀ
        drawn = np.random.default_rng(int(key, 16)).normal(size=(factor.shape[1], rank))
        projections = np.linalg.qr(drawn)[0]
        sketch = factor @ projections * (factor.shape[1] / rank) ** 0.5
        each = (directions, around, sketch, centre @ sketch)
        return cls(*(np.ascontiguousarray(array, np.float32) for array in each))

    def familiarity(self, x: Floats) -> Floats:
        """The largest cosine of each row; −1 to 1."""
        lengths = np.linalg.norm(x @ self.sketch - self.origin, axis=1)
        lengths[lengths == 0] = np.inf
        cosines = (x @ self.directions - self.around) / lengths[:, None]
        return np.asarray(cosines.max(axis=1).clip(-1, 1))


@dataclass(frozen=True)
class Readout:
    """A classifier without its sums: it predicts, explains by layer, and cannot be taught.

    kind: of the classifier that it was made from. labels, layers: of the columns of scores and of samples.
    weights, offsets: W, d × C, and what is added, C. average: what each layer of the average sample says,
    layers × C. metric: for nearest means, what is made of x W + offsets: "cosine" divides by the length of x,
    "euclidean" is the negative distance. steepness: what makes scores probabilities, if there is a rule.
    nearness: of the default classifier, how familiar samples are.

    >>> from layup.algebra import RidgeClassifier
    >>> X = np.array([[1.0, 0.1], [0.9, 0.0], [0.1, 1.0], [0.0, 0.8]])
    >>> model = RidgeClassifier(lam=0.1).fit(X, ["cat", "cat", "dog", "dog"])
    >>> readout = model.readout()
    >>> bool(np.allclose(readout.scores_of(X), model.scores(X)))
    True
    """

    kind: str
    labels: list[Any]
    layers: Mapping[str, int]
    weights: Floats
    offsets: Floats
    average: Floats
    metric: str | None = None
    steepness: float | None = None
    nearness: Nearness | None = None

    def scores_of(self, x: NDArray[Any]) -> Floats:
        """The scores of finite features of the right width."""
        require_summable(x, "float64")
        rows = x.astype(np.float64)
        scores = np.asarray(rows @ self.weights + self.offsets)
        if self.metric == "cosine":
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            return np.asarray(scores / np.where(lengths > 0, lengths, 1.0))
        if self.metric == "euclidean":
            return np.asarray(-np.sqrt(np.maximum((rows**2).sum(axis=1, keepdims=True) - 2 * scores, 0.0)))
        return scores if self.nearness is None else level(scores)

    def familiarity(self, x: NDArray[Any]) -> Floats | None:
        """How like anything learned each row is, from −1 to 1; None if it cannot be told."""
        return None if self.nearness is None else self.nearness.familiarity(x.astype(np.float64))

    def parts(self, x: NDArray[Any]) -> dict[str, Floats] | None:
        """What each layer of a sample says for each class, beyond the average one; None if it cannot be told.

        With the scores of the average sample, they add up to the scores.
        """
        if self.metric is not None:
            return None
        return {
            name: x[span] @ self.weights[span] - average
            for (name, span), average in zip(self._spans.items(), self.average, strict=True)
        }

    @property
    def average_scores(self) -> Floats:
        """The scores of the average sample."""
        return np.asarray(self.average.sum(axis=0) + self.offsets)

    @cached_property
    def _spans(self) -> dict[str, slice]:
        return spans(self.layers)


def spans(layers: Mapping[str, int]) -> dict[str, slice]:
    """Where each layer is in a sample.

    >>> spans({"shallow": 1, "deep": 2})
    {'shallow': slice(0, 1, None), 'deep': slice(1, 3, None)}
    """
    ends = np.cumsum([*layers.values()]).tolist()
    return {name: slice(end - width, end) for (name, width), end in zip(layers.items(), ends, strict=True)}
