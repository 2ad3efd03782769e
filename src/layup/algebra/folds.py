"""How samples are split into folds, and read a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
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


def chunks(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The rows, one chunk at a time."""
    return (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))
