"""The nearest mean of several layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from layup.benchmark.methods.learner import Setup
from layup.benchmark.methods.models import settled_depth
from layup.benchmark.methods.nmc import NMCMethod
from layup.model import LayNMC


@dataclass(frozen=True)
class LayNMCMethod(NMCMethod):
    """The nearest class mean of the concatenated last k layers: several layers without a Gram matrix.

    With Φ(x) = (φ_{L−k+1}(x), …, φ_L(x)), the outputs of the last k layers side by side, d values in all, and
    μ_y, its mean over class y,

        cosine:     s_y(x) = Φ(x)ᵀ μ_y / (‖Φ(x)‖ ‖μ_y‖)
        euclidean:  s_y(x) = −‖Φ(x) − μ_y‖

    Keeps: C·d values of 8 bytes, for C classes, and a count for each.
    Costs: one pass of the network and d operations an image; C·d for an answer.
    Needs: nothing but a network with k layers. A first session, if there is one, tunes it before.

    metric: "cosine" (the default) or "euclidean".
    k: how many of the last layers; by default the network's own number.
    """

    name = "laynmc"
    model = LayNMC

    k: int | None = None

    def settled(self, setup: Setup) -> Self:
        """K decided."""
        return replace(super().settled(setup), k=settled_depth(self.k, setup))
