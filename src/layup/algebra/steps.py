"""What makes sums exact: every value of a sample is a whole multiple of a power of two.

Let all values of column i be multiples of s_i = 2^e. Then every product x_i x_j, and every sum of such
products, is a whole multiple of the unit s_i s_j. Float64 has all whole numbers up to 2⁵³, so as long as sums
stay below 2⁵³ units no operation rounds, and sums are the same to the bit: in any order, in any batches, on
any machine. No partial sum of G_ij can be larger than √(G_ii G_jj) (Cauchy–Schwarz), nor one of c_i than
G_ii / s_i (a whole number is no larger than its square), so it is enough to look at the diagonal of G.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from layup.algebra.samples import Floats
from layup.algebra.symmetric import Triangle
from layup.errors import InputError

LARGEST = 2.0**21
"""In steps, the largest value of a sample: so that 512 of them, which wait for G, are below 2⁵¹ units."""
FULL = 2.0**52
"""In units, how far the diagonal of G may grow: what waits for G comes on top."""
EXPONENTS = (-200, 200)
"""The range of exponents: squares of steps stay far from the limits of float64."""


class Steps:
    """The step of every column: for each layer, a power of two by its exponent.

    >>> steps = Steps({"shallow": 1, "deep": 2}, {"shallow": -1, "deep": 3})
    >>> steps.columns.tolist()
    [0.5, 8.0, 8.0]
    >>> steps.nearest(np.array([[0.3, -0.1, 13.0]])).tolist()
    [[0.5, 0.0, 16.0]]
    """

    def __init__(self, layers: Mapping[str, int], exponents: Mapping[str, int]) -> None:
        self.layers, self.exponents = dict(layers), {name: exponents[name] for name in layers}

    @cached_property
    def columns(self) -> Floats:
        """The step of each column."""
        exponents = np.array([*self.exponents.values()], np.float64)
        return np.repeat(2.0**exponents, [*self.layers.values()])

    @cached_property
    def _inverse(self) -> Floats:
        """1 over each step, a power of two as well: multiplying is faster, and as exact."""
        return np.asarray(1 / self.columns)

    @property
    def units(self) -> Floats:
        """The unit of each value of G: one triangle, row by row, as files have it.

        >>> Steps({"shallow": 1, "deep": 1}, {"shallow": -1, "deep": 3}).units.tolist()
        [0.25, 4.0, 64.0]
        """
        return np.concatenate([step * self.columns[: i + 1] for i, step in enumerate(self.columns)])

    def nearest(self, x: NDArray[np.floating]) -> NDArray[np.floating]:
        """Every value (n × d) as the nearest multiple of its step; none is −0.

        Exact in float32 too: scaling by a power of two does not round, nor does a whole number below 2²⁴.
        """
        columns = self.columns.astype(x.dtype)
        return np.asarray(np.rint(x / columns) * columns + x.dtype.type(0))

    def require_multiples(self, x: Floats) -> None:
        """Refuse samples (n × d) that are not multiples, or too large to be summed."""
        scaled = x * self._inverse
        if not np.array_equal(np.rint(scaled), scaled):
            raise InputError(
                "These sums are exact, so features must be multiples of their steps, and these are not. "
                "Round them first, with `Steps.nearest`."
            )
        largest = float(np.abs(scaled, out=scaled).max(initial=0.0))
        if largest > LARGEST:
            raise InputError(
                f"A feature is {largest:.3g} steps large, and sums are exact up to "
                f"{LARGEST:,.0f}: these features are not of the kind that the steps were measured with."
            )

    def require_room(self, gram: Triangle) -> None:
        """Refuse a G that has grown so large that sums would soon be rounded."""
        if self.used(gram.diagonal()) > 1:
            raise InputError(
                "These sums are full: with more images they would no longer be exact. Nothing was changed. "
                "Learn in a new model, or in one that is not exact."
            )

    def used(self, diagonal: Floats) -> float:
        """The share of the room for exact sums that this diagonal of G takes."""
        return float((diagonal / self.columns**2).max(initial=0.0)) / FULL

    def nearest_gram(self, gram: Triangle) -> Triangle:
        """A Gram matrix that rounding has moved a little, as it must be: whole multiples of its units."""
        return gram.nearest(self.columns)

    def require_sound(self, prototypes: Floats, gram: Triangle | None = None) -> None:
        """A `ValueError` for sums that no multiples can have."""
        if (self.nearest(prototypes) != prototypes).any():
            raise ValueError("its class sums are not multiples of its steps")
        if gram is None:
            return
        if self.used(gram.diagonal()) > 1:
            raise ValueError("its G is larger than any that is exact")
        if not gram.equals(self.nearest_gram(gram)):
            raise ValueError("its G does not consist of multiples of its steps")
