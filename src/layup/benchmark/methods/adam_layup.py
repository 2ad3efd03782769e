"""ADAM on the layers of LayUP, with its classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from layup.benchmark.methods.adam import TwoNetworks, require_session
from layup.benchmark.methods.learner import Setup
from layup.benchmark.methods.models import RidgeOfLayersMethod
from layup.model import LayUP


class AdamLayUP(TwoNetworks, LayUP):
    """Ridge classification on the last k layers of both networks."""

    method = "adam+layup"


@dataclass(frozen=True)
class AdamLayUPMethod(RidgeOfLayersMethod):
    """LayUP of the network before and after a first session (Section 5.7 of the paper).

    With Φ(x), the outputs of the last k layers of the network as it came and of the network which the first
    session has tuned, all side by side, D values in all (twice those of `layup`),

        G = Σ Φ Φᵀ over all samples        c_y = Σ Φ over class y        s_y(x) = Φ(x)ᵀ (G + λI)⁻¹ c_y.

    Keeps: D²/2 + C·D values of 8 bytes, four times the Gram matrix of `layup`, a count for each of C classes,
    and what the first session tuned (4 bytes a value). For k = 6 layers of 768 values, G takes 344 MB.
    Costs: two passes of the network and D² operations an image; where λ is searched, 2 D³ to 9 D³ a
    task; else one solve (D³/3) before the first answer after a task; and the first session.
    Needs: a network with k layers, and a first session, with whatever adapter. Without a tuned network it
    would be `layup`: so there is none on a stream.

    k: how many of the last layers of each network; by default the network's own number.
    lam: λ, "search", "gcv" or a number ≥ 0, as of `layup`.
    balance: treat classes of different size alike; off by default.
    """

    name = "adam+layup"
    adapts = True
    settings = ("cil", "dil")
    model = AdamLayUP

    def settled(self, setup: Setup) -> Self:
        """K and λ's rule decided, if there is a first session."""
        require_session(self.name, "layup", setup)
        return super().settled(setup)
