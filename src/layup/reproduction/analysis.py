"""Pure functions from features, and from the accuracies of classes, to what explains them.

::

    squared_mmd, median_bandwidth    how far apart two sets of features are
    class_similarities, UnitSums     how alike images of one class are, and images of different ones
    class_change                     which classes gain and lose by a method (the paper's Figure 5)
    share_better                     which classes an earlier layer predicts better than the last (Figure 2)
    contrast                         a weighted sum of several runs' accuracies, with its interval
    rank_correlation                 whether two such numbers rise together, and how likely that is by chance

Features are arrays with one row per image. All arithmetic is in float64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from layup.benchmark.metrics import Interval
from layup.errors import InputError

Rows = NDArray[np.float64]
"""Features: one row per image."""

DIGITS = 9
"""Accuracies that agree to this many digits are equal: the rest is rounding."""


def squared_mmd(x: ArrayLike, y: ArrayLike, bandwidth: float, *, rows: int = 1024) -> float:
    """How far apart the distributions are that x and y were drawn from: MMD², estimated without bias.

    MMD² = mean k(x, x') + mean k(y, y') − 2 mean k(x, y), with k(a, b) = exp(−‖a − b‖² / (2 bandwidth²)). The
    means are over all pairs, and within x and within y over pairs of different rows only. So the estimate is
    unbiased, and **it can be negative** where the two distributions are alike.

    The kernel is never held in memory as a whole: tiles of `rows` × `rows` are summed, one after another.

    >>> round(squared_mmd([[0.0], [1.0]], [[9.0], [9.0]], bandwidth=1.0), 4)
    1.6065
    >>> round(squared_mmd([[0.0], [2.0]], [[0.0], [2.0]], bandwidth=1.0), 4)
    -0.8647
    """
    a, b = _features(x), _features(y)
    if a.shape[1] != b.shape[1]:
        raise InputError(
            f"Rows of {a.shape[1]:,} and of {b.shape[1]:,} features cannot be compared. Give equally many."
        )
    if min(len(a), len(b)) < 2:
        raise InputError(
            f"MMD² needs pairs of rows on both sides, so at least 2 of each, not {len(a):,} and {len(b):,}."
        )
    if not 0 < bandwidth < math.inf:
        raise InputError(f"bandwidth = {bandwidth} is impossible. Use a number > 0, as of median_bandwidth.")
    if rows < 1:
        raise InputError(f"rows = {rows} is impossible. Use rows ≥ 1.")
    a, b = a / (math.sqrt(2) * bandwidth), b / (math.sqrt(2) * bandwidth)
    return _mean_within(a, rows) + _mean_within(b, rows) - 2 * _mean_between(a, b, rows)


def median_bandwidth(x: ArrayLike, *, sample: int = 1000, seed: int = 0) -> float:
    """The median heuristic for the bandwidth of a kernel: the median distance between different rows of x.

    Of many rows, `sample` are drawn without replacement. Only numbers of the same bandwidth can be compared,
    so use that of one set of features for all.

    >>> median_bandwidth([[0.0], [1.0], [3.0]])
    2.0
    """
    rows = _features(x)
    if len(rows) < 2:
        raise InputError(f"The median distance needs at least 2 rows, not {len(rows)}.")
    if sample < 2:
        raise InputError(f"sample = {sample} is impossible: there are no pairs. Use sample ≥ 2.")
    if len(rows) > sample:
        rows = rows[np.random.default_rng(seed).choice(len(rows), sample, replace=False)]
    first, second = np.triu_indices(len(rows), 1)
    centred = rows - rows.mean(axis=0)
    squares = _squared_distances(centred, centred)[first, second]
    # The fast squares tell which pairs are in the middle. Their distance is then taken from the rows, since
    # the squares of equal rows are rounding errors, and not zero.
    middle = [(len(squares) - 1) // 2, len(squares) // 2]
    pairs = np.argpartition(squares, middle)[middle]
    median = float(np.linalg.norm(rows[first[pairs]] - rows[second[pairs]], axis=1).mean())
    if median == 0:
        raise InputError(
            "The median distance is 0, which no kernel can use: most pairs of rows are equal. "
            "Give rows that differ, or choose a bandwidth > 0."
        )
    return median


@dataclass(frozen=True)
class Similarities:
    """Mean cosine similarity of two images of one class, and of different ones; NaN if there are none."""

    within: float
    between: float


class UnitSums:
    """What the mean similarities need of features, which can come in parts: sums of unit vectors per class.

    >>> sums = UnitSums()
    >>> sums.add([[1.0, 0.0], [0.0, 3.0]], ["cat", "dog"])
    >>> sums.add([[2.0, 0.0]], ["cat"])
    >>> sums.similarities
    Similarities(within=1.0, between=0.0)
    """

    def __init__(self) -> None:
        self._sums: dict[Any, NDArray[np.float64]] = {}
        self._counts: dict[Any, int] = {}
        self._features: int | None = None

    def add(self, x: ArrayLike, labels: ArrayLike) -> None:
        """Add images: a row of features and a label for each. If any is refused, none is added.

        >>> UnitSums().add([[1.0, 0.0], [0.0, 3.0]], ["cat", "dog"])
        """
        rows, own = _features(x), np.asarray(labels)
        if own.shape != (len(rows),):
            raise InputError(
                f"Each of {len(rows):,} rows needs its label, but the labels have shape {own.shape}."
            )
        if self._features not in (None, rows.shape[1]):
            raise InputError(
                f"Rows of {rows.shape[1]:,} features cannot be added to rows of {self._features:,}. "
                "Give equally many."
            )
        units = _units(rows)
        self._features = rows.shape[1]
        names, indices = np.unique(own, return_inverse=True)
        for i, name in enumerate(names.tolist()):
            members = units[indices == i]
            self._sums[name] = self._sums.get(name, 0.0) + members.sum(axis=0)
            self._counts[name] = self._counts.get(name, 0) + len(members)

    @property
    def similarities(self) -> Similarities:
        """Over all that was added, every pair of images counts the same.

        The sum over all pairs of products of unit vectors is the square of their sum, so no pair is computed.
        With u_y the sum and n_y the number of class y, and n = Σ n_y: within is Σ (‖u_y‖² − n_y) over
        Σ n_y(n_y − 1) pairs, where n_y is the similarity of images with themselves; between is
        ‖Σ u_y‖² − Σ ‖u_y‖² over n² − Σ n_y² pairs.

        >>> UnitSums().similarities
        Similarities(within=nan, between=nan)
        """
        n, same = sum(self._counts.values()), sum(count**2 for count in self._counts.values())
        own = sum(float(u @ u) for u in self._sums.values())
        total = np.sum(list(self._sums.values()), axis=0)
        return Similarities(_ratio(own - n, same - n), _ratio(float(np.sum(total**2)) - own, n**2 - same))


def class_similarities(x: ArrayLike, labels: ArrayLike) -> Similarities:
    """How alike images are: the mean cosine similarity of all pairs within classes, and between them.

    In linear time. Features that do not fit into memory can be added to `UnitSums`, part by part.

    >>> class_similarities([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]], ["cat", "cat", "dog"])
    Similarities(within=1.0, between=0.0)
    """
    sums = UnitSums()
    sums.add(x, labels)
    return sums.similarities


@dataclass(frozen=True)
class ClassChange:
    """What a change of method did to classes: the shares that are better, equal and worse, and how much.

    gain: how far accuracy rose, on average over the classes that are better; 0 if there are none.
    loss: how far it fell, as a positive number, on average over those that are worse; 0 if there are none.
    classes: how many were compared.
    """

    better: float
    equal: float
    worse: float
    gain: float
    loss: float
    classes: int


def class_change(before: Mapping[str, float], after: Mapping[str, float]) -> ClassChange:
    """How the accuracies of classes changed, over the classes that both have.

    The paper's "universality" (Figure 5) is this, from LayUP of the last layer to that of the last six.

    >>> before = {"ant": 0.5, "bee": 0.5, "cat": 0.75, "dog": 1.0}
    >>> class_change(before, {"ant": 0.75, "bee": 1.0, "cat": 0.25, "dog": 1.0})
    ClassChange(better=0.5, equal=0.25, worse=0.25, gain=0.375, loss=0.5, classes=4)
    """
    common = [name for name in before if name in after]
    if not common:
        raise InputError(
            f"There is nothing to compare: {len(before)} and {len(after)} classes have none in common."
        )
    for name in common:
        if not (math.isfinite(before[name]) and math.isfinite(after[name])):
            raise InputError(
                f"The accuracies {before[name]} and {after[name]} of '{name}' cannot be compared. "
                "Leave out classes without tests."
            )
    rises = np.array([after[name] - before[name] for name in common]).round(DIGITS)
    better, worse = rises[rises > 0], -rises[rises < 0]
    return ClassChange(
        better=len(better) / len(rises),
        equal=(len(rises) - len(better) - len(worse)) / len(rises),
        worse=len(worse) / len(rises),
        gain=float(better.mean()) if len(better) else 0.0,
        loss=float(worse.mean()) if len(worse) else 0.0,
        classes=len(rises),
    )


def share_better(layers: Sequence[Mapping[str, float]]) -> list[float]:
    """The share of classes that each layer but the last predicts strictly better than the last (Figure 2).

    layers: the accuracy of each class, by a classifier of each layer alone; the last layer comes last.

    >>> share_better([{"ant": 0.5, "bee": 0.5}, {"ant": 0.75, "bee": 0.5}, {"ant": 0.5, "bee": 0.75}])
    [0.0, 0.5]
    """
    if not layers:
        raise InputError("There is no last layer to compare with: give the accuracies of at least one layer.")
    return [class_change(layers[-1], layer).better for layer in layers[:-1]]


def contrast(
    right: ArrayLike,
    weights: Sequence[float],
    strata: ArrayLike,
    *,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """A weighted sum of the A_T of several runs, and how far it would vary with other test images.

    right: whether the prediction of each test image is right, one row per run. weights: one per run, such as
    (1, −1, −1, 1) for a difference of two differences. strata: the task of each image. As
    `metrics.paired_bootstrap`, which is that of (1, −1): images are drawn with replacement within each task.

    >>> found = contrast([[True, True, True], [True, False, True]], (1.0, -1.0), [0, 0, 1])
    >>> found.value, found.low, found.high
    (0.25, 0.0, 0.5)
    """
    # How often images of each value are drawn is multinomial, so these counts are drawn instead.
    points, belongs = np.asarray(weights) @ np.asarray(right, np.float64), np.asarray(strata)
    rng, names = np.random.default_rng(seed), np.unique(belongs)
    value, drawn = 0.0, np.zeros(draws)
    for name in names:
        own, counts = np.unique(points[belongs == name], return_counts=True)
        images = counts.sum() * len(names)
        value += float(counts @ own / images)
        drawn += rng.multinomial(counts.sum(), counts / counts.sum(), size=draws) @ own / images
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), float(drawn.std()))


@dataclass(frozen=True)
class Correlation:
    """A correlation, and how likely one is by chance that is at least as far from 0; NaN if undefined."""

    value: float
    chance: float


def rank_correlation(x: ArrayLike, y: ArrayLike, *, draws: int = 10_000, seed: int = 0) -> Correlation:
    """Spearman's rank correlation, and how often chance alone would give one as far from 0.

    Equal values share the mean of their ranks. The chance is the share of pairings of x and y whose
    correlation is as far from 0: of all pairings if there are at most `draws`, else of `draws` random ones.
    The observed pairing counts as one of them, so it is never 0. If all of x or all of y are equal, both are
    NaN.

    >>> rank_correlation([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], [1, 2, 4, 8, 16, 32, 64], draws=99)
    Correlation(value=1.0, chance=0.01)
    """
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if a.shape != b.shape or a.ndim != 1 or a.size < 3:
        raise InputError(
            "A rank correlation needs two lists of one length with at least 3 numbers each, "
            f"not of shapes {a.shape} and {b.shape}."
        )
    if np.isnan(a).any() or np.isnan(b).any():
        raise InputError("A value that is not a number (nan) has no rank. Leave out such pairs.")
    if draws < 1:
        raise InputError(f"draws = {draws} is impossible. Use draws ≥ 1.")
    # Ranks about their mean are whole numbers or halves, so that their products and sums are exact.
    u, v = (stats.rankdata(values) - (len(values) + 1) / 2 for values in (a, b))
    if not (u.any() and v.any()):
        return Correlation(math.nan, math.nan)
    value = float(u @ v) / math.sqrt(float(u @ u) * float(v @ v))
    test = stats.permutation_test(
        (v,),
        lambda paired, axis: np.abs(paired @ u),
        permutation_type="pairings",
        vectorized=True,
        n_resamples=draws,
        batch=1000,  # all pairings of many values together would not fit into memory
        alternative="greater",
        rng=seed,
    )
    return Correlation(value, float(test.pvalue))


def _features(x: ArrayLike) -> Rows:
    rows = np.asarray(x, np.float64)
    if rows.ndim != 2:
        raise InputError(f"Features have a row for each image; these have the shape {rows.shape}.")
    fine = np.isfinite(rows).all(axis=1)
    if not fine.all():
        raise InputError(
            f"Row {int(fine.argmin()):,} of the features has a value that is not finite. Leave out such rows."
        )
    return rows


def _squared_distances(a: Rows, b: Rows) -> NDArray[np.float64]:
    """Of each row of a to each of b, by ‖a‖² + ‖b‖² − 2ab. It rounds to 1e-16 of ‖a‖²: centre first."""
    found = a @ b.T
    found *= -2
    found += np.einsum("ij,ij->i", a, a)[:, None]
    found += np.einsum("ij,ij->i", b, b)
    return np.maximum(found, 0.0, out=found)


def _kernel(a: Rows, b: Rows) -> NDArray[np.float64]:
    """exp(−‖a − b‖²), in one tile of memory."""
    found = _squared_distances(a, b)
    np.negative(found, out=found)
    return np.exp(found, out=found)


def _mean_within(x: Rows, rows: int) -> float:
    """The mean of the kernel over all pairs of different rows."""
    x = x - x.mean(axis=0)  # about its own mean, for accuracy: distances within x do not change
    total = 0.0
    for i in range(0, len(x), rows):
        own = _kernel(x[i : i + rows], x[i : i + rows])
        np.fill_diagonal(own, 0.0)
        total += float(own.sum())
        for j in range(i + rows, len(x), rows):  # tiles above the diagonal also count for those below
            total += 2 * float(_kernel(x[i : i + rows], x[j : j + rows]).sum())
    return total / (len(x) * (len(x) - 1))


def _mean_between(x: Rows, y: Rows, rows: int) -> float:
    """The mean of the kernel over all pairs of a row of x and one of y."""
    centre = (x.mean(axis=0) + y.mean(axis=0)) / 2
    x, y = x - centre, y - centre
    total = 0.0
    for i in range(0, len(x), rows):
        for j in range(0, len(y), rows):
            total += float(_kernel(x[i : i + rows], y[j : j + rows]).sum())
    return total / (len(x) * len(y))


def _units(rows: Rows) -> Rows:
    """The rows at length 1. Their largest values become 1 first, so that no square is too small or large."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    if not largest.all():
        raise InputError(
            f"Row {int(largest.argmin()):,} of the features is all zero: it has no direction, and so no "
            "similarity. Leave out such rows."
        )
    scaled = rows / largest[:, None]
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))


def _ratio(total: float, pairs: int) -> float:
    return total / pairs if pairs else math.nan
