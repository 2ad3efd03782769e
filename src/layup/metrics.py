"""Pure functions from true and predicted labels to numbers (NumPy only)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup.errors import InputError


def confusion(truth: ArrayLike, predicted: ArrayLike) -> tuple[list[str], NDArray[np.int64]]:
    """The labels and the table whose entry [i, j] counts images of class i that were called j.

    >>> labels, table = confusion(["cat", "cat", "dog"], ["cat", "dog", "dog"])
    >>> labels, table.tolist()
    (['cat', 'dog'], [[1, 1], [0, 1]])
    """
    t, p = np.asarray(truth), np.asarray(predicted)
    if t.shape != p.shape or t.ndim != 1:
        raise InputError(
            f"True labels and predictions must be lists of one length, not of shapes {t.shape} and {p.shape}."
        )
    names = sorted({*t.tolist(), *p.tolist()})
    row = {label: i for i, label in enumerate(names)}
    table = np.zeros((len(names), len(names)), np.int64)
    np.add.at(table, ([row[x] for x in t.tolist()], [row[x] for x in p.tolist()]), 1)
    return names, table


def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """The share of right answers: every image counts the same.

    >>> accuracy(["a", "a", "b"], ["a", "b", "b"])
    0.6666666666666666
    """
    labels, table = confusion(truth, predicted)
    if not labels:
        raise InputError("There is nothing to evaluate: no labels were given.")
    return float(np.trace(table) / table.sum())


def per_class_accuracy(truth: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """The share of right answers of each true class.

    >>> per_class_accuracy(["a", "a", "b"], ["a", "b", "b"])
    {'a': 0.5, 'b': 1.0}
    """
    labels, table = confusion(truth, predicted)
    sizes = table.sum(axis=1)
    return {label: float(table[i, i] / sizes[i]) for i, label in enumerate(labels) if sizes[i]}


def average_accuracy(accuracies: Sequence[float]) -> float:
    """A_t of the paper: the unweighted mean of the accuracies on the tasks seen so far.

    >>> average_accuracy([1.0, 0.5])
    0.75
    """
    if not accuracies:
        raise InputError("The average accuracy of no task is undefined: give at least one accuracy.")
    return float(np.mean(accuracies))
