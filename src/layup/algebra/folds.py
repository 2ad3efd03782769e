"""How samples are split into folds, and read a chunk at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from layup.algebra.samples import CHUNK

Folds: TypeAlias = list[NDArray[np.int64]]
"""The rows of each."""


def stratified(labels: NDArray[Any], folds: int) -> Folds:
    """The rows of each fold, in the order given; classes of fewer samples than folds miss some of them.

    The samples of a class that has several are never all in one fold.

    >>> [rows.tolist() for rows in stratified(np.array(["a", "b", "a", "a", "b"]), 2)]
    [[0, 1, 2], [3, 4]]
    """
    from sklearn.model_selection import StratifiedKFold  # here, because it is slow to import

    # A further class, at the end, which no fold misses: without one, scikit-learn refuses to split.
    count = len(labels)
    index = np.concatenate([np.unique(labels, return_inverse=True)[1], np.full(folds, count)])
    with warnings.catch_warnings():  # many classes of few samples are fine
        warnings.simplefilter("ignore", UserWarning)
        split = [test for _, test in StratifiedKFold(folds).split(index, index)]
    return [rows[rows < count] for rows in split]


def chunks(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The rows, one chunk at a time."""
    return (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))
