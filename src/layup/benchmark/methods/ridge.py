"""Ridge classification on one layer alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, Unpack

from layup.algebra import require_precision
from layup.backbones import Backbone
from layup.benchmark.methods.depths import DepthsClassifier, DepthsMethod, LayUPDepths
from layup.benchmark.methods.learner import Method, Setup
from layup.benchmark.methods.models import ModelMethod, settled_depth, settled_rule
from layup.model import LayUP, Reading
from layup.tuning import Wanted


class RidgeOfLayer(LayUP):
    """Ridge classification on one layer, counted from the last."""

    method = "ridge"

    def __init__(
        self,
        backbone: str | Backbone = "bundled",
        layer: int = 1,
        lam: float | str = "search",
        *,
        balance: bool = True,
        precision: str = "float64",
        adapter: Wanted = None,
        **reading: Unpack[Reading],
    ) -> None:
        super().__init__(backbone, 1, lam, balance=balance, precision=precision, adapter=adapter, **reading)
        self.layer = layer

    def _layers(self) -> tuple[str, ...]:
        return self.backbone_.last(self.layer)[:1]

    def _settings(self) -> dict[str, Any]:
        own = {name: value for name, value in super()._settings().items() if name != "k"}
        return {**own, "layer": self.layer}


@dataclass(frozen=True)
class RidgeMethod(ModelMethod):
    """Ridge classification on one layer alone, by default the last: `layup` with k = 1, the paper's ablation.

    With φ(x), the output of that layer (of a transformer a block, the last one before the final norm),

        G = Σ φ φᵀ        c_y = Σ φ over class y        s_y(x) = φ(x)ᵀ (G + λI)⁻¹ c_y.

    Keeps: d²/2 + C·d values of 8 bytes (4 in float32) for a layer of width d, and a count for each of C
    classes. For d = 768, G takes 2.8 MB.
    Costs: one pass of the network and d² operations an image; where λ is searched, 2 d³ to 9 d³ a task,
    less while there are fewer images than d; else one solve (d³/3) before the first answer after a task.
    Needs: nothing. A first session, if there is one, tunes the network before.

    lam: λ, "search", "gcv" or a number ≥ 0, as of `layup`.
    balance: treat classes of different size alike; off by default.
    precision: "float64" or "float32", as of `layup`.
    layer: which layer, counted from the last, which is 1.
    """

    name = "ridge"
    model = RidgeOfLayer

    lam: float | str | None = None
    balance: bool = False
    precision: str = "float64"
    layer: int = 1

    def settled(self, setup: Setup) -> Self:
        """The layer is there, and λ's rule is decided; a stream cannot be searched."""
        require_precision(self.precision)
        layer = settled_depth(self.layer, setup)
        return replace(self, layer=layer, lam=settled_rule(self.lam, setup.setting))


class LayersClassifier(DepthsClassifier):
    """One ridge classifier for each of several layers, by its place from the last."""

    @property
    def blocks(self) -> dict[str, list[str]]:
        """One layer each."""
        return {str(layer): [list(self.statistics_.layers)[-layer]] for layer in self.depths}


class RidgeOfLayers(LayUPDepths):
    """Ridge classification on each of several layers: learns as one, answers as many."""

    method = "ridge-layers"

    def _classifier(self) -> LayersClassifier:
        return LayersClassifier(self.depths, self.lam, self.balance, self.precision)


@dataclass(frozen=True)
class LayersMethod(DepthsMethod):
    """`ridge` on several layers in one run: as many records as layers."""

    name = "ridge-layers"
    model = RidgeOfLayers

    def variants(self) -> dict[str, Method]:
        """`ridge` of each layer."""
        return {str(n): RidgeMethod(self.lam, self.balance, self.precision, n) for n in self.depths}
