"""LayUP, the paper's method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from layup.algebra import require_precision
from layup.benchmark.methods.learner import Setup
from layup.benchmark.methods.models import RidgeOfLayersMethod
from layup.model import LayUP


@dataclass(frozen=True)
class LayUPMethod(RidgeOfLayersMethod):
    """The paper's method: ridge classification on the concatenated last k layers.

    With Φ(x) = (φ_{L−k+1}(x), …, φ_L(x)), the outputs of the last k layers side by side, d values in all,

        G = Σ Φ Φᵀ over all samples        c_y = Σ Φ over the samples of class y
        s_y(x) = Φ(x)ᵀ (G + λI)⁻¹ c_y      and the class of the highest score is the answer.

    Keeps: d²/2 + C·d values of 8 bytes (4 in float32), and a count for each of C classes, whatever the number
    of images. For k = 6 layers of 768 values, G takes 87 MB.
    Costs: one pass of the network and d² operations an image; where λ is searched, 2 d³ to 9 d³ a task,
    less while there are fewer images than d; else one solve (d³/3) before the first answer after a task.
    Needs: nothing but a network with k layers. A first session, if there is one, tunes it before.

    k: how many of the last layers; by default the network's own number.
    lam: λ. "search": of 16 values the most accurate in four folds of the current task, with all sums before
        it; "gcv": from the sums alone, by generalised cross-validation; or a number ≥ 0. By default "search",
        and "gcv" on a stream, which cannot be searched.
    balance: treat classes of different size alike; off by default here, as in the paper.
    precision: "float64", or "float32" with a plain LU solve, to do as the authors' code does. Where samples
        are fewer than d and λ is small, its answers are those of rounding.
    """

    name = "layup"
    model = LayUP

    precision: str = "float64"

    def settled(self, setup: Setup) -> Self:
        """K and λ's rule decided; a stream cannot be searched."""
        require_precision(self.precision)
        return super().settled(setup)
