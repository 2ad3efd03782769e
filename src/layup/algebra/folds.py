"""How samples are split into folds, and read a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from layup.algebra.samples import CHUNK

FOLDS = 4
"""Those of the paper's search of λ."""
Folds: TypeAlias = list[NDArray[np.int64]]
"""The rows of each."""


def stratified(labels: NDArray[Any], folds: int) -> Folds:
    """The rows of each fold, in the order given; classes of fewer samples than folds miss some of them.

    The samples of a class that has several are never all in one fold. These are the folds of scikit-learn's
    `StratifiedKFold`, which takes seconds to import, and refuses if no class has a sample for each fold.

    >>> [rows.tolist() for rows in stratified(np.array(["a", "b", "a", "a", "b"]), 2)]
    [[0, 1, 2], [3, 4]]
    """
    _, first, index = np.unique(labels, return_index=True, return_inverse=True)
    classes = np.argsort(np.argsort(first))[index]  # numbered by their first sample
    # Samples are dealt out like cards, one class after the other. This decides how many of a class each fold
    # gets; its first samples then go to the first fold.
    order = np.argsort(classes, kind="stable")
    dealt = np.arange(len(labels)) % folds
    fold = np.empty(len(labels), np.int64)
    fold[order] = dealt[np.lexsort((dealt, classes[order]))]
    return [np.flatnonzero(fold == each) for each in range(folds)]


class Dealer:
    """The folds of `stratified`, dealt sample by sample: for lists that are too long to be held.

    counts: how many samples there are of each class, in the order of their first samples.

    >>> dealer = Dealer({"a": 3, "b": 2}, 2)
    >>> [dealer.deal(label) for label in ("a", "b", "a", "a", "b")]
    [0, 0, 0, 1, 1]
    """

    def __init__(self, counts: Mapping[Any, int], folds: int) -> None:
        self._left: dict[Any, list[int]] = {}
        start = 0
        for label, count in counts.items():
            end = start + count
            # How many of the class's cards each fold gets, where cards are dealt in turn.
            firsts = (start + (fold - start) % folds for fold in range(folds))
            self._left[label] = [len(range(first, end, folds)) for first in firsts]
            start = end

    def deal(self, label: Any) -> int:
        """The fold of the next sample of a class."""
        left = self._left[label]
        fold = next(fold for fold, count in enumerate(left) if count)
        left[fold] -= 1
        return fold


def chunks(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The rows, one chunk at a time."""
    return (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))
