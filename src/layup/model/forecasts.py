"""How much memory learning, predicting, forgetting and merging will take."""

from __future__ import annotations

import numpy as np

from layup.algebra import CHUNK, ClassSums, GramStatistics, Triangle
from layup.memory import SPOOL, Forecast

SOLVING = 6
"""Matrices of G's size that there are while it is solved: G, G + λI, LAPACK's copies, and what it gives."""


def learning(
    dim: int,
    classes: int,
    samples: int,
    *,
    known: int = 0,
    searched: bool,
    precision: str = "float64",
    solved: int | None = None,
) -> Forecast:
    """What it takes to learn a lesson of `samples` with sums that hold `known` of them, and to answer then.

    dim: values of a feature vector, d.
    searched: whether λ is searched on the lesson.
    solved: values of the widest part that is solved by itself, if not all of them.

    Besides what stays there is what comes and goes: adding to the sums, searching λ and solving take turns,
    so only the largest of these counts.

    >>> print(learning(4608, classes=100, samples=5000, searched=True))
    about 1.5 GB (G 87.3 MB, samples 92.2 MB, λ search 1.3 GB)
    >>> print(learning(4608, classes=100, samples=5000, searched=False))
    about 1.1 GB (G 87.3 MB, solving 1.0 GB)
    """
    size, width = np.dtype(precision).itemsize, dim if solved is None else solved
    triangle = Triangle.nbytes_of(dim, precision)
    turns = {
        "adding": 2 * triangle + 3 * size * dim * min(samples, CHUNK),
        "solving": SOLVING * size * width**2 + size * width * classes,
        "λ search": size * searching(width, classes, samples, known) if searched else 0,
    }
    most = max(turns, key=lambda turn: turns[turn])
    stays = {
        "G": triangle,
        "class sums": size * dim * classes,
        "samples": min(4 * samples * dim, SPOOL) if searched else 0,
    }
    return Forecast({**stays, most: turns[most]})


def solving(sums: ClassSums, width: int, classes: int) -> Forecast:
    """What it takes to predict for the first time with sums, of which so many columns are solved at once.

    >>> print(solving(GramStatistics(4608), 4608, classes=100))
    about 1.0 GB (solving 1.0 GB)
    """
    if not isinstance(sums, GramStatistics):
        return Forecast({"class means": 2 * _size(sums) * sums.dim * classes})
    return Forecast({"solving": _size(sums) * width * (SOLVING * width + classes)})


def reverting(sums: ClassSums, classes: int) -> Forecast:
    """What it takes to take samples out of sums of so many classes, and to see that they were in them.

    >>> print(reverting(GramStatistics(4608), classes=100))
    about 861.4 MB (G without them 174.6 MB, checking it 679.5 MB)
    """
    own = {"class sums": 2 * _size(sums) * sums.dim * classes}
    if not isinstance(sums, GramStatistics):
        return Forecast(own)
    triangle = Triangle.nbytes_of(sums.dim, sums.precision)
    checked = 4 * _size(sums) * sums.dim**2  # scatter, means, what is factorised, and its factor
    return Forecast({**own, "G without them": 2 * triangle, "checking it": checked})


def merging(sums: ClassSums, classes: int, base: bool) -> Forecast:
    """What it takes to add sums of the same layers; and to take those of a base out, if there is one.

    >>> print(merging(GramStatistics(4608), classes=100, base=False))
    about 182.0 MB (class sums 7.4 MB, G 174.6 MB)
    """
    own = {"class sums": 2 * _size(sums) * sums.dim * classes}
    if isinstance(sums, GramStatistics):
        own["G"] = 2 * Triangle.nbytes_of(sums.dim, sums.precision)
    return Forecast({**own, **reverting(sums, classes).parts} if base else own)


def _size(sums: ClassSums) -> int:
    """Bytes of one of their numbers."""
    return np.dtype(sums.precision).itemsize


def searching(width: int, classes: int, samples: int, known: int) -> int:
    """Values that the search of λ takes beside the sums and the samples, see `search_lambda`."""
    from layup.algebra import FOLDS, LAMBDAS, LARGE_FOLD  # here, for it loads torch

    fold = samples / FOLDS
    if fold > LARGE_FOLD * width:  # the sums of every fold, G without one and its factors; W of every λ
        return 7 * width**2 + 2 * len(LAMBDAS) * classes * width
    everything = known + samples
    if everything - fold < width:  # G and its square root; all rows, and two copies; K and what it becomes
        return 2 * width**2 + 2 * everything * width + 3 * everything**2
    return 3 * width**2 + 2 * samples * width  # G, and what it becomes; samples, rotated and whitened


def class_sums(dim: int, classes: int, samples: int) -> Forecast:
    """What it takes to learn a lesson where only sums of classes are kept.

    >>> print(class_sums(768, classes=100, samples=5000))
    about 13.8 MB (class sums 1.2 MB, adding 12.6 MB)
    """
    return Forecast({"class sums": 16 * dim * classes, "adding": 16 * dim * min(samples, CHUNK)})
