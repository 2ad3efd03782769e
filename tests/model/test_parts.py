"""Sums with and without roots per class: both are added, subtracted and renamed together."""

from __future__ import annotations

import numpy as np
import pytest

from layup.algebra import ClassRoots, ClassSums, GramStatistics
from layup.model.parts import Parts

DIM = 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(9, DIM))
Y = ["cat", "dog", "owl"] * 3


def made(rows: slice = slice(None), roots: bool = True, sums: type = GramStatistics) -> Parts:
    parts = Parts(sums(DIM), ClassRoots(DIM) if roots else None)
    parts.update(X[rows], Y[rows])
    return parts


def assert_same(one: Parts, other: Parts) -> None:
    assert one.sums.count_by_label() == other.sums.count_by_label()
    np.testing.assert_allclose(one.sums.prototypes, other.sums.prototypes, atol=1e-12)
    if hasattr(one.sums, "gram"):
        np.testing.assert_allclose(one.sums.gram, other.sums.gram, atol=1e-12)
    assert (one.roots is None) == (other.roots is None)
    if one.roots is not None and other.roots is not None:
        assert one.roots.labels == other.roots.labels
        for label in one.roots.labels:
            np.testing.assert_allclose(one.roots.gram(label), other.roots.gram(label), atol=1e-12)


@pytest.mark.parametrize("roots", [True, False])
@pytest.mark.parametrize("sums", [GramStatistics, ClassSums])
def test_parts_are_an_algebra(roots: bool, sums: type) -> None:
    first, rest, whole = (made(rows, roots, sums) for rows in (slice(4), slice(4, 9), slice(9)))
    assert_same(first + rest, whole)
    assert_same(whole - rest, first)
    assert_same(whole.empty() + whole, whole)
    assert whole.empty().sums.total == 0
    renamed = Parts(sums(DIM), ClassRoots(DIM) if roots else None)
    renamed.update(X, ["dog" if label == "owl" else label for label in Y])
    assert_same(whole.renamed("owl", "dog"), renamed)


def test_roots_are_only_kept_where_all_have_them() -> None:
    with_roots, without = made(slice(4)), made(slice(4, 9), roots=False)
    for both in (with_roots + without, without + with_roots, made() - without):
        assert both.roots is None


@pytest.mark.parametrize("sums", [GramStatistics, ClassSums])
def test_a_class_is_dropped_exactly_with_its_root(sums: type) -> None:
    left = made(sums=sums).without_class("dog")
    never = Parts(sums(DIM), ClassRoots(DIM))
    chosen = [row for row, label in enumerate(Y) if label != "dog"]
    never.update(X[chosen], [Y[row] for row in chosen])
    assert_same(left, never)
    assert left.leftover == 0


def test_without_a_root_g_keeps_the_class() -> None:
    whole = made(roots=False)
    left = whole.without_class("dog")
    assert (left.sums.labels, left.leftover) == (["cat", "owl"], 3)
    np.testing.assert_allclose(left.sums.gram, whole.sums.gram)
    assert left.without_class("cat").without_class("owl").leftover == 0  # nothing is left at all
    assert made(roots=False, sums=ClassSums).without_class("dog").leftover == 0
