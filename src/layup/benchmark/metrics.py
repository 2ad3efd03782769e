"""Pure functions from labels, and from the accuracies over tasks, to numbers (NumPy only).

R is the matrix of accuracies: R[t, i] is the accuracy on the tests of task i after learning task t, NaN if it
was not tested then. An unfinished run has fewer rows than columns. Toolboxes call three different numbers
"average accuracy", so each function says by which names its own is known:

::

    average_accuracy_curve           A_t of this paper and of GEM: tasks seen so far, each counts the same
    sample_weighted_curve            images seen so far, each counts the same (PILOT's "top1 curve")
    mean_over_all_curve              all tasks, seen or not, each counts the same: before the end only in DIL
    sample_weighted_over_all_curve   all test images, each counts the same: RanPAC's number in DIL
    mean_of_curve                    of these: "average incremental accuracy", PILOT's "average accuracy"
    forgetting_curve                 F_t of this paper: "average forgetting"
    backward_transfer                GEM's BWT; its negative is elsewhere called forgetting, too
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup.errors import InputError

Curve = NDArray[np.float64]
"""A number after each task; NaN where it is undefined."""


def confusion(
    truth: ArrayLike, predicted: ArrayLike, order: Sequence[str] | None = None
) -> tuple[list[str], NDArray[np.int64]]:
    """The labels and the table whose entry [i, j] counts images of class i that were predicted as j.

    The labels are all that occur, sorted; or those of `order`, which must contain them all.

    >>> labels, table = confusion(["cat", "cat", "dog"], ["cat", "dog", "dog"])
    >>> labels, table.tolist()
    (['cat', 'dog'], [[1, 1], [0, 1]])
    """
    t, p = np.asarray(truth), np.asarray(predicted)
    if t.shape != p.shape or t.ndim != 1:
        raise InputError(
            f"True labels and predictions must be lists of one length, not of shapes {t.shape} and {p.shape}."
        )
    found = {*t.tolist(), *p.tolist()}
    names = sorted(found) if order is None else list(order)
    row = {label: i for i, label in enumerate(names)}
    if strangers := found - row.keys():
        raise InputError(f"The order of the classes lacks {sorted(strangers)[0]!r}, which occurs. Give all.")
    table = np.zeros((len(names), len(names)), np.int64)
    np.add.at(table, ([row[x] for x in t.tolist()], [row[x] for x in p.tolist()]), 1)
    return names, table


def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """The share of right predictions: every image counts the same.

    >>> accuracy(["a", "a", "b"], ["a", "b", "b"])
    0.6666666666666666
    """
    labels, table = confusion(truth, predicted)
    if not labels:
        raise InputError("There is nothing to evaluate: no labels were given.")
    return float(np.trace(table) / table.sum())


def per_class_accuracy(truth: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """The share of right predictions of each true class.

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


def average_accuracy_curve(R: ArrayLike) -> Curve:
    """A_t of the paper, after each task: the unweighted mean over the tasks seen so far, i ≤ t.

    GEM (Lopez-Paz and Ranzato, 2017) calls the last one ACC. In DIL this is the mean over domains seen.

    >>> average_accuracy_curve([[1.0, np.nan], [0.5, 0.9]]).tolist()
    [1.0, 0.7]
    """
    matrix = _matrix(R)
    return np.array([average_accuracy(row[: t + 1].tolist()) for t, row in enumerate(matrix)])


def forgetting_curve(R: ArrayLike) -> Curve:
    """F_t of the paper, after each task: how far each earlier task is below its best so far, on average.

    F_t = 1/(t−1) Σ_{i<t} (max_{t'<t} R[t', i] − R[t, i]), where max is what the text's "argmax" must mean.
    F_1 is undefined: NaN. The best is over every t' < t with a test: in CIL from task i on; in DIL, by the
    letter of the formula, also before domain i was learned. A negative value is a gain.

    >>> forgetting_curve([[1.0, np.nan], [0.75, 0.9]]).tolist()
    [nan, 0.25]
    """
    matrix = _matrix(R)
    best = np.fmax.accumulate(matrix, axis=0)  # skips what was not tested
    later = [(best[t - 1, :t] - matrix[t, :t]).mean() for t in range(1, len(matrix))]
    return np.array([math.nan, *later])[: len(matrix)]


def mean_over_all_curve(R: ArrayLike) -> Curve:
    """The unweighted mean over all tasks, learned or not, after each task; NaN if some were not tested.

    In DIL only, where every domain can be tested at any time, this differs from A_t; after the last task it
    does not.

    >>> mean_over_all_curve([[1.0, 0.5], [0.5, 0.9]]).tolist()
    [0.75, 0.7]
    """
    matrix = _matrix(R)
    return matrix.mean(axis=1) if matrix.size else np.empty(len(matrix))


def sample_weighted_curve(R: ArrayLike, sizes: Sequence[int]) -> Curve:
    """The accuracy over all test images of the tasks seen so far: every image counts the same.

    PILOT's "top1 curve"; what most code of class-incremental learning calls accuracy. `sizes`: how many test
    images each task has.

    >>> sample_weighted_curve([[1.0, np.nan], [0.5, 1.0]], [3, 1]).tolist()
    [1.0, 0.625]
    """
    matrix = _matrix(R)
    weights = _weights(sizes, matrix)
    return np.array([_weighted(matrix[t, : t + 1], weights[: t + 1]) for t in range(len(matrix))])


def sample_weighted_over_all_curve(R: ArrayLike, sizes: Sequence[int]) -> Curve:
    """The accuracy over all test images of all tasks, learned or not; NaN if some were not tested.

    RanPAC's number in DIL: there, the tests of all domains are one test set.

    >>> sample_weighted_over_all_curve([[1.0, 0.2], [0.5, 1.0]], [3, 1]).tolist()
    [0.8, 0.625]
    """
    matrix = _matrix(R)
    weights = _weights(sizes, matrix)
    return np.array([_weighted(row, weights) for row in matrix])


def mean_of_curve(curve: ArrayLike) -> float:
    """The mean of a curve over tasks; NaN if it is undefined anywhere.

    Of the accuracies, it is called "average incremental accuracy" (iCaRL), and PILOT's "average accuracy" is
    that of `sample_weighted_curve`. It is higher than the last value where accuracy falls.

    >>> mean_of_curve([1.0, 0.5])
    0.75
    """
    values = np.asarray(curve, np.float64)
    if values.ndim != 1:
        raise InputError(
            f"A curve is a list with a number for each task, not an array of shape {values.shape}."
        )
    return float(values.mean()) if values.size else math.nan


def backward_transfer(R: ArrayLike) -> float:
    """GEM's BWT: how much the accuracy on earlier tasks has risen since each was learned, on average.

    1/(T−1) Σ_{i<T} (R[T, i] − R[i, i]), where T is the last task learned; NaN for one task. Where
    accuracy only falls, it is −F_T.

    >>> backward_transfer([[1.0, np.nan], [0.75, 0.9]])
    -0.25
    """
    matrix = _matrix(R)
    last = len(matrix) - 1
    return float((matrix[last, :last] - matrix.diagonal()[:last]).mean()) if last > 0 else math.nan


def summary(R: ArrayLike, sizes: Sequence[int]) -> dict[str, float | None]:
    """The numbers that people quote, after the last task learned, each by its full name; None if undefined.

    After the last of all tasks, those "over all tasks" equal the ones over tasks seen; the means of their
    curves do not.

    >>> found = summary([[1.0, np.nan], [0.5, 1.0]], [3, 1])
    >>> found["average_accuracy"], found["sample_weighted_accuracy"], found["forgetting"]
    (0.75, 0.625, 0.5)
    """
    average, weighted = average_accuracy_curve(R), sample_weighted_curve(R, sizes)
    average_all, weighted_all = mean_over_all_curve(R), sample_weighted_over_all_curve(R, sizes)
    found = {
        "average_accuracy": _last(average),
        "mean_of_average_accuracy_curve": mean_of_curve(average),
        "sample_weighted_accuracy": _last(weighted),
        "mean_of_sample_weighted_curve": mean_of_curve(weighted),
        "mean_over_all_tasks": _last(average_all),
        "mean_of_all_tasks_curve": mean_of_curve(average_all),
        "sample_weighted_over_all_tasks": _last(weighted_all),
        "mean_of_sample_weighted_all_tasks_curve": mean_of_curve(weighted_all),
        "forgetting": _last(forgetting_curve(R)),
        "backward_transfer": backward_transfer(R),
    }
    return {name: None if math.isnan(value) else value for name, value in found.items()}


@dataclass(frozen=True)
class Band:
    """A curve over several runs: the mean after each task, and its standard error (NaN for one run)."""

    mean: Curve
    error: Curve


def band(curves: Sequence[ArrayLike]) -> Band:
    """The mean and the standard error of several runs' curves, after each task.

    >>> found = band([[0.5, 0.25], [0.5, 0.75]])
    >>> found.mean.tolist(), found.error.tolist()
    ([0.5, 0.5], [0.0, 0.25])
    """
    shapes = {np.shape(curve) for curve in curves}
    if len(shapes) != 1 or len(shapes.copy().pop()) != 1:
        raise InputError(f"A band needs one or more curves of one length, not {sorted(shapes) or 'none'}.")
    values = np.array(curves, np.float64)
    return Band(values.mean(axis=0), np.array([standard_error(column) for column in values.T]))


def standard_error(values: ArrayLike) -> float:
    """The standard error of the mean over repeated runs: s/√n, with n − 1 in s; NaN for one value.

    >>> standard_error([0.25, 0.75])
    0.25
    """
    found = np.asarray(values, np.float64)
    if found.ndim != 1 or not found.size:
        raise InputError(
            f"The standard error needs a list of at least one value, not the shape {found.shape}."
        )
    return float(found.std(ddof=1) / math.sqrt(found.size)) if found.size > 1 else math.nan


@dataclass(frozen=True)
class Interval:
    """A value, the interval about it, and its standard error, as a bootstrap over test images gives them."""

    value: float
    low: float
    high: float
    standard_error: float


def bootstrap(
    right: ArrayLike,
    strata: ArrayLike,
    *,
    by_image: bool = False,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """How much a run's accuracy would vary with other test images of the same kind.

    right: whether the prediction of each test image is right. strata: the task of each. The value is A_T, the
    unweighted mean over strata of the accuracy; with `by_image`, every image counts the same.

    A bootstrap draws images with replacement within each stratum. How many of those are right is binomial, so
    these counts are drawn instead: the same distribution, and no cost that grows with the images.

    >>> found = bootstrap([True, True, False, True], [0, 0, 1, 1])
    >>> found.value, found.low, found.high
    (0.75, 0.5, 1.0)
    """
    predictions = _right(right)
    return _bootstrap(predictions.astype(np.int64), strata, by_image, draws, seed, level)


def paired_bootstrap(
    right_a: ArrayLike,
    right_b: ArrayLike,
    strata: ArrayLike,
    *,
    by_image: bool = False,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """How much better a is than b, and how far that would vary with other test images, the same for both.

    As `bootstrap`, of the difference of A_T. An image counts as +1 where only a is right, −1 where only b is,
    and 0 where both or neither are: drawing images with replacement makes the numbers of the three kinds
    multinomial within each stratum, so these are drawn instead of the images.

    >>> found = paired_bootstrap([True, True, False, True], [True, False, False, True], [0, 0, 1, 1])
    >>> found.value, found.low, found.high
    (0.25, 0.0, 0.5)
    """
    a, b = _right(right_a), _right(right_b)
    if a.shape != b.shape:
        raise InputError(
            f"Predictions of {a.size:,} and of {b.size:,} images are not pairs. Give the same images."
        )
    return _bootstrap(a.astype(np.int64) - b, strata, by_image, draws, seed, level)


def _bootstrap(
    points: NDArray[np.int64], strata: ArrayLike, by_image: bool, draws: int, seed: int, level: float
) -> Interval:
    """The bootstrap of the mean of points, each of −1, 0 or 1."""
    belongs = np.asarray(strata)
    if belongs.shape != points.shape:
        raise InputError(
            f"Each of {points.size:,} images needs its task, but the tasks have shape {belongs.shape}."
        )
    if draws < 1 or not 0 < level < 1:
        raise InputError(
            f"draws = {draws}, level = {level} is impossible. Use draws ≥ 1 and a level between 0 and 1."
        )
    rng = np.random.default_rng(seed)
    names, indices = np.unique(belongs, return_inverse=True)
    value, drawn = 0.0, np.zeros(draws)
    for i in range(len(names)):
        own = points[indices == i]
        weight = own.size / points.size if by_image else 1 / len(names)
        counts = np.array([(own == 1).sum(), (own == -1).sum(), (own == 0).sum()])
        resampled = rng.multinomial(own.size, counts / own.size, size=draws)  # draws × 3
        value += weight * float(counts[0] - counts[1]) / own.size
        drawn += weight * (resampled[:, 0] - resampled[:, 1]) / own.size
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), float(drawn.std()))


def _right(predictions: ArrayLike) -> NDArray[np.bool_]:
    found = np.asarray(predictions)
    if found.dtype != np.bool_ or found.ndim != 1 or not found.size:
        raise InputError(
            "A bootstrap needs, for at least one image, whether its prediction is right (True or False), "
            f"not {found.dtype} of shape {found.shape}."
        )
    return found


def _matrix(R: ArrayLike) -> NDArray[np.float64]:
    matrix = np.asarray(R, np.float64)
    if matrix.ndim != 2 or len(matrix) > matrix.shape[1]:
        raise InputError(
            "R has a row for each task learned and a column for each task, so not more rows than columns; "
            f"this one has the shape {matrix.shape}."
        )
    return matrix


def _weights(sizes: Sequence[int], matrix: NDArray[np.float64]) -> NDArray[np.int64]:
    weights = np.asarray(sizes)
    if weights.shape != matrix.shape[1:] or (weights < 0).any():
        raise InputError(
            f"{matrix.shape[1]} tasks need as many sizes of tests, each of 0 or more images, not {sizes!r}."
        )
    return weights.astype(np.int64)


def _weighted(accuracies: NDArray[np.float64], weights: NDArray[np.int64]) -> float:
    """The mean over images; a task without images has no accuracy, and does not count."""
    some = weights > 0
    return float(accuracies[some] @ weights[some] / weights.sum()) if some.any() else math.nan


def _last(curve: Curve) -> float:
    return float(curve[-1]) if curve.size else math.nan
