"""What a model adds up: its sums, and, if it keeps them, a root per class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from layup.algebra import ClassRoots


@dataclass(frozen=True)
class Parts:
    """Sums of photos; `roots` is None where a class need not be dropped without its photos.

    >>> from layup.algebra import GramStatistics
    >>> parts = Parts(GramStatistics(2), ClassRoots(2))
    >>> parts.update([[1.0, 2.0], [3.0, 0.0]], ["cat", "dog"])
    >>> (parts - parts).sums.total, parts.without_class("cat").leftover
    (0, 0)
    """

    sums: Any
    roots: ClassRoots | None = None

    def empty(self) -> Parts:
        """Parts of the same kind that hold nothing."""
        return Parts(self.sums.empty(), None if self.roots is None else ClassRoots(self.roots.dim))

    def update(self, features: ArrayLike, labels: Sequence[str]) -> None:
        """Add samples."""
        self.sums.update(features, labels)
        if self.roots is not None:
            self.roots.update(features, labels)

    def __add__(self, other: Parts) -> Parts:
        both = self.roots is not None and other.roots is not None
        return Parts(self.sums + other.sums, self.roots + other.roots if both else None)  # type: ignore[operator]

    def __sub__(self, other: Parts) -> Parts:
        both = self.roots is not None and other.roots is not None
        return Parts(self.sums - other.sums, self.roots - other.roots if both else None)  # type: ignore[operator]

    def renamed(self, old: str, new: str) -> Parts:
        """With another name for a class; if that is the name of another one, the two become one."""
        return Parts(
            self.sums.renamed(old, new), None if self.roots is None else self.roots.renamed(old, new)
        )

    @property
    def leftover(self) -> int:
        """How many samples of classes that were dropped are still in G."""
        return getattr(self.sums, "leftover", 0)

    def without_class(self, label: str) -> Parts:
        """Without a class: exactly, if its root is here; else G keeps its samples, as `leftover`."""
        if self.roots is None:
            return Parts(self.sums.without_class(label))
        roots = self.roots.without(label)
        if not hasattr(self.sums, "gram"):
            return Parts(self.sums.without_class(label), roots)
        return Parts(self.sums.without_class(label, self.roots.root(label)), roots)
