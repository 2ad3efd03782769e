"""Features to measure on: made up, with a spectrum that falls as a power, as roughly those of networks do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

Rows = NDArray[np.float32]
Labels = NDArray[np.int64]

DECAY = 0.8
"""Along direction i, features spread by i^−0.8 within a class: few directions hold most of the variance."""
SEPARATION, SEPARATION_DECAY = 1.0, 0.3
"""Along direction i, class means spread i^−0.3 times that: smaller directions tell less of the class."""
CHUNK = 1024
"""Rows made at a time, so that making them needs little more memory than they take."""


@dataclass(frozen=True)
class Population:
    """Classes 0, 1, … of features, without end: a mean for each, and scatter that all share.

    The directions are those of two cosine transforms with random signs in between: as dense as a random
    rotation, but quick and without a matrix. A row costs about d·log d operations.

    >>> x, y = Population(dim=32, classes=5).lesson(20, range(2, 5), seed=1)
    >>> x.shape, x.dtype.name, sorted(set(y.tolist()))
    ((20, 32), 'float32', [2, 3, 4])
    """

    dim: int
    classes: int
    seed: int = 0

    def batch(self, count: int, of: Sequence[int], seed: int) -> tuple[Rows, Labels]:
        """So many samples of these classes, as evenly shared as can be, in random order."""
        rng = np.random.default_rng([self.seed, seed])
        labels = rng.permutation(np.resize(np.asarray(of, np.int64), count))
        rows = np.empty((count, self.dim), np.float32)
        for start in range(0, count, CHUNK):
            own = labels[start : start + CHUNK]
            scatter = rng.standard_normal((len(own), self.dim))
            rows[start : start + CHUNK] = self._rotated((self._means[own] + scatter) * self._spread)
        return rows, labels

    @property
    def _spread(self) -> NDArray[np.float64]:
        return np.arange(1.0, self.dim + 1) ** np.float64(-DECAY)

    @cached_property
    def _means(self) -> NDArray[np.float64]:
        """Before rotation; as real features have it, a part that all classes share is the largest."""
        rng = np.random.default_rng(self.seed)
        shared = rng.standard_normal(self.dim)
        apart = SEPARATION * np.arange(1, self.dim + 1) ** -SEPARATION_DECAY
        return np.asarray(shared + apart * rng.standard_normal((self.classes, self.dim)))

    @cached_property
    def _signs(self) -> NDArray[np.float64]:
        return np.random.default_rng([self.seed, 0, 0]).choice([-1.0, 1.0], (2, self.dim))

    def _rotated(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        for signs in self._signs:
            rows = np.asarray(dct(rows * signs, axis=1, norm="ortho"))
        return rows
