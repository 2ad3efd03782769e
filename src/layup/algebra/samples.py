"""Feature vectors as they may be added up: their shape, their type, and the size of their values."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup.errors import InputError
from layup.registry import unknown_name

Floats: TypeAlias = NDArray[np.floating[Any]]
"""float64, or float32 where that was chosen."""
Samples: TypeAlias = tuple[Floats, NDArray[Any]]
"""Feature vectors, n × d, and their n labels."""

CHUNK = 1024
"""Rows converted to float64 at a time: a batch of any size needs one chunk of extra memory."""
PRECISIONS = ("float64", "float32")
"""What sums may be kept in. float32 is there to compare with other code: it loses what small λ need."""
SUMMABLE = {"float64": (1e-60, 1e60), "float32": (1e-15, 1e7)}
"""The range, from m to M, for the size of the largest value of a sample, unless all its values are zero.

Then nothing overflows or vanishes with N = 10⁹ samples of d = 10⁵ values. float64 reaches from 10⁻³⁰⁸ to
10³⁰⁸ with ε = 2·10⁻¹⁶, float32 from 10⁻³⁸ to 3·10³⁸ with ε = 10⁻⁷; smaller numbers lose their digits.

- float64: norms of G and of its inverse are taken, squares of sums of squares. (N d M²)² = 10²⁶⁸, and of the
  smallest eigenvalue that can be told from zero (ε m²)² = 10⁻²⁷¹. All that float32 can hold is within.
- float32: no norm is taken. The square of a sum of N samples, N² d M², is 10³⁷; ε m² = 10⁻³⁷.

Other values of the sample may be of any size: next to the largest, those that vanish are only rounding.
"""


def checked_samples(
    features: ArrayLike, labels: ArrayLike, layers: Mapping[str, int], precision: str
) -> Samples:
    """Samples of these layers and their labels, as arrays; an `InputError` if they cannot be summed."""
    x, y, dim = np.asarray(features), np.asarray(labels), sum(layers.values())
    if x.ndim != 2 or y.ndim != 1:
        raise InputError(
            f"Features must be a table (samples × values) and labels a list, "
            f"but their shapes are {x.shape} and {y.shape}."
        )
    if len(x) != len(y):
        raise InputError(
            f"There are {len(x)} feature vectors but {len(y)} labels. Give one label per vector."
        )
    if x.shape[1] != dim:
        raise InputError(
            f"These features have {x.shape[1]:,} values but the model was built with {dim:,} "
            f"({_describe(layers)}). Use the same backbone and k for every batch."
        )
    require_summable(x, precision)
    return x, y


def require_precision(precision: str) -> None:
    """Refuse an unknown precision."""
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)


def require_summable(x: NDArray[Any], precision: str) -> None:
    """Refuse samples (n × d) that are not finite numbers, or whose squares would overflow or vanish.

    >>> require_summable(np.array([[0.0, 0.0], [1e-300, 2.0]]), "float64")
    >>> require_summable(np.array([[1.0, 1e200]]), "float64")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    layup.errors.InputError: The squares of features must fit into float64: ... In row 0 it is 1e+200 ...
    """
    if x.dtype.kind not in "biuf":
        raise InputError(f"Features must be numbers, not {x.dtype}.")
    least, most = SUMMABLE[precision]
    odd: dict[int, float] = {}
    for start in range(0, len(x), CHUNK):
        sizes = _sizes(x[start : start + CHUNK])
        usable = (sizes == 0) | ((least <= sizes) & (sizes <= most))
        odd |= {start + int(i): float(sizes[i]) for i in np.flatnonzero(~usable)}
    bad = [row for row, size in odd.items() if not np.isfinite(size)]
    if bad:
        raise InputError(
            f"Features must be finite numbers, but row {bad[0]} holds NaN or infinity ({len(bad)} such)."
        )
    for row, size in odd.items():
        raise InputError(
            f"The squares of features must fit into {precision}: of each row, the largest value must be from "
            f"{least:.0e} to {most:.0e} in size, or zero. In row {row} it is {size:.3g} ({len(odd)} such). "
            "Scale all features by the same factor."
        )


def drawn(x: NDArray[Any], most: int) -> NDArray[np.int64]:
    """The indices of at most so many rows, sorted: those whose hash comes first.

    So the same samples are drawn in whatever order, and in whatever parts, they come: those drawn of all are
    among those drawn of each part.

    >>> x = np.arange(10.0)[:, None]
    >>> sorted(x[drawn(x, 3), 0]) == sorted(x[::-1][drawn(x[::-1], 3), 0])
    True
    """
    if len(x) <= most:
        return np.arange(len(x))
    keys = [int.from_bytes(blake2b(row.astype(np.float32).tobytes(), digest_size=8).digest()) for row in x]
    return np.sort(np.argsort(np.array(keys, np.uint64), kind="stable")[:most])


def require_finite(*sums: Floats) -> None:
    """Refuse sums that are not finite numbers: they cannot be solved."""
    if not all(np.isfinite(each).all() for each in sums):
        raise InputError(
            "These sums are not finite numbers: they hold NaN or infinity, or are too large. Learn them "
            "again, from features of ordinary size."
        )


def _describe(layers: Mapping[str, int]) -> str:
    """'6 layers × 768', or '3 layers of 192 + 320 + 1280'."""
    widths = list(layers.values())
    count = f"{len(widths)} layer{'s' if len(widths) != 1 else ''}"
    if len(set(widths)) == 1:
        return f"{count} × {widths[0]}"
    return f"{count} of {' + '.join(map(str, widths))}"


def _sizes(x: NDArray[Any]) -> Floats:
    """The absolute value of the largest entry of each row; NaN or infinity if any of its entries is."""
    with np.errstate(over="ignore"):  # numbers beyond float64 become infinite here
        sizes = x.astype(np.float64)
    return np.asarray(np.abs(sizes, out=sizes).max(axis=1, initial=0.0))
