"""One Gram matrix per class, as a root: what it takes to drop a class exactly, without its samples.

G = Σ_y G_y, but G alone does not tell the G_y = Σ Φ Φᵀ of a class. Each is kept as a matrix R_y with

    R_yᵀ R_y = G_y        R_y has at most min(n_y, d) rows, and zeros below its diagonal,

so that a class of 30 samples costs 30·d values, not d²/2. Learning stacks the new rows below R_y and makes
them triangular again by a QR decomposition, [R_y; X] = Q R, since then RᵀR = R_yᵀR_y + XᵀX. Q is not needed.

Un-learning X takes a basis of the rows of R_y, its QR decomposition R_yᵀ = B L with BᵀB = I. Samples that
were learned lie in it, X = Z Bᵀ, so that

    G_y − XᵀX = B (L Lᵀ − ZᵀZ) Bᵀ = B U diag(m) Uᵀ Bᵀ,

whose root is diag(√m) Uᵀ Bᵀ. That takes no d × d matrix, and the error is the rounding of G_y, whatever its
condition.

A root is not the samples: any rotation of them has the same root. But of a class of one sample it is that
sample, up to its sign, and of a few samples it tells the space that they span.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup import schema
from layup.algebra.class_sums import HEADER, SOUND, ClassSums
from layup.algebra.labels import (
    Label,
    distinct,
    moved,
    require_learned,
    require_writable,
    united,
    unknown_class,
)
from layup.algebra.samples import CHUNK, SUMMABLE, Floats, checked_samples
from layup.errors import ForgetError, MismatchError
from layup.storage import Declarations, Declared

ROOTS: dict[str, schema.Shape] = {
    "dim": schema.whole(1),
    "labels": HEADER["labels"],
    "counts": HEADER["counts"],
    "rows": [schema.whole()],
}
"""The shape of the header of roots."""


def root_values(counts: Iterable[int], dim: int) -> int:
    """How many values (of 8 bytes) the roots of classes of so many samples hold, at most.

    >>> root_values([30] * 100, 4608), root_values([1, 5000], 4608)
    (13824000, 21238272)
    """
    return sum(min(count, dim) * dim for count in counts)


@dataclass(frozen=True)
class _Root:
    """R of one class, which is not written to, and how many samples it is of."""

    rows: Floats
    count: int

    @classmethod
    def of(cls, count: int, *rows: Floats) -> _Root:
        """Of all these rows."""
        triangular: Any = np.linalg.qr(np.concatenate(rows), mode="r")
        triangular.flags.writeable = False
        return cls(triangular, count)

    def __add__(self, other: _Root) -> _Root:
        return self.of(self.count + other.count, self.rows, other.rows)

    def __sub__(self, part: _Root) -> _Root | None:
        """Without a part of the samples; None if it cannot be one."""
        basis, lower = np.linalg.qr(self.rows.T)
        inside = part.rows @ basis
        # Twice read, an image differs by the rounding of float32: about 1e-6 of its size.
        whole, gone = float((self.rows**2).sum()), float((part.rows**2).sum())
        slack = 1e-5 * gone + self.rows.shape[1] * float(np.finfo(np.float64).eps) * whole
        values, vectors = np.linalg.eigh(lower @ lower.T - inside.T @ inside)
        outside = float(((part.rows - inside @ basis.T) ** 2).sum())
        count = self.count - part.count
        beyond = max(len(values) - count, 0)  # eigenvalues ascend; n samples span no more than n directions
        if max(outside, -values.min(initial=0.0), values[:beyond].max(initial=0.0)) > slack:
            return None
        kept = values > len(values) * np.finfo(np.float64).eps * whole
        kept[:beyond] = False
        return self.of(count, (np.sqrt(values[kept]) * vectors[:, kept]).T @ basis.T)


class ClassRoots:
    """A root of the Gram matrix of each class: R_y with R_yᵀ R_y = Σ Φ Φᵀ over its samples, in float64.

    Learning m samples of a class costs about 2 (r + m)² d operations for its r = min(n, d) rows, un-learning
    4 r² d + 9 r³; `root_values` says what memory it takes. A class of one sample is kept as ± its vector.

    >>> roots = ClassRoots(3)
    >>> roots.update([[3.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 1.0, 2.0]], ["cat", "cat", "dog"])
    >>> roots.labels, roots.counts.tolist()
    (['cat', 'dog'], [2, 1])
    >>> roots.gram("cat").round(12).tolist()
    [[25.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    >>> abs(roots.root("dog")).tolist()
    [[0.0, 1.0, 2.0]]
    """

    ARRAYS = ("roots",)
    """The names of the arrays of `state`."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        # Replaced as a whole, and never changed: an interruption leaves all or nothing.
        self._held: Mapping[Any, _Root] = {}

    @property
    def labels(self) -> list[Any]:
        """The classes, sorted."""
        return [*self._held]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many samples each class has."""
        return np.array([root.count for root in self._held.values()], np.int64)

    def count_by_label(self) -> dict[Any, int]:
        """How many samples each class has, by its label."""
        return {label: root.count for label, root in self._held.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of the roots in memory."""
        return sum(root.rows.nbytes for root in self._held.values())

    def root(self, label: Label) -> Floats:
        """R of a class, r × dim, which cannot be written to."""
        if label not in self._held:
            raise unknown_class(label, self.labels)
        return self._held[label].rows

    def gram(self, label: Label) -> Floats:
        """G_y = Rᵀ R, dim × dim, as a new array."""
        rows = self.root(label)
        return rows.T @ rows

    def update(self, features: ArrayLike, labels: ArrayLike) -> None:
        """Learn: add the samples (n × dim) with their n labels."""
        self._held = (self + self._of(features, labels))._held

    def remove(self, features: ArrayLike, labels: ArrayLike) -> None:
        """Un-learn samples; `ForgetError`, and no change, if they cannot have been learned."""
        self._held = (self - self._of(features, labels))._held

    def __add__(self, other: Self) -> Self:
        self._require_same_width(other)
        both = {**self._held, **other._held}
        for label in {*self._held} & {*other._held}:
            both[label] = self._held[label] + other._held[label]
        return self._with({label: both[label] for label in united(self.labels, other.labels)})

    def __sub__(self, part: Self) -> Self:
        self._require_same_width(part)
        require_learned(part.count_by_label(), self.count_by_label())
        left = {**self._held}
        for label, gone in part._held.items():
            rest = left.pop(label) - gone
            if rest is None:
                raise ForgetError(
                    f"These images of {label!r} cannot be forgotten: they are not what was learned (another "
                    "image, label or backbone). Nothing was changed."
                )
            if rest.count:
                left[label] = rest
        return self._with({label: left[label] for label in self.labels if label in left})

    def renamed(self, old: Label, new: Label) -> Self:
        """New roots where the class `old` is called `new`; if there is a class `new`, the two become one.

        >>> roots = ClassRoots(1)
        >>> roots.update([[3.0], [4.0]], ["kitten", "cat"])
        >>> roots.renamed("kitten", "cat").gram("cat").round(12).tolist()
        [[25.0]]
        """
        return self._with(moved(self._held, old, new, _Root.__add__))

    def without(self, label: Label) -> Self:
        """New roots without a class; `ForgetError` if there is no such class."""
        if label not in self._held:
            raise unknown_class(label, self.labels)
        return self._with({name: root for name, root in self._held.items() if name != label})

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The roots as a JSON-able header and one array: the rows of one class after the other."""
        require_writable(self.labels)
        roots = [root.rows for root in self._held.values()]
        header = {
            "dim": self.dim,
            "labels": self.labels,
            "counts": self.counts.tolist(),
            "rows": [len(rows) for rows in roots],
        }
        return header, {"roots": np.concatenate([np.zeros((0, self.dim)), *roots])}

    @classmethod
    def require_declared(cls, header: Mapping[str, Any], declared: Declarations) -> None:
        """Raise a `ValueError` for a header, and declared arrays, that `state` cannot have returned."""
        for name, rule in ROOTS.items():
            schema.require(header.get(name), rule, name)
        lengths = {name: len(header[name]) for name in ("labels", "counts", "rows")}
        if len({*lengths.values()}) > 1:
            raise ValueError(
                f"it has roots of {lengths['labels']} labels, but counts or rows of other classes"
            )
        dim, rows = header["dim"], header["rows"]
        for label, count, height in zip(header["labels"], header["counts"], rows, strict=True):
            if height > min(count, dim):
                raise ValueError(
                    f"the root of {schema.shown(label)} has {height} rows, more than {count} images or {dim} "
                    "values need"
                )
        found = declared.get("roots")
        if found is None:
            raise ValueError("it has no array 'roots'")
        if found.dtype != "float64" or found.shape != (sum(rows), dim):
            raise ValueError(f"its array 'roots' is {found}, not float64 of shape {(sum(rows), dim)}")

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `state`; a `ValueError` if these cannot be the roots of any samples."""
        cls.require_declared(
            header, {name: Declared(each.dtype.name, each.shape) for name, each in arrays.items()}
        )
        parts = np.split(arrays["roots"], np.cumsum(header["rows"])[:-1]) if header["rows"] else []
        roots, held = cls(header["dim"]), {}
        for label, count, part in zip(header["labels"], header["counts"], parts, strict=True):
            if not np.isfinite(part).all():
                raise ValueError("its array 'roots' holds NaN or infinity")
            if np.tril(part, -1).any():
                raise ValueError(f"the root of {schema.shown(label)} is not triangular")
            # The diagonal of G_y is a sum of n squares.
            if (np.abs(part) > (1 + SOUND) * SUMMABLE["float64"][1] * np.sqrt(count)).any():
                raise ValueError(f"the root of {schema.shown(label)} is larger than any that can be learned")
            rows = part.copy()
            rows.flags.writeable = False
            held[label] = _Root(rows, count)
        roots._held = held
        return roots

    def require_roots_of(self, sums: ClassSums) -> None:
        """Raise a `ValueError` if these cannot be the roots of all classes of the sums."""
        if self.dim != sums.dim:
            raise ValueError(f"its roots have {self.dim} columns, but its sums {sums.dim}")
        have, learned = self.count_by_label(), sums.count_by_label()
        for label in [*learned, *have]:
            if have.get(label, 0) != learned.get(label, 0):
                raise ValueError(
                    f"the root of {schema.shown(label)} is of {have.get(label, 0)} images, but its sums have "
                    f"{learned.get(label, 0)}"
                )
        trace = getattr(sums, "trace", np.inf)
        if sum(float((root.rows**2).sum()) for root in self._held.values()) > (1 + SOUND) * trace:
            raise ValueError("its roots are larger than its G")

    def _of(self, features: ArrayLike, labels: ArrayLike) -> Self:
        """The roots of these samples alone."""
        x, y = checked_samples(features, labels, {"features": self.dim}, "float64")
        names, index = distinct(y)
        held = {}
        for i, label in enumerate(names):
            indices = np.flatnonzero(index == i)
            root = _Root(np.zeros((0, self.dim)), 0)
            for start in range(0, len(indices), CHUNK):
                chunk = x[indices[start : start + CHUNK]].astype(np.float64)
                root = _Root.of(root.count + len(chunk), root.rows, chunk)
            held[label] = root
        return self._with(held)

    def _with(self, held: Mapping[Any, _Root]) -> Self:
        roots = type(self)(self.dim)
        roots._held = held
        return roots

    def _require_same_width(self, other: Self) -> None:
        if self.dim != other.dim:
            raise MismatchError(
                f"These roots have {self.dim:,} and {other.dim:,} columns. Only roots of the same layers of "
                "the same backbone can be combined."
            )
