"""One sum of feature vectors and one count per class: c and n of `statistics`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup import schema, storage
from layup.algebra.labels import (
    Label,
    distinct,
    moved,
    require_learned,
    require_writable,
    united,
    unknown_class,
)
from layup.algebra.samples import (
    CHUNK,
    PRECISIONS,
    SUMMABLE,
    Floats,
    Samples,
    checked_samples,
    require_precision,
)
from layup.algebra.steps import EXPONENTS, Steps
from layup.errors import InputError, MismatchError
from layup.registry import unknown_name
from layup.storage import Declarations, Declared

MOST = 2**53
"""The largest count of a class in a file: beyond it, floats cannot tell a whole number from the next."""
SOUND = 1e-3
"""A share of the trace of G: how far below zero rounding may have brought the scatter within classes.

Sums alone stay within d·ε of it. Images that are read again to be forgotten differ by a millionth, so this
leaves room for hundreds of forgotten images per image that stays.
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
    "steps?": [schema.whole(*EXPONENTS)],
}
"""The shape of the header of sums; `leftover` is that of `GramStatistics`."""


@dataclass(frozen=True)
class Held:
    """What sums hold. It is immutable and replaced as a whole: an interruption leaves all or nothing."""

    labels: list[Any] = field(default_factory=list)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: list[Floats] = field(default_factory=list)
    """The sum of each class."""


class ClassSums:
    """One sum of feature vectors and one count per label; labels are kept sorted.

    Args:
        layers: the width of every block of columns by name, or only the number of columns.
        precision: of the sums, "float64" or "float32".
        steps: for each layer an exponent e: every value is a multiple of 2^e. Then the sums are exact, see
            `steps`; None for any values. Float64 only.

    >>> sums = ClassSums(2)
    >>> sums.update([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ["b", "a", "b"])
    >>> sums.labels, sums.counts.tolist(), sums.prototypes.tolist()
    (['a', 'b'], [1, 2], [[3.0, 4.0], [6.0, 8.0]])
    """

    kind = "class sums"
    ARRAYS: ClassVar[tuple[str, ...]] = ("prototypes",)
    """The names of the arrays of `state`."""
    HELD: ClassVar[type[Held]] = Held
    """What keeps them."""

    def __init__(
        self,
        layers: Mapping[str, int] | int,
        precision: str = "float64",
        steps: Mapping[str, int] | None = None,
    ) -> None:
        require_precision(precision)
        self.layers: dict[str, int] = {"features": layers} if isinstance(layers, int) else dict(layers)
        self.precision = precision
        if steps is not None and precision != "float64":
            raise InputError(f"Sums in {precision} cannot be exact: leave the steps out, or use float64.")
        self.steps = None if steps is None else Steps(self.layers, steps)
        self.dim = sum(self.layers.values())
        self._held = self.HELD()

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
    def means(self) -> Floats:
        """The mean feature vector of each class, C × dim, as a new array."""
        return np.asarray(self.prototypes / self.counts[:, None])

    @property
    def values_per_class(self) -> int:
        """How many values each class takes."""
        return self.dim

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
        """Sums of the same layers, precision and steps that hold nothing."""
        return type(self)(self.layers, self.precision, self._exponents)

    def in_steps(self, steps: Mapping[str, int] | None) -> Self:
        """Empty sums of the same layers, of samples that are multiples of these steps: see `steps`."""
        return type(self)(self.layers, self.precision, steps)

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
        chosen = type(self)({name: self._width(name) for name in layers}, self.precision, self._exponents)
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
        if self._exponents is not None:
            header["steps"] = [*self._exponents.values()]
        return header, {"prototypes": self.prototypes}

    def digest(self) -> str:
        """Hex SHA-256 of the sums: exact ones have the same for the same samples, however these were learned.

        >>> one, two = (ClassSums(1, steps={"features": -2}) for _ in range(2))
        >>> one.update([[0.25], [0.5], [1.0]], ["cat", "dog", "cat"])
        >>> two.update([[1.0], [0.5]], ["cat", "dog"])
        >>> two.update([[0.25]], ["cat"])
        >>> one.digest() == two.digest()
        True
        """
        header, arrays = self.state()
        found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        for name in self.ARRAYS:
            found.update(arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False).tobytes())
        return found.hexdigest()

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
        if len(header.get("steps", layers)) != len(layers):
            raise ValueError(f"it has {len(layers)} layers but {len(header['steps'])} steps")
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
        layers, precision = dict(header["layers"]), arrays["prototypes"].dtype.name
        steps = dict(zip(layers, header["steps"], strict=True)) if "steps" in header else None
        if steps is not None and precision != "float64":
            raise ValueError(f"its sums are {precision}, which cannot be exact")
        sums = cls(layers, precision, steps)
        sums._held = replace(
            sums._held,
            labels=list(header["labels"]),
            counts=np.array(header["counts"], np.int64),
            rows=[row.copy() for row in arrays["prototypes"]],
        )
        largest = SUMMABLE[sums.precision][1] * sums.counts[:, None]
        if (np.abs(arrays["prototypes"]) > largest * (1 + SOUND)).any():
            raise ValueError("its class sums are larger than any that can be learned")
        if sums.steps is not None:
            sums.steps.require_sound(arrays["prototypes"])
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

    def _combined(self, other: Self, sign: int) -> Held:
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
        if self._exponents != other._exponents:
            raise MismatchError(
                "These sums are of features that were rounded to different steps, or only one of them is. "
                "Only sums of the same steps can be combined."
            )
        sums = self._by_label()
        for label, (count, row) in other._by_label().items():
            before = sums.get(label, (0, 0.0))
            sums[label] = before[0] + sign * count, before[1] + sign * row
        return _aligned(united(self.labels, other.labels), sums)

    def _renamed(self, classes: Held) -> Held:
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
            chunk = x[start : start + CHUNK].astype(self.precision)
            if self.steps is not None:
                self.steps.require_multiples(chunk)
            yield chunk, y[start : start + CHUNK]

    @property
    def _exponents(self) -> dict[str, int] | None:
        return None if self.steps is None else self.steps.exponents


def _aligned(labels: Sequence[Any], sums: Mapping[Any, tuple[int, Any]]) -> Held:
    """Counts and sums in the order of the labels; classes without samples are dropped."""
    kept = [label for label in labels if sums[label][0]]
    counts = np.array([sums[label][0] for label in kept], np.int64)
    return Held(kept, counts, [sums[label][1] for label in kept])
