"""The sums that a model keeps, as an algebra.

For feature vectors Φ (rows of a matrix) with labels y,

    c_y = Σ Φ        over the samples of class y          (prototype sums, eq. 3 without 1/K)
    n_y = Σ 1        over the samples of class y          (counts)
    G   = Σ Φ Φᵀ     over all samples                     (Gram matrix, eq. 7)

`ClassSums` holds c and n, `GramStatistics` adds G. Learning is `update`, un-learning is `revert`,
merging two models is `+`, subtracting a shared part is `−`, naming and dropping classes is `renamed` and
`without_class`; none of them needs earlier samples again, and their order does not matter (up to rounding).
Nothing here knows about images, λ or file formats.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup import schema, storage
from layup.algebra.symmetric import Triangle
from layup.errors import ForgetError, InputError, MismatchError
from layup.registry import unknown_name
from layup.storage import Declarations, Declared

Floats: TypeAlias = NDArray[np.floating[Any]]
"""float64, or float32 where that was chosen."""
Samples: TypeAlias = tuple[Floats, NDArray[Any]]
"""Feature vectors, n × d, and their n labels."""
Label: TypeAlias = Hashable
T = TypeVar("T")

CHUNK = 1024
"""Rows converted to float64 at a time: a batch of any size needs one chunk of extra memory."""
PENDING = 512
"""How many samples may wait to be added to G: adding more of them together would hardly be cheaper."""

MOST = 2**53
"""The largest count of a class in a file: beyond it, floats cannot tell a whole number from the next."""
SOUND = 1e-3
"""A share of the trace of G: how far below zero rounding may have brought the scatter within classes.

Sums alone stay within d·ε of it. Images that are read again to be forgotten differ by a millionth, so this
leaves room for hundreds of forgotten images per image that stays.
"""

PRECISIONS = ("float64", "float32")
"""What sums may be kept in. float32 is there to compare with other code: it loses what small λ need."""
SUMMABLE = {"float64": (1e-60, 1e60), "float32": (1e-15, 1e7)}
"""The range, from m to M, for the size of the largest value of a sample, unless all its values are zero.

Then nothing overflows or vanishes with N = 10⁹ samples of d = 10⁵ values. float64 reaches from 10⁻³⁰⁸ to
10³⁰⁸ with ε = 2·10⁻¹⁶, float32 from 10⁻³⁸ to 3·10³⁸ with ε = 10⁻⁷; smaller numbers lose their digits.

- float64: norms of G and of its inverse are taken, squares of sums of squares. (N d M²)² = 10²⁶⁸, and of the
  smallest eigenvalue that can be told from zero (ε m²)² = 10⁻²⁷¹. All that float32 can hold is within.
- float32: no norm is taken. The square of a sum of N samples, N² d M², is 10³⁷; ε m² = 10⁻³⁷.

Other values of the sample may be of any size: next to the largest, those that vanish are only rounding.
"""


def _is_sorted(labels: Any) -> bool:
    """Whether these are labels of one type, in order, each once."""
    if not isinstance(labels, list) or not {*map(type, labels)} <= {str, int, float, bool}:
        return False
    try:
        return labels == sorted({*labels})
    except TypeError:  # text and numbers
        return False


LAYER = schema.Rule(
    "a name and a width",
    lambda value: (
        isinstance(value, list)
        and len(value) == 2
        and schema.LABEL.holds(value[0])
        and schema.whole(1).holds(value[1])
    ),
)
HEADER: dict[str, schema.Shape] = {
    "layers": [LAYER],
    "labels": schema.Rule("a list of labels of one type, sorted, each once", _is_sorted),
    "counts": [schema.whole(1, MOST)],
    "leftover?": schema.whole(1, MOST),
}
"""The shape of the header of sums; `leftover` is that of `GramStatistics`."""


@dataclass(frozen=True)
class _Held:
    """What sums hold. It is immutable and replaced as a whole: an interruption leaves all or nothing."""

    labels: list[Any] = field(default_factory=list)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: list[Floats] = field(default_factory=list)
    """The sum of each class."""


@dataclass(frozen=True)
class _HeldWithGram(_Held):
    """The same with G: one triangle, once there is something to keep, and samples yet to be added to it."""

    triangle: Triangle | None = None
    pending: tuple[Samples, ...] = ()
    leftover: int = 0
    """How many samples G holds, with those that wait, beyond those that are counted."""


class ClassSums:
    """One sum of feature vectors and one count per label; labels are kept sorted.

    Args:
        layers: the width of every block of columns by name, or only the number of columns.
        precision: of the sums, "float64" or "float32".

    >>> sums = ClassSums(2)
    >>> sums.update([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ["b", "a", "b"])
    >>> sums.labels, sums.counts.tolist(), sums.prototypes.tolist()
    (['a', 'b'], [1, 2], [[3.0, 4.0], [6.0, 8.0]])
    """

    kind = "class sums"
    ARRAYS: ClassVar[tuple[str, ...]] = ("prototypes",)
    """The names of the arrays of `state`."""

    def __init__(self, layers: Mapping[str, int] | int, precision: str = "float64") -> None:
        require_precision(precision)
        self.layers: dict[str, int] = {"features": layers} if isinstance(layers, int) else dict(layers)
        self.precision = precision
        self.dim = sum(self.layers.values())
        self._held = _Held()

    @property
    def labels(self) -> list[Any]:
        """The classes, sorted."""
        return self._held.labels

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many samples each class has."""
        return self._held.counts

    def count_by_label(self) -> dict[Any, int]:
        """How many samples each class has, by its label."""
        return dict(zip(self.labels, self.counts.tolist(), strict=True))

    @property
    def prototypes(self) -> Floats:
        """The sum of the feature vectors of each class, C × dim, as a new array."""
        return np.array(self._held.rows, self.precision).reshape(len(self.labels), self.dim)

    @property
    def total(self) -> int:
        """How many samples the sums hold, N."""
        return int(self.counts.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of learned state in memory."""
        return sum(row.nbytes for row in self._held.rows) + self.counts.nbytes

    def update(self, features: ArrayLike, labels: ArrayLike) -> None:
        """Learn: add the samples (n × dim) with their n labels."""
        for x, y in self._chunks(features, labels):
            self._accumulate(self._sums_of(x, y), +1)

    def add(self, other: Self) -> None:
        """Learn what other sums hold, in one step: an interruption leaves these sums as they were."""
        self._accumulate(other, +1)

    def revert(self, features: ArrayLike, labels: ArrayLike) -> None:
        """Un-learn: subtract samples again; see `remove`."""
        gone = self.empty()
        gone.update(features, labels)
        self.remove(gone)

    def remove(self, part: Self) -> None:
        """Subtract other sums from these; a class left without samples disappears.

        Raises `ForgetError`, and changes nothing, if a class never had that many samples.
        """
        require_learned(part.count_by_label(), self.count_by_label())
        self._accumulate(part, -1)

    def without(self, part: Self) -> Self:
        """`−`, for a part that is known to be in these sums: of what `remove` checks, only the counts are.

        Costs one pass over G, where `−` costs d³/3.

        >>> sums, part = ClassSums(1), ClassSums(1)
        >>> sums.update([[1.0], [2.0]], ["cat", "dog"])
        >>> part.update([[2.0]], ["dog"])
        >>> sums.without(part).labels
        ['cat']
        """
        require_learned(part.count_by_label(), self.count_by_label())
        result = self.empty()
        result._held = self._combined(part, -1)
        return result

    def renamed(self, old: Label, new: Label) -> Self:
        """New sums where the class `old` is called `new`; if there is a class `new`, the two become one.

        What learning with the new label would have given. Raises `ForgetError` if there is no class `old`.

        >>> sums = ClassSums(1)
        >>> sums.update([[1.0], [2.0], [5.0]], ["cat", "kitten", "dog"])
        >>> merged = sums.renamed("kitten", "cat")
        >>> merged.labels, merged.counts.tolist(), merged.prototypes.tolist()
        (['cat', 'dog'], [2, 1], [[3.0], [5.0]])
        """
        sums = moved(self._by_label(), old, new, lambda one, two: (one[0] + two[0], one[1] + two[1]))
        result = self.empty()
        result._held = self._renamed(_aligned([*sums], sums))
        return result

    def without_class(self, label: Label) -> Self:
        """New sums without a class; `ForgetError` if there is no such class.

        >>> sums = ClassSums(1)
        >>> sums.update([[1.0], [2.0]], ["cat", "dog"])
        >>> sums.without_class("cat").labels
        ['dog']
        """
        return self.without(self._only(label))

    def empty(self) -> Self:
        """Sums of the same layers and precision that hold nothing."""
        return type(self)(self.layers, self.precision)

    def copy(self) -> Self:
        """An independent copy."""
        return self + self.empty()

    def __add__(self, other: Self) -> Self:
        result = self.empty()
        result._accumulate(self, +1)
        result._accumulate(other, +1)
        return result

    def __sub__(self, other: Self) -> Self:
        result = self.copy()
        result.remove(other)
        return result

    def select(self, layers: Sequence[str]) -> Self:
        """The sums that learning with only these layers would have given, without any data.

        >>> sums = ClassSums({"shallow": 1, "deep": 2})
        >>> sums.update([[1.0, 2.0, 3.0]], ["a"])
        >>> sums.select(["deep"]).prototypes.tolist()
        [[2.0, 3.0]]
        """
        chosen = type(self)({name: self._width(name) for name in layers}, self.precision)
        chosen._take(self, self.columns(chosen.layers))
        return chosen

    def columns(self, layers: Iterable[str]) -> NDArray[np.int64]:
        """Where these layers are in a feature vector.

        >>> ClassSums({"shallow": 1, "deep": 2}).columns(["deep"]).tolist()
        [1, 2]
        """
        starts = dict(zip(self.layers, np.cumsum([0, *self.layers.values()]), strict=False))
        indices = [np.arange(self._width(name)) + starts[name] for name in layers]
        return np.concatenate(indices) if indices else np.zeros(0, np.int64)

    def span(self, layers: Sequence[str]) -> slice:
        """Where contiguous layers are in a feature vector: a slice of it is not copied.

        >>> ClassSums({"shallow": 1, "deep": 2, "head": 3}).span(["deep", "head"])
        slice(1, 6, None)
        """
        columns = self.columns(layers)
        if not len(columns) or (np.diff(columns) != 1).any():
            raise InputError(f"These layers are not contiguous: {', '.join(layers) or 'none'}.")
        return slice(int(columns[0]), int(columns[-1]) + 1)

    def save(self, path: str | Path) -> None:
        """Write the sums to a file, atomically. Labels must be text, numbers or booleans."""
        header, arrays = self.state()
        storage.write(path, self.kind, header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote, and check that it can be the sums of samples."""
        header, arrays = storage.read(path, cls.kind, cls.require_declared)
        try:
            return cls.from_state(header, arrays)
        except ValueError as error:
            raise storage.damaged(path, str(error)) from error

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The sums as a JSON-able header and arrays."""
        require_writable(self.labels)
        header = {
            "layers": [[name, width] for name, width in self.layers.items()],
            "labels": self.labels,
            "counts": self.counts.tolist(),
        }
        return header, {"prototypes": self.prototypes}

    @classmethod
    def require_declared(cls, header: Mapping[str, Any], declared: Declarations) -> None:
        """Raise a `ValueError` for a header, and declared arrays, that `state` cannot have returned."""
        for field_name, rule in HEADER.items():
            name = field_name.removesuffix("?")
            if name == field_name or name in header:
                schema.require(header.get(name), rule, name)
        layers, labels = dict(header["layers"]), header["labels"]
        if len(layers) != len(header["layers"]):
            raise ValueError("two of its layers have the same name")
        if len(labels) != len(header["counts"]):
            raise ValueError(f"it has {len(labels)} labels but {len(header['counts'])} counts")
        for name, shape in cls._shapes(len(labels), sum(layers.values())).items():
            found = declared.get(name)
            if found is None:
                raise ValueError(f"it has no array {name!r}")
            if found.dtype not in PRECISIONS or found.shape != shape:
                raise ValueError(f"its array {name!r} is {found}, not floats of shape {shape}")
        if len({declared[name].dtype for name in cls.ARRAYS}) > 1:
            raise ValueError("its sums are of different types")

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `state`; a `ValueError` if these cannot be the sums of any samples."""
        cls.require_declared(
            header, {name: Declared(each.dtype.name, each.shape) for name, each in arrays.items()}
        )
        for name in cls.ARRAYS:
            if not np.isfinite(arrays[name]).all():
                raise ValueError(f"its array {name!r} holds NaN or infinity")
        sums = cls(dict(header["layers"]), arrays["prototypes"].dtype.name)
        sums._held = replace(
            sums._held,
            labels=list(header["labels"]),
            counts=np.array(header["counts"], np.int64),
            rows=[row.copy() for row in arrays["prototypes"]],
        )
        largest = SUMMABLE[sums.precision][1] * sums.counts[:, None]
        if (np.abs(arrays["prototypes"]) > largest * (1 + SOUND)).any():
            raise ValueError("its class sums are larger than any that can be learned")
        return sums

    @classmethod
    def _shapes(cls, classes: int, dim: int) -> dict[str, tuple[int, ...]]:
        """The shapes of these arrays."""
        return {"prototypes": (classes, dim)}

    # Private: `_sums_of`, `_combined`, `_renamed` and `_take` are what a richer kind of sums extends.

    def _sums_of(self, x: Floats, y: NDArray[Any]) -> Self:
        """The sums of one chunk."""
        sums = self.empty()
        names, index = distinct(y)
        order = np.argsort(index, kind="stable")
        counts = np.bincount(index)
        rows = np.add.reduceat(x[order], np.cumsum([0, *counts[:-1]]), axis=0)
        apart = [row.copy() for row in rows]  # so that keeping one does not keep the others in memory
        sums._held = replace(sums._held, labels=names, counts=counts, rows=apart)
        return sums

    def _accumulate(self, other: Self, sign: int) -> None:
        """Add (+1) or subtract (−1) other sums in place: all of them or, if interrupted, nothing."""
        # All new values are computed first, without touching the old ones. Then one assignment replaces them.
        self._held = self._combined(other, sign)

    def _combined(self, other: Self, sign: int) -> _Held:
        """The result of adding (+1) or subtracting (−1) other sums.

        Sums are aligned by label, and classes without samples are dropped. The sums of classes that are not
        in `other` are not copied.
        """
        if list(self.layers.items()) != list(other.layers.items()):  # their order is that of the columns
            raise MismatchError(
                f"These sums are of different layers: {self.layers} and {other.layers}. "
                "Only sums of the same layers of the same backbone can be combined."
            )
        if self.precision != other.precision:
            raise MismatchError(
                f"These sums are kept in {self.precision} and in {other.precision}. "
                "Only sums of the same precision can be combined."
            )
        sums = self._by_label()
        for label, (count, row) in other._by_label().items():
            before = sums.get(label, (0, 0.0))
            sums[label] = before[0] + sign * count, before[1] + sign * row
        return _aligned(united(self.labels, other.labels), sums)

    def _renamed(self, classes: _Held) -> _Held:
        """The same samples in other classes."""
        return classes

    def _only(self, label: Label) -> Self:
        """The count and the sum of one class."""
        sums = self._by_label()
        if label not in sums:
            raise unknown_class(label, self.labels)
        part, (count, row) = self.empty(), sums[label]
        part._held = replace(part._held, labels=[label], counts=np.array([count]), rows=[row])
        return part

    def _by_label(self) -> dict[Any, tuple[int, Any]]:
        """The count and the sum of each class."""
        return dict(zip(self.labels, zip(self.counts.tolist(), self._held.rows, strict=True), strict=True))

    def _take(self, source: Self, columns: NDArray[Any]) -> None:
        """Take the given columns of the source."""
        rows = [row[columns] for row in source._held.rows]
        self._held = replace(self._held, labels=list(source.labels), counts=source.counts.copy(), rows=rows)

    def _width(self, name: str) -> int:
        if name not in self.layers:
            raise unknown_name("layer", name, self.layers)
        return self.layers[name]

    def _chunks(self, features: ArrayLike, labels: ArrayLike) -> Iterator[Samples]:
        """Checked pieces of the samples, in the precision of the sums."""
        x, y = checked_samples(features, labels, self.layers, self.precision)
        for start in range(0, len(x), CHUNK):
            yield x[start : start + CHUNK].astype(self.precision), y[start : start + CHUNK]


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

    def __init__(self, layers: Mapping[str, int] | int, precision: str = "float64") -> None:
        super().__init__(layers, precision)
        self._held: _HeldWithGram = _HeldWithGram()

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
        names = np.full(len(rows), label)
        part._held = replace(part._held, pending=((rows, names),), leftover=0)
        result = self.copy()
        result.remove(part)
        return result

    def within_class_scatter(self) -> Floats:
        """S_W = G − Σ c_y c_yᵀ / n_y: how samples vary around the mean of their class."""
        scatter, prototypes = self.gram, self.prototypes
        scatter -= prototypes.T @ (prototypes / self.counts[:, None])
        return scatter

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
        return _is_positive(self._flushed().plus_rows(roots, sign=-1).lower(), slack)

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
        else:
            pending += theirs.pending
        both = self.empty()
        both._held = with_gram(triangle, pending)
        if sum(len(x) for x, _ in pending) > PENDING:
            both._flush()
        return both._held

    def _renamed(self, classes: _Held) -> _HeldWithGram:
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
        self._held = replace(self._held, triangle=self._flushed(), pending=())

    def _waiting(self) -> Floats:
        """The waiting feature vectors."""
        return np.concatenate([np.zeros((0, self.dim), self.precision), *(x for x, _ in self._held.pending)])


def checked_samples(
    features: ArrayLike, labels: ArrayLike, layers: Mapping[str, int], precision: str
) -> Samples:
    """Samples of these layers and their labels, as arrays; an `InputError` if they cannot be summed."""
    x, y, dim = np.asarray(features), np.asarray(labels), sum(layers.values())
    if x.ndim != 2 or y.ndim != 1:
        raise InputError(
            f"Features must be a table (samples × values) and labels a list, "
            f"but their shapes are {x.shape} and {y.shape}."
        )
    if len(x) != len(y):
        raise InputError(
            f"There are {len(x)} feature vectors but {len(y)} labels. Give one label per vector."
        )
    if x.shape[1] != dim:
        raise InputError(
            f"These features have {x.shape[1]:,} values but the model was built with {dim:,} "
            f"({_describe(layers)}). Use the same backbone and k for every batch."
        )
    require_summable(x, precision)
    return x, y


def distinct(labels: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """The labels of a batch, sorted, and the index of each sample's."""
    try:
        names, index = np.unique(labels, return_inverse=True)
    except TypeError:
        raise InputError(
            f"Labels of one batch must be of one type, not a mix: {labels.tolist()[:4]}."
        ) from None
    return names.tolist(), index


def require_learned(part: Mapping[Any, int], learned: Mapping[Any, int]) -> None:
    """Refuse to forget more samples of a class than were learned."""
    for label, count in part.items():
        if (have := learned.get(label, 0)) < count:
            reason = f"only {have} were learned" if have else "that class was never learned"
            images = "1 image" if count == 1 else f"{count} images"
            raise ForgetError(f"Cannot forget {images} of {label!r}: {reason}.")


def require_writable(labels: Iterable[Any]) -> None:
    """Refuse labels that no file can hold."""
    for label in labels:
        if not isinstance(label, str | int | float | bool):
            raise InputError(f"Cannot save the label {label!r}: labels in files are strings or numbers.")


def unknown_class(label: Label, known: Sequence[Any]) -> ForgetError:
    """The error for a class that was never learned, with the nearest one.

    >>> print(unknown_class("tabbi", ["dog", "tabby"]))
    Unknown class 'tabbi'. Known: dog, tabby. Did you mean 'tabby'?
    """
    return ForgetError(str(unknown_name("class", str(label), [str(each) for each in known])))


def moved(parts: Mapping[Any, T], old: Label, new: Label, both: Callable[[T, T], T]) -> dict[Any, T]:
    """The parts by label, sorted, with that of `old` under `new`; `both` adds it to one that is there.

    >>> moved({"cat": 1, "dog": 2, "kitten": 4}, "kitten", "cat", int.__add__)
    {'cat': 5, 'dog': 2}
    """
    if old not in parts:
        raise unknown_class(old, [*parts])
    rest, name = {label: part for label, part in parts.items() if label != old}, np.asarray(new).item()
    found = {**rest, name: both(rest[name], parts[old]) if name in rest else parts[old]}
    return {label: found[label] for label in united([*rest], [name])}


def _aligned(labels: Sequence[Any], sums: Mapping[Any, tuple[int, Any]]) -> _Held:
    """Counts and sums in the order of the labels; classes without samples are dropped."""
    kept = [label for label in labels if sums[label][0]]
    counts = np.array([sums[label][0] for label in kept], np.int64)
    return _Held(kept, counts, [sums[label][1] for label in kept])


def require_precision(precision: str) -> None:
    """Refuse an unknown precision."""
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)


def require_summable(x: NDArray[Any], precision: str) -> None:
    """Refuse samples (n × d) that are not finite numbers, or whose squares would overflow or vanish.

    >>> require_summable(np.array([[0.0, 0.0], [1e-300, 2.0]]), "float64")
    >>> require_summable(np.array([[1.0, 1e200]]), "float64")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    layup.errors.InputError: The squares of features must fit into float64: ... In row 0 it is 1e+200 ...
    """
    if x.dtype.kind not in "biuf":
        raise InputError(f"Features must be numbers, not {x.dtype}.")
    least, most = SUMMABLE[precision]
    odd: dict[int, float] = {}
    for start in range(0, len(x), CHUNK):
        sizes = _sizes(x[start : start + CHUNK])
        usable = (sizes == 0) | ((least <= sizes) & (sizes <= most))
        odd |= {start + int(i): float(sizes[i]) for i in np.flatnonzero(~usable)}
    bad = [row for row, size in odd.items() if not np.isfinite(size)]
    if bad:
        raise InputError(
            f"Features must be finite numbers, but row {bad[0]} holds NaN or infinity ({len(bad)} such)."
        )
    for row, size in odd.items():
        raise InputError(
            f"The squares of features must fit into {precision}: of each row, the largest value must be from "
            f"{least:.0e} to {most:.0e} in size, or zero. In row {row} it is {size:.3g} ({len(odd)} such). "
            "Scale all features by the same factor."
        )


def require_finite(*sums: Floats) -> None:
    """Refuse sums that are not finite numbers: they cannot be solved."""
    if not all(np.isfinite(each).all() for each in sums):
        raise InputError(
            "These sums are not finite numbers: they hold NaN or infinity, or are too large. Learn them "
            "again, from features of ordinary size."
        )


def united(labels: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """All labels of both, without duplicates, sorted.

    >>> united(["cat", "dog"], ["ant", "dog"])
    ['ant', 'cat', 'dog']
    """
    try:
        return sorted({*labels, *others})
    except TypeError:
        raise MismatchError(
            f"Labels of one model must be of one type, unlike {list(labels[:2])} and {list(others[:2])}."
        ) from None


def _describe(layers: Mapping[str, int]) -> str:
    """'6 layers × 768', or '3 layers of 192 + 320 + 1280'."""
    widths = list(layers.values())
    count = f"{len(widths)} layer{'s' if len(widths) != 1 else ''}"
    if len(set(widths)) == 1:
        return f"{count} × {widths[0]}"
    return f"{count} of {' + '.join(map(str, widths))}"


def _sizes(x: NDArray[Any]) -> Floats:
    """The absolute value of the largest entry of each row; NaN or infinity if any of its entries is."""
    with np.errstate(over="ignore"):  # numbers beyond float64 become infinite here
        sizes = x.astype(np.float64)
    return np.asarray(np.abs(sizes, out=sizes).max(axis=1, initial=0.0))


def _is_positive(matrix: Floats, slack: float) -> bool:
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
