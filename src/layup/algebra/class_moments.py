"""One sum, one matrix of second moments and one count per class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from layup.algebra.class_sums import SOUND, ClassSums
from layup.algebra.labels import distinct, require_learned
from layup.algebra.samples import SUMMABLE, Floats
from layup.algebra.statistics import is_positive
from layup.algebra.symmetric import Triangle, triangle_size
from layup.errors import ForgetError


class ClassMoments(ClassSums):
    """Class sums, and for each class the Gram matrix of its own samples, M_y = Σ Φ Φᵀ.

    To the sum of a class, one triangle of M_y is appended: whatever holds for sums holds for both. Memory is
    8·C·(d²/2 + d) bytes, for any number of samples; learning costs d² operations per sample. A class can be
    dropped exactly, without its samples.

    >>> moments = ClassMoments(2)
    >>> moments.update([[1.0, 0.0], [3.0, 4.0], [1.0, 1.0]], ["cat", "cat", "dog"])
    >>> moments.prototypes.tolist(), moments.covariance("cat").tolist()
    ([[4.0, 4.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]])
    >>> moments.without_class("cat").moments.tolist()
    [[1.0, 1.0, 1.0]]
    """

    kind = "class moments"
    ARRAYS: ClassVar[tuple[str, ...]] = ("prototypes", "moments")

    @property
    def values_per_class(self) -> int:
        """How many values each class takes."""
        return self.dim + triangle_size(self.dim)

    @property
    def prototypes(self) -> Floats:
        """The sum of the feature vectors of each class, C × dim, as a new array."""
        rows = [row[: self.dim] for row in self._held.rows]
        return np.array(rows, self.precision).reshape(len(rows), self.dim)

    @property
    def moments(self) -> Floats:
        """One triangle of the matrix of each class, C × d(d+1)/2, as a new array."""
        rows = [row[self.dim :] for row in self._held.rows]
        return np.array(rows, self.precision).reshape(len(rows), triangle_size(self.dim))

    def class_gram(self, label: Any) -> Floats:
        """M_y, d × d, as a new array."""
        return Triangle.from_packed(self._by_label()[label][1][self.dim :], self.dim).dense()

    def covariance(self, label: Any) -> Floats:
        """M_y / n_y − μ_y μ_yᵀ, d × d, as a new array."""
        count, row = self._by_label()[label]
        mean = row[: self.dim] / count
        return np.asarray(self.class_gram(label) / count - np.outer(mean, mean))

    def class_trace(self, label: Any) -> float:
        """The sum of the squares of all values of all samples of a class."""
        row = self._by_label()[label][1]
        return float(row[self.dim :][np.arange(1, self.dim + 1).cumsum() - 1].sum())

    def remove(self, part: Self) -> None:
        """Subtract other sums, after checking that what remains of each class could have been learned.

        As for `GramStatistics.remove`, but for each class by itself. Costs d³/3 per class of the part.
        """
        require_learned(part.count_by_label(), self.count_by_label())
        left = self.without(part)
        for label in part.labels:
            rounding = self.dim * float(np.finfo(self.precision).eps) * self.class_trace(label)
            slack = 1e-5 * part.class_trace(label) + rounding
            if not self._leaves(left, part, label, slack):
                raise ForgetError(
                    f"These images of {label!r} cannot be forgotten: they are not what was learned (another "
                    "image, label or backbone), since no images could have the remaining sums. Nothing was "
                    "changed."
                )
        self._held = left._held

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The sums as a JSON-able header and arrays, each matrix as one triangle."""
        header, arrays = super().state()
        return header, {**arrays, "moments": self.moments}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `state`. Costs d³/3 per class, to check that these are moments of samples."""
        sums = super().from_state(header, arrays)
        pairs = zip(sums._held.rows, arrays["moments"], strict=True)
        sums._held = replace(sums._held, rows=[np.concatenate(pair) for pair in pairs])
        for label in sums.labels:
            if not sums._could_be_of_samples(label, SOUND * sums.class_trace(label)):
                raise ValueError(f"its moments of {label!r} are not those of any images")
        return sums

    def _leaves(self, left: Self, part: Self, label: Any, slack: float) -> bool:
        """Whether subtracting the part leaves what samples of a class could have: zeros, if none is left."""
        if label in left.labels:
            return left._could_be_of_samples(label, min(slack, SOUND * left.class_trace(label)))
        rest = np.subtract(*(sums._by_label()[label][1][: self.dim] for sums in (self, part)))
        return bool((rest**2).sum() <= part.count_by_label()[label] * slack)

    def _could_be_of_samples(self, label: Any, slack: float) -> bool:
        """Whether the scatter of a class has no eigenvalue below −slack, and its trace is that of samples."""
        count = self.count_by_label()[label]
        most = SUMMABLE[self.precision][1] ** 2 * float(count) * self.dim
        within = 0 <= self.class_trace(label) <= most
        return within and is_positive(self.covariance(label), slack / count)

    @classmethod
    def _shapes(cls, classes: int, dim: int) -> dict[str, tuple[int, ...]]:
        return {**super()._shapes(classes, dim), "moments": (classes, triangle_size(dim))}

    def _sums_of(self, x: Floats, y: NDArray[Any]) -> Self:
        sums = super()._sums_of(x, y)
        index = distinct(y)[1]
        nothing = Triangle.zeros(self.dim, self.precision)
        rows = [
            np.concatenate([row, nothing.plus_rows(x[index == i]).packed()])
            for i, row in enumerate(sums._held.rows)
        ]
        sums._held = replace(sums._held, rows=rows)
        return sums

    def _take(self, source: Self, columns: NDArray[Any]) -> None:
        super()._take(source, columns)
        dim = source.dim
        taken = [Triangle.from_packed(row[dim:], dim).take(columns).packed() for row in source._held.rows]
        pairs = zip(self._held.rows, taken, strict=True)
        self._held = replace(self._held, rows=[np.concatenate(pair) for pair in pairs])
