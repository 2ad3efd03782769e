"""The sums that a model keeps, as an algebra.

For feature vectors Φ (rows of a matrix) with labels y,

    c_y = Σ Φ        over the samples of class y          (prototype sums, eq. 3 without 1/K)
    n_y = Σ 1        over the samples of class y          (counts)
    G   = Σ Φ Φᵀ     over all samples                     (Gram matrix, eq. 7)

`ClassSums` holds c and n, `GramStatistics` adds G. Learning is `update`, un-learning is `revert`,
merging two models is `+`, subtracting a shared part is `−`, naming and dropping classes is `renamed` and
`without_class`; none of them needs earlier samples again, and their order does not matter: up to rounding,
or to the bit where samples are multiples of `steps`.
Nothing here knows about images, λ or file formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup.algebra.class_sums import SOUND, ClassSums, Held
from layup.algebra.labels import Label
from layup.algebra.samples import SUMMABLE, Floats, Samples
from layup.algebra.symmetric import Triangle
from layup.errors import ForgetError, InputError

PENDING = 512
"""How many samples may wait to be added to G: adding more of them together would hardly be cheaper."""


@dataclass(frozen=True)
class _HeldWithGram(Held):
    """The same with G: one triangle, once there is something to keep, and samples yet to be added to it."""

    triangle: Triangle | None = None
    pending: tuple[Samples, ...] = ()
    leftover: int = 0
    """How many samples G holds, with those that wait, beyond those that are counted."""


class GramStatistics(ClassSums):
    """Class sums and the Gram matrix G: all that LayUP keeps.

    One triangle of G is kept, so memory is 8·(d²/2 + C·d) bytes (4·(…) in float32), for any number of
    samples; learning costs d² operations per sample. Every addition writes all of G again, so small batches
    wait until they are enough, or until a file is written, and are added together. Every property of the sums
    includes them.

    >>> a, b = GramStatistics(2), GramStatistics(2)
    >>> a.update([[1.0, 0.0]], ["cat"])
    >>> b.update([[1.0, 2.0]], ["dog"])
    >>> both = a + b
    >>> both.gram.tolist(), both.labels
    ([[2.0, 2.0], [2.0, 4.0]], ['cat', 'dog'])
    >>> (both - b).gram.tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """

    kind = "statistics"
    ARRAYS = ("prototypes", "gram")

    HELD = _HeldWithGram
    _held: _HeldWithGram

    @property
    def gram(self) -> Floats:
        """G, d × d, as a new array. Costs one pass over it, and d² operations per waiting sample."""
        return self._flushed().dense()

    @property
    def samples(self) -> int:
        """How many samples G holds: N, and the `leftover`. Its rank is no higher."""
        return self.total + self._held.leftover

    @property
    def leftover(self) -> int:
        """How many samples of G belong to no class: their class was dropped without a root of its G."""
        return self._held.leftover

    @property
    def trace(self) -> float:
        """The sum of the squares of all values of all samples, tr G, without making G."""
        whole = 0.0 if self._held.triangle is None else self._held.triangle.trace()
        return whole + sum(float((x**2).sum()) for x, _ in self._held.pending)

    @property
    def diagonal(self) -> Floats:
        """The diagonal of G: the sum of the squares of each column, without making G."""
        triangle, waiting = self._held.triangle, self._waiting()
        whole = np.zeros(self.dim) if triangle is None else triangle.diagonal()
        return np.asarray(whole + (waiting**2).sum(axis=0))

    @property
    def rows(self) -> Samples | None:
        """The samples and their labels, if they are so few that all of them still wait to be added to G.

        >>> batch = GramStatistics(2)
        >>> batch.update([[1.0, 0.0], [0.0, 2.0]], ["cat", "dog"])
        >>> batch.rows
        (array([[1., 0.],
               [0., 2.]]), array(['cat', 'dog'], dtype='<U3'))
        """
        if self._held.triangle is not None:
            return None
        labels = [y for _, y in self._held.pending]
        return self._waiting(), np.concatenate(labels) if labels else np.zeros(0)

    @property
    def nbytes(self) -> int:
        """Bytes of learned state in memory, once no sample waits."""
        return super().nbytes + Triangle.nbytes_of(self.dim, self.precision)

    def remove(self, part: Self) -> None:
        """Subtract other sums, after checking that what remains could have been learned.

        The scatter within classes, G − Σ c_y c_yᵀ / n_y, is a sum of squares, and must stay one: an image
        that was never learned, or not under that label, mostly shows as a negative direction (always, while
        there are fewer samples than dimensions and the image is new; not always beyond). And where a class
        loses its last image, its sum must become zero. Costs d³/3.
        """
        if part.leftover > self.leftover:
            raise ForgetError(
                f"Cannot forget {part.leftover} images of classes that were dropped: only {self.leftover} "
                "such images are left here."
            )
        left = self.copy()
        super(GramStatistics, left).remove(part)
        # The backbone's float32 rounding may differ between two readings of an image: about 1e-6 of its size.
        rounding = self.dim * np.finfo(self.precision).eps
        slack = 1e-5 * part.trace + float(rounding) * self.trace
        # A saved file must pass the checks when it is loaded.
        bearable = min(slack, SOUND * left.trace) if left.labels else slack
        emptied = list({*part.labels} - {*left.labels})
        rest = np.subtract(*(sums.prototypes[np.isin(sums.labels, emptied)] for sums in (self, part)))
        if (rest**2).sum() > part.total * slack or not left._could_be_of_samples(bearable):
            raise ForgetError(
                "These images cannot be forgotten: they are not what was learned (another image, label or "
                "backbone), since no images could have the remaining sums. Nothing was changed."
            )
        self._held = left._held

    def without_class(self, label: Label, root: ArrayLike | None = None) -> Self:
        """New sums without a class; `ForgetError` if there is no such class.

        `root` are rows R with RᵀR = Σ Φ Φᵀ over the samples of that class: the samples themselves, or the
        root that `ClassRoots` keeps. With it, it is as if the class had never been learned; this is checked
        as in `remove`. Without it, c and n are exact, but G keeps the samples of the class: they take part in
        every solution as samples of none of the classes (their targets are zero), and are counted as
        `leftover`.

        >>> sums = GramStatistics(2)
        >>> sums.update([[1.0, 0.0], [0.0, 2.0]], ["cat", "dog"])
        >>> sums.without_class("cat", root=[[1.0, 0.0]]).gram.tolist()
        [[0.0, 0.0], [0.0, 4.0]]
        >>> without = sums.without_class("cat")
        >>> without.gram.tolist(), without.leftover
        ([[1.0, 0.0], [0.0, 4.0]], 1)
        """
        if root is None:
            return super().without_class(label)
        rows, part = np.asarray(root, self.precision), self._only(label)
        if rows.ndim != 2 or rows.shape[1] != self.dim or not np.isfinite(rows).all():
            raise InputError(
                f"The root of a class must be a table of finite numbers with {self.dim:,} columns, "
                f"but its shape is {rows.shape}."
            )
        whole = Triangle.zeros(self.dim, self.precision).plus_rows(rows)
        if self.steps is not None:  # a root is rounded, but what it is the root of is known to be whole
            whole = self.steps.nearest_gram(whole)
        part._held = replace(part._held, triangle=whole, leftover=0)
        result = self.copy()
        result.remove(part)
        return result

    def within_class_scatter(self) -> Floats:
        """S_W = G − Σ c_y c_yᵀ / n_y: how samples vary around the mean of their class."""
        scatter = self.gram
        scatter -= self.prototypes.T @ self.means
        return scatter

    @property
    def room(self) -> int | None:
        """How many more samples like these can be summed exactly; None if the sums are not exact.

        >>> sums = GramStatistics(1, steps={"features": 0})
        >>> sums.update([[2.0**20]] * 3, ["cat"] * 3)
        >>> sums.room
        4093
        """
        if self.steps is None or not self.samples:
            return None
        used = self.steps.used(self.diagonal)
        return int(self.samples / used) - self.samples if used else None

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The sums as a JSON-able header and arrays, G as one triangle."""
        header, arrays = super().state()
        self._flush()
        if self.leftover:
            header["leftover"] = self.leftover
        return header, {**arrays, "gram": self._flushed().packed()}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `state`."""
        sums = super().from_state(header, arrays)
        triangle = Triangle.from_packed(arrays["gram"], sums.dim)
        sums._held = replace(sums._held, triangle=triangle, leftover=header.get("leftover", 0))
        sums._require_sound()
        if sums.steps is not None:
            sums.steps.require_sound(arrays["prototypes"], triangle)
        return sums

    def _require_sound(self) -> None:
        """Refuse sums that no samples can have. Costs d³/3 operations."""
        most = SUMMABLE[self.precision][1] ** 2 * float(self.total) * self.dim
        if not 0 <= self.trace <= most or (not self.labels and (self.trace or self.samples)):
            raise ValueError("its G is not that of its classes")
        if not self._could_be_of_samples(SOUND * self.trace):
            raise ValueError("its G and class sums are not those of any images")

    def _could_be_of_samples(self, slack: float) -> bool:
        """Whether S_W has no eigenvalue below −slack. Made below its diagonal only, in half the time."""
        roots = self.prototypes / np.sqrt(self.counts)[:, None]
        return is_positive(self._flushed().plus_rows(roots, sign=-1).lower(), slack)

    @classmethod
    def _shapes(cls, classes: int, dim: int) -> dict[str, tuple[int, ...]]:
        return {**super()._shapes(classes, dim), "gram": (dim * (dim + 1) // 2,)}

    def _sums_of(self, x: Floats, y: NDArray[Any]) -> Self:
        sums = super()._sums_of(x, y)
        sums._held = replace(sums._held, pending=((x, y.copy()),))
        return sums

    def _combined(self, other: Self, sign: int) -> _HeldWithGram:
        new = super()._combined(other, sign)

        def with_gram(triangle: Triangle | None, pending: tuple[Samples, ...] = ()) -> _HeldWithGram:
            leftover = mine.leftover + sign * theirs.leftover
            return _HeldWithGram(new.labels, new.counts, new.rows, triangle, pending, leftover)

        mine, theirs = self._held, other._held
        if not new.labels:  # nothing is left: not even rounding
            return _HeldWithGram()
        if sign < 0:
            whole, few = self._flushed(), theirs.triangle is None
            return with_gram(whole.plus_rows(other._waiting(), sign=-1) if few else whole - other._flushed())
        triangle, pending = mine.triangle, mine.pending
        if theirs.triangle is not None:
            if pending:
                triangle = self._flushed()  # first come, first added
            triangle = theirs.triangle if triangle is None else triangle + theirs.triangle
            pending = theirs.pending
            self._require_room(triangle)
        else:
            pending += theirs.pending
        both = self.empty()
        both._held = with_gram(triangle, pending)
        if sum(len(x) for x, _ in pending) > PENDING:
            both._flush()
        return both._held

    def _renamed(self, classes: Held) -> _HeldWithGram:
        # Waiting samples would have to be renamed too: they are added to G.
        whole, left = self._flushed(), self.leftover
        return _HeldWithGram(classes.labels, classes.counts, classes.rows, whole, leftover=left)

    def _only(self, label: Label) -> Self:
        part = super()._only(label)
        part._held = replace(part._held, leftover=-part.total)  # its G holds none of them
        return part

    def _take(self, source: Self, columns: NDArray[Any]) -> None:
        super()._take(source, columns)
        self._held = replace(self._held, leftover=source.leftover)
        if source._held.triangle is None:  # a small batch stays one
            pending = tuple((x[:, columns], y) for x, y in source._held.pending)
            self._held = replace(self._held, pending=pending)
        else:
            source._flush()  # once, not in every part that is taken
            self._held = replace(self._held, triangle=source._flushed().take(columns))

    def _flushed(self) -> Triangle:
        """G with all samples in it."""
        triangle = self._held.triangle or Triangle.zeros(self.dim, self.precision)
        return triangle.plus_rows(self._waiting()) if self._held.pending else triangle

    def _flush(self) -> None:
        """Add all waiting samples to G."""
        triangle = self._flushed()
        self._require_room(triangle)
        self._held = replace(self._held, triangle=triangle, pending=())

    def _require_room(self, triangle: Triangle) -> None:
        if self.steps is not None:
            self.steps.require_room(triangle)

    def _waiting(self) -> Floats:
        """The waiting feature vectors."""
        return np.concatenate([np.zeros((0, self.dim), self.precision), *(x for x, _ in self._held.pending)])


def is_positive(matrix: Floats, slack: float) -> bool:
    """Whether a symmetric matrix, of which only the lower half is read, has no eigenvalue below −slack.

    Overwrites it. Costs one Cholesky.
    """
    matrix[np.diag_indices(len(matrix))] += slack + np.finfo(float).tiny
    if not np.isfinite(matrix).all():
        return False
    try:
        # LAPACK takes NaN for positive, for example from values whose squares overflow.
        return bool(np.isfinite(np.linalg.cholesky(matrix)).all())
    except np.linalg.LinAlgError:
        return False
