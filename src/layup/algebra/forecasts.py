"""How much memory learning, predicting, forgetting and merging will take."""

from __future__ import annotations

import numpy as np

from layup.algebra.class_moments import ClassMoments
from layup.algebra.class_sums import ClassSums
from layup.algebra.samples import CHUNK
from layup.algebra.statistics import GramStatistics
from layup.algebra.symmetric import Triangle
from layup.memory import SPOOL, Forecast

SOLVING = 6
"""How many matrices of G's size are held while it is solved: G, G + λI, LAPACK's copies, and its result."""


def forecast_learning(
    dim: int,
    classes: int,
    samples: int,
    *,
    search: int = 0,
    precision: str = "float64",
    solved: int | None = None,
) -> Forecast:
    """What it takes to learn a batch of `samples`, and to predict after it.

    dim: the length of a feature vector, d.
    search: how many values a search on the samples holds, if any: see `SumsClassifier.search_values`.
    solved: the width of the widest part that is solved by itself, if not d.

    Adding to the sums, searching λ and solving come one after another: of these, only the largest counts.

    >>> from layup.algebra.lambda_search import search_values
    >>> search = search_values(4608, 100, 5000, known=0)
    >>> print(forecast_learning(4608, classes=100, samples=5000, search=search))
    about 1.5 GB (G 87.3 MB, samples 92.2 MB, λ search 1.3 GB)
    >>> print(forecast_learning(4608, classes=100, samples=5000))
    about 1.1 GB (G 87.3 MB, solving 1.0 GB)
    """
    size, width = np.dtype(precision).itemsize, dim if solved is None else solved
    triangle = Triangle.nbytes_of(dim, precision)
    turns = {
        "adding": 2 * triangle + 3 * size * dim * min(samples, CHUNK),
        "solving": SOLVING * size * width**2 + size * width * classes,
        "λ search": size * search,
    }
    most = max(turns, key=lambda turn: turns[turn])
    stays = {
        "G": triangle,
        "class sums": size * dim * classes,
        "samples": min(4 * samples * dim, SPOOL) if search else 0,
    }
    return Forecast({**stays, most: turns[most]})


def forecast_solving(sums: ClassSums, width: int, classes: int) -> Forecast:
    """What it takes to predict for the first time with sums, if `width` columns are solved together.

    >>> print(forecast_solving(GramStatistics(4608), 4608, classes=100))
    about 1.0 GB (solving 1.0 GB)
    """
    if isinstance(sums, ClassMoments):  # a root of each class, and what is held to find one
        return Forecast({"class covariances": _size(sums) * width**2 * (classes + SOLVING)})
    if not isinstance(sums, GramStatistics):
        return Forecast({"class means": 2 * _size(sums) * sums.dim * classes})
    return Forecast({"solving": _size(sums) * width * (SOLVING * width + classes)})


def forecast_reverting(sums: ClassSums, classes: int) -> Forecast:
    """What it takes to subtract samples from sums of `classes` classes, and to check that they were in them.

    >>> print(forecast_reverting(GramStatistics(4608), classes=100))
    about 861.4 MB (G without them 174.6 MB, checking it 679.5 MB)
    """
    own = {"class sums": 2 * _size(sums) * sums.values_per_class * classes}
    if not isinstance(sums, GramStatistics):
        return Forecast(own)
    triangle = Triangle.nbytes_of(sums.dim, sums.precision)
    checked = 4 * _size(sums) * sums.dim**2  # scatter, means, what is factorised, and its factor
    return Forecast({**own, "G without them": 2 * triangle, "checking it": checked})


def forecast_merging(sums: ClassSums, classes: int, base: bool) -> Forecast:
    """What it takes to add sums of the same layers; and to subtract those of a base, if there is one.

    >>> print(forecast_merging(GramStatistics(4608), classes=100, base=False))
    about 182.0 MB (class sums 7.4 MB, G 174.6 MB)
    """
    own = {"class sums": 2 * _size(sums) * sums.values_per_class * classes}
    if isinstance(sums, GramStatistics):
        own["G"] = 2 * Triangle.nbytes_of(sums.dim, sums.precision)
    return Forecast({**own, **forecast_reverting(sums, classes).parts} if base else own)


def _size(sums: ClassSums) -> int:
    """Bytes of one of their numbers."""
    return np.dtype(sums.precision).itemsize


def forecast_class_sums(dim: int, classes: int, samples: int, values: int | None = None) -> Forecast:
    """What it takes to learn a batch where only sums of classes are kept, each of d values by default.

    >>> print(forecast_class_sums(768, classes=100, samples=5000))
    about 13.8 MB (class sums 1.2 MB, adding 12.6 MB)
    """
    kept = dim if values is None else values
    return Forecast({"class sums": 16 * kept * classes, "adding": 16 * dim * min(samples, CHUNK)})
