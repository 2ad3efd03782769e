"""Which samples to label next: those that make the classifier surer of all the others.

With ψ(x) the whitened samples of a pool (`Whitening`), K = ΨΨᵀ holds how uncertain a ridge classifier is of
them: K_ii = h_i, the leverage, is the variance of sample i up to a factor. With the label of sample j,
whatever it is, K becomes

    K' = K − k kᵀ / (1 + h_j)        k = K e_j

so the variance of all samples of the pool falls by q_j / (1 + h_j) with q = diag(K²): an outlier lowers only
its own, one of many of a kind that of all of them. Samples are taken one after another, each the best after
those before it. h and q follow by rank-one updates; K itself is never made:

    v = k / √(1 + h_j)      h' = h − v²      q' = q − 2 v (K v) + v² ‖v‖²
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def most_informative(
    psi: NDArray[Any], count: int, near: Callable[[int], NDArray[np.bool_]] | None = None
) -> list[int]:
    """At most so many samples, the most informative first.

    near: which samples, given one that is taken, need not be taken as well.

    Costs n d² operations at first, and 3 n d per sample that is taken.

    >>> psi = np.array([[1.0, 0.0], [1.1, 0.0], [0.0, 1.2], [3.0, 3.0]])
    >>> most_informative(psi[:3], 2), most_informative(psi, 4, near=lambda row: psi @ psi[row] > 1)
    ([1, 2], [3])
    """
    h = np.einsum("ij,ij->i", psi, psi, dtype=np.float64)
    q = np.einsum("ij,ij->i", psi @ (psi.T @ psi), psi, dtype=np.float64)
    updates = np.zeros((count, len(psi)))
    left = np.ones(len(psi), bool)
    taken: list[int] = []
    while left.any() and len(taken) < count:
        best = int(np.where(left, q / (1 + h), -np.inf).argmax())
        before = updates[: len(taken)]
        v = (psi @ psi[best] - before.T @ before[:, best]) / np.sqrt(1 + h[best])
        product = psi @ (psi.T @ v) - before.T @ (before @ v)
        q = np.maximum(q - 2 * v * product + v**2 * (v @ v), 0.0)
        h = np.maximum(h - v**2, 0.0)
        updates[len(taken)] = v
        taken.append(best)
        left[best] = False
        if near is not None:
            left &= ~near(best)
    return taken
