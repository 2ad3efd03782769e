"""What each fold of a batch is predicted by: the sums of everything else, ready for any λ.

Only sums are needed to make the weights, and only weights and a fold's samples to count what they predict
right. So sums, weights and samples may be on different machines: see `layup.sharding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from layup.algebra.resolvent import Resolvent
from layup.algebra.ridge import Spectrum, balancing
from layup.algebra.samples import Floats
from layup.algebra.statistics import GramStatistics


@dataclass(frozen=True)
class Rest:
    """The sums of everything but a fold, factorised: 2 d³ operations, or more while samples are few."""

    sums: GramStatistics
    factors: tuple[Resolvent, Tensor] | Spectrum
    """Of fewer samples than dimensions the spectrum: there G is singular, and rounding would decide."""

    @classmethod
    def of(cls, sums: GramStatistics) -> Rest:
        """From the sums."""
        if sums.samples < sums.dim and sums.precision == "float64":
            return cls(sums, Spectrum.of(sums.gram, sums.prototypes, sums.samples))
        resolvent = Resolvent(torch.from_numpy(sums.gram))
        return cls(sums, (resolvent, resolvent.rotated(torch.from_numpy(sums.prototypes).T)))

    def weights(self, lam: float, balance: bool) -> Floats:
        """W of the sums, d × C."""
        if isinstance(self.factors, Spectrum):
            weights = torch.from_numpy(self.factors.weights(lam))
            products = torch.from_numpy(self.sums.prototypes) @ weights
        else:
            resolvent, rotated = self.factors
            shifted = resolvent.at([lam])
            targets = shifted.whitened(rotated)
            weights = resolvent.rotated_back(shifted.solved(targets)[0])
            products = targets[0].T @ targets[0]
        counts = torch.from_numpy(self.sums.counts)
        return (weights @ balancing(products, counts) if balance else weights).numpy()

    def right(self, weights: Floats, x: Floats, labels: NDArray[Any]) -> int:
        """How many samples weights of these sums predict right."""
        return right(weights, self.sums.labels, x, labels)


def right(weights: Floats, classes: Sequence[Any], x: Floats, labels: NDArray[Any]) -> int:
    """How many samples are predicted right by W, whose columns are these classes.

    >>> right(np.eye(2), ["cat", "dog"], np.array([[0.9, 0.1], [0.6, 0.2]]), np.array(["cat", "dog"]))
    1
    """
    if not len(classes):
        return 0
    return int((np.array(classes)[(x @ weights).argmax(axis=1)] == labels).sum())


def rests(folds: Sequence[GramStatistics], history: GramStatistics) -> list[Rest]:
    """Of each fold, what it is predicted by: the history, and the other folds."""
    return [Rest.of(sum((other for other in folds if other is not fold), start=history)) for fold in folds]


def mean_accuracies(hits: NDArray[np.int64], sizes: Sequence[int]) -> list[Fraction]:
    """The mean accuracy over folds of every λ, from what was right (λ × folds) of folds of these sizes.

    Folds without samples are left out.

    >>> mean_accuracies(np.array([[1, 2], [2, 2]]), [2, 2])
    [Fraction(3, 4), Fraction(1, 1)]
    """
    used = [(fold, size) for fold, size in enumerate(sizes) if size]
    means = (sum(Fraction(int(row[fold]), size) for fold, size in used) for row in hits)
    return [Fraction(mean, len(used)) for mean in means]
