"""RanPAC (McDonnell et al. 2023): ridge classification on random projections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, Unpack

from layup.algebra import HeldOutRidgeClassifier, require_precision
from layup.backbones import Backbone
from layup.benchmark.methods.learner import Setup
from layup.benchmark.methods.models import ModelMethod, settled_rule
from layup.features import EMBEDDING, Projected, require_width
from layup.model import Reading, RidgeModel
from layup.tuning import Wanted


class RanPAC(RidgeModel):
    """Ridge classification on a random projection of the final embedding, or of the last k layers.

    The projection is no part of a file: its seed and shape are.
    """

    method = "ranpac"

    def __init__(
        self,
        backbone: str | Backbone = "bundled",
        k: int | None = None,
        lam: float | str = "search",
        *,
        width: int = 10_000,
        seed: int = 0,
        precision: str = "float64",
        adapter: Wanted = None,
        **reading: Unpack[Reading],
    ) -> None:
        super().__init__(backbone, adapter=adapter, **reading)
        self.k = k
        self.lam = lam
        self.width = width
        self.seed = seed
        self.precision = precision

    def _layers(self) -> tuple[str, ...]:
        return (EMBEDDING,) if self.k is None else self.backbone_.last(self.k)

    def _extractor(self) -> Projected:
        return Projected(super()._extractor(), self.width, self.seed)

    def _classifier(self) -> HeldOutRidgeClassifier:
        return HeldOutRidgeClassifier(self.lam, seed=self.seed, precision=self.precision)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "k": self.k, "width": self.width, "seed": self.seed}


@dataclass(frozen=True)
class RanPACMethod(ModelMethod):
    """Ridge classification on a random projection of the final embedding (McDonnell et al. 2023).

    With f(x), the final embedding of d values (of a transformer after the final norm), and a matrix W of
    d × M values, drawn once from N(0, 1) and never changed,

        h(x) = max(0, f(x) W)        G = Σ h hᵀ over all samples        c_y = Σ h over class y
        s_y(x) = h(x)ᵀ (G + λI)⁻¹ c_y.

    Keeps: M²/2 + C·M values of 8 bytes (4 in float32), a count for each of C classes, and what a first
    session tuned (4 bytes a value). For M = 10,000, G takes 405 MB, and learning or solving several times
    that for a moment. W follows from the run's seed, so it is neither stored nor counted; in memory it takes
    8·d·M bytes more.
    Costs: one pass of the network and d·M + M² operations an image; where λ is searched, with n four fifths
    of a task's images, one banded form of an n × n matrix (2 n³, and 2 M·n² around it), or of G's size where
    n > M; one solve (M³/3) before the first answer after a task.
    Needs: nothing, but its authors tune the network in a first session, and so it is done unless told
    otherwise; never on a stream.

    width: M, how many values the projection has.
    lam: λ. "search": of 17 values from 1e-8 to 1e8 the one of least squared error on a fifth of the current
        task, fitted to the other four (without what came before); "gcv": from the sums alone; or a number
        ≥ 0. By default "search", and 1 on a stream, which cannot be searched.
    precision: "float64", or "float32" with a plain LU solve, to do as the authors' code does. Where samples
        are fewer than M and λ is small, its answers are those of rounding.
    """

    name = "ranpac"
    adapts = True
    model = RanPAC

    width: int = 10_000
    lam: float | str | None = None
    precision: str = "float64"

    def settled(self, setup: Setup) -> Self:
        """The rule for λ decided; a stream cannot be searched."""
        require_width(self.width)
        require_precision(self.precision)
        return replace(self, lam=settled_rule(self.lam, setup.setting, on_a_stream=1.0))

    def arguments(self, setup: Setup) -> dict[str, Any]:
        """The options, and the seed of the projection."""
        return {**super().arguments(setup), "seed": setup.seed}
