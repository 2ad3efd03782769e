"""RanPAC on the layers of LayUP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from layup.benchmark.methods.learner import Setup
from layup.benchmark.methods.models import settled_depth
from layup.benchmark.methods.ranpac import RanPACMethod


@dataclass(frozen=True)
class RanPACLayUPMethod(RanPACMethod):
    """RanPAC of several layers (Section 5.7 of the paper): the last k instead of the final embedding.

    With Φ(x) = (φ_{L−k+1}(x), …, φ_L(x)), the outputs of the last k layers side by side, d values in all, and
    a matrix W of d × M values, drawn once from N(0, 1) and never changed,

        h(x) = max(0, Φ(x) W)        G = Σ h hᵀ over all samples        c_y = Σ h over class y
        s_y(x) = h(x)ᵀ (G + λI)⁻¹ c_y.

    Keeps: as `ranpac`, M²/2 + C·M values of 8 bytes (4 in float32), whatever k is, C counts, and what a first
    session tuned. W, which follows from the run's seed and is neither stored nor counted, takes 8·d·M bytes
    of memory: 370 MB for M = 10,000 and k = 6 layers of 768 values.
    Costs: one pass of the network and d·M + M² operations an image; λ and the solve as of `ranpac`.
    Needs: a network with k layers. It is tuned in a first session unless told otherwise, never on a stream.

    width, lam, precision: as of `ranpac`.
    k: how many of the last layers; by default the network's own number.
    """

    name = "ranpac+layup"

    k: int | None = None

    def settled(self, setup: Setup) -> Self:
        """K and λ's rule decided; a stream cannot be searched."""
        return replace(super().settled(setup), k=settled_depth(self.k, setup))
