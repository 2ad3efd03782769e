"""Ridge classification on the last layer alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from layup.methods.learner import Setup
from layup.methods.models import ModelMethod, settled_rule
from layup.model import LayUP
from layup.statistics import require_precision


@dataclass(frozen=True)
class RidgeMethod(ModelMethod):
    """Ridge classification on the last layer alone: `layup` with k = 1, the paper's ablation.

    With φ(x), the output of the last layer (of a transformer its last block, before the final norm),

        G = Σ φ φᵀ        c_y = Σ φ over class y        s_y(x) = φ(x)ᵀ (G + λI)⁻¹ c_y.

    Keeps: d²/2 + C·d values of 8 bytes (4 in float32) for a last layer of width d, and a count for each of C
    classes. For d = 768, G takes 2.8 MB.
    Costs: one pass of the network and d² operations an image; where λ is searched, 2 d³ to 9 d³ a task,
    less while there are fewer images than d; else one solve (d³/3) before the first answer after a task.
    Needs: nothing. A first session, if there is one, tunes the network before.

    lam: λ, "search", "gcv" or a number ≥ 0, as of `layup`.
    balance: treat classes of different size alike; off by default.
    precision: "float64" or "float32", as of `layup`.
    """

    name = "ridge"
    model = LayUP

    lam: float | str | None = None
    balance: bool = False
    precision: str = "float64"

    def settled(self, setup: Setup) -> Self:
        """The rule for λ decided; a stream cannot be searched."""
        require_precision(self.precision)
        return replace(self, lam=settled_rule(self.lam, setup.setting))

    def arguments(self, setup: Setup) -> dict[str, Any]:
        """One layer, and the options."""
        return {"k": 1, **super().arguments(setup)}
