"""A symmetric matrix that keeps only one triangle, in memory and in files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup.errors import InputError

BLOCK = 128
"""Rows of a panel: enough for products at full speed; more would leave the processor's cache."""


class Triangle:
    """A symmetric d × d matrix as panels of rows that end at the diagonal: d²/2 + d·BLOCK/2 values.

    Panel i holds the rows from i·BLOCK to (i+1)·BLOCK, and their columns from 0 to (i+1)·BLOCK. The square
    at its end holds both triangles, equal to the bit.

    A triangle is immutable: every operation makes a new one, so that an interruption leaves the old one.

    >>> triangle = Triangle.zeros(2).plus_rows(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> triangle.dense().tolist(), triangle.trace(), triangle.packed().tolist()
    ([[1.0, 2.0], [2.0, 13.0]], 14.0, [1.0, 2.0, 13.0])
    >>> (triangle - triangle.plus_rows(np.array([[1.0, 1.0]]))).dense().tolist()
    [[-1.0, -1.0], [-1.0, -1.0]]
    """

    def __init__(self, panels: tuple[NDArray[Any], ...]) -> None:
        self._panels = panels

    @classmethod
    def zeros(cls, dim: int, precision: str = "float64") -> Self:
        """A matrix of zeros."""
        return cls(tuple(np.zeros((stop - start, stop), precision) for start, stop in _panels(dim)))

    @classmethod
    def of(cls, matrix: ArrayLike) -> Self:
        """From the lower triangle of a square matrix."""
        dense = np.asarray(matrix)
        if dense.ndim != 2 or dense.shape[0] != dense.shape[1]:
            raise InputError(f"Give a square matrix, not an array of shape {dense.shape}.")
        return cls(tuple(_mirrored(dense[start:stop, :stop].copy()) for start, stop in _panels(len(dense))))

    @classmethod
    def from_packed(cls, packed: NDArray[Any], dim: int) -> Self:
        """The inverse of `packed`, bit by bit.

        >>> Triangle.from_packed(np.array([1.0, 2.0, 3.0]), 2).dense().tolist()
        [[1.0, 2.0], [2.0, 3.0]]
        """
        if packed.shape != (triangle_size(dim),):
            raise InputError(
                f"Values of shape {packed.shape} are not a triangle of a {dim} × {dim} matrix, "
                f"which has {triangle_size(dim)} values."
            )
        panels = []
        for start, stop in _panels(dim):
            panel = np.empty((stop - start, stop), packed.dtype)
            for i, row in enumerate(panel, start):
                row[: i + 1] = packed[triangle_size(i) : triangle_size(i + 1)]
            panels.append(_mirrored(panel))
        return cls(tuple(panels))

    @property
    def dim(self) -> int:
        """How many rows and columns the matrix has, d."""
        return int(self._panels[-1].shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(panel.nbytes for panel in self._panels)

    @staticmethod
    def nbytes_of(dim: int, precision: str) -> int:
        """Bytes that a triangle of a d × d matrix takes."""
        return sum((stop - start) * stop for start, stop in _panels(dim)) * np.dtype(precision).itemsize

    def plus_rows(self, x: NDArray[Any], sign: int = 1) -> Self:
        """The matrix plus XᵀX, or minus it (−1), for samples X (n × d).

        Costs n·d² operations, and only the memory of the new triangle.
        """
        combine = np.add if sign > 0 else np.subtract
        panels = []
        for (start, stop), panel in zip(_panels(self.dim), self._panels, strict=True):
            product = np.empty_like(panel)
            rows = x[:, start:stop].T
            np.matmul(rows, x[:, :start], out=product[:, :start])
            product[:, start:] = rows @ rows.T  # a product with itself is symmetric to the bit
            panels.append(combine(panel, product, out=product))
        return type(self)(tuple(panels))

    def __add__(self, other: Self) -> Self:
        return type(self)(tuple(a + b for a, b in zip(self._panels, other._panels, strict=True)))

    def __sub__(self, other: Self) -> Self:
        return type(self)(tuple(a - b for a, b in zip(self._panels, other._panels, strict=True)))

    def nearest(self, steps: NDArray[Any]) -> Self:
        """The matrix with each value rounded to a multiple of the product of the steps of its row and column.

        >>> Triangle.of(np.array([[0.9, 5.2], [5.2, 15.0]])).nearest(np.array([1.0, 4.0])).dense().tolist()
        [[1.0, 4.0], [4.0, 16.0]]
        """
        panels = []
        for (start, stop), panel in zip(_panels(self.dim), self._panels, strict=True):
            units = steps[start:stop, None] * steps[:stop]
            panels.append(np.rint(panel / units) * units + 0.0)
        return type(self)(tuple(panels))

    def equals(self, other: Self) -> bool:
        """Whether both are the same."""
        return all(np.array_equal(a, b) for a, b in zip(self._panels, other._panels, strict=True))

    def dense(self) -> NDArray[Any]:
        """The whole matrix, as a new array."""
        dense = np.empty((self.dim, self.dim), self._panels[0].dtype)
        for (start, stop), panel in zip(_panels(self.dim), self._panels, strict=True):
            dense[start:stop, :stop] = panel
            dense[:start, start:stop] = panel[:, :start].T
        return dense

    def lower(self) -> NDArray[Any]:
        """The matrix up to its diagonal, as a new array; above it, zeros or what mirrors them.

        >>> Triangle.of(np.array([[1.0, 2.0], [2.0, 3.0]])).lower()[1].tolist()
        [2.0, 3.0]
        """
        lower = np.zeros((self.dim, self.dim), self._panels[0].dtype)
        for (start, stop), panel in zip(_panels(self.dim), self._panels, strict=True):
            lower[start:stop, :stop] = panel
        return lower

    def take(self, columns: NDArray[np.int64]) -> Self:
        """The matrix of these rows and columns only, in this order.

        >>> triangle = Triangle.of(np.array([[1, 2, 4], [2, 3, 5], [4, 5, 6]]))
        >>> triangle.take(np.array([2, 0])).dense().tolist()
        [[6, 4], [4, 1]]
        """
        if np.array_equal(columns, np.arange(self.dim)):
            return self  # immutable
        return type(self)(
            tuple(self._block(columns[start:stop], columns[:stop]) for start, stop in _panels(len(columns)))
        )

    def diagonal(self) -> NDArray[Any]:
        """The diagonal, as a new array."""
        return np.concatenate(
            [np.diagonal(panel[:, panel.shape[1] - len(panel) :]) for panel in self._panels]
        )

    def trace(self) -> float:
        """The sum of the diagonal."""
        return float(self.diagonal().sum())

    def packed(self) -> NDArray[Any]:
        """The lower triangle in d(d+1)/2 values, row by row, as files have it."""
        packed = np.empty(triangle_size(self.dim), self._panels[0].dtype)
        for (start, _), panel in zip(_panels(self.dim), self._panels, strict=True):
            for i, row in enumerate(panel, start):
                packed[triangle_size(i) : triangle_size(i + 1)] = row[: i + 1]
        return packed

    def _block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[Any]:
        """The values where these rows and columns meet, each from the panel of the lower of the two."""
        block = np.empty((len(rows), len(columns)), self._panels[0].dtype)
        for (start, stop), panel in zip(_panels(self.dim), self._panels, strict=True):
            within, above = (start <= rows) & (rows < stop), rows < start
            upto, across = columns < stop, (start <= columns) & (columns < stop)
            block[np.ix_(within, upto)] = panel[np.ix_(rows[within] - start, columns[upto])]
            block[np.ix_(above, across)] = panel[np.ix_(columns[across] - start, rows[above])].T
        return block


def _panels(dim: int) -> Iterator[tuple[int, int]]:
    """Where the rows of each panel begin and end; an empty matrix has one empty panel."""
    for start in range(0, max(dim, 1), BLOCK):
        yield start, min(start + BLOCK, dim)


def _mirrored(panel: NDArray[Any]) -> NDArray[Any]:
    """The panel with the lower triangle of its last square mirrored into the upper one."""
    square = panel[:, panel.shape[1] - len(panel) :]
    for i, row in enumerate(square):
        square[:i, i] = row[:i]
    return panel


def triangle_size(dim: int) -> int:
    """How many values a triangle has."""
    return dim * (dim + 1) // 2
