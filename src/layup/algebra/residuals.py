"""Ridge regression on what another classifier leaves unexplained, from sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from layup.algebra.labels import Label
from layup.algebra.ridge import solve
from layup.algebra.samples import Floats
from layup.algebra.symmetric import Triangle


@dataclass(frozen=True)
class ResidualSums:
    """What a second classifier keeps that fits the residuals of a first one.

    With samples Φ whose target of class y is a number e_y, such as what the first classifier leaves
    unexplained,

        G = Σ Φ Φᵀ        p_y = Σ e_y Φ        W = (G + λI)⁻¹ p,

    where a class that is not given with some samples has targets of zero there. Immutable. Keeps
    8·(d²/2 + C·d) bytes for C classes; learning costs d² operations per sample.

    >>> sums = ResidualSums.zeros(2).plus(np.eye(2), np.array([[0.5], [0.1]]), ["cat"])
    >>> sums.weights(["cat"], lam=1.0).round(12).tolist()
    [[0.25], [0.05]]
    """

    gram: Triangle
    products: Mapping[Label, Floats]
    total: int = 0

    @classmethod
    def zeros(cls, dim: int) -> Self:
        """Of no samples of so many values."""
        return cls(Triangle.zeros(dim), {})

    def plus(self, x: NDArray[Any], residuals: Floats, labels: Sequence[Label]) -> Self:
        """With samples (n × d) more, and their residuals (n × classes) for the classes of these labels."""
        rows = x.astype(np.float64)
        products = dict(self.products)
        for label, product in zip(labels, residuals.T @ rows, strict=True):
            products[label] = products.get(label, 0.0) + product
        return type(self)(self.gram.plus_rows(rows), products, self.total + len(rows))

    def weights(self, labels: Sequence[Label], lam: float) -> Floats:
        """W, d × C, columns in the order of the labels. Costs a solve, d³/3."""
        return solve(self.gram.dense(), self._rows(labels), self.total, lam)

    @property
    def nbytes(self) -> int:
        """Bytes of learned state in memory."""
        return self.gram.nbytes + sum(product.nbytes for product in self.products.values())

    def arrays(self, labels: Sequence[Label]) -> dict[str, NDArray[Any]]:
        """The sums as arrays, G as one triangle; `from_arrays` is the inverse."""
        return {"gram": self.gram.packed(), "products": self._rows(labels)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], labels: Sequence[Label], total: int) -> Self:
        """The sums of `total` samples that `arrays` gave for these labels."""
        products = arrays["products"]
        gram = Triangle.from_packed(arrays["gram"], products.shape[1])
        return cls(gram, dict(zip(labels, products, strict=True)), total)

    def _rows(self, labels: Sequence[Label]) -> Floats:
        return np.array([self.products[label] for label in labels]).reshape(-1, self.gram.dim)
