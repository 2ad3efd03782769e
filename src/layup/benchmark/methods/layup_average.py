"""One ridge classifier for each layer, and the average of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from layup.algebra import Floats
from layup.benchmark.methods.blocks import BlocksClassifier, BlocksModel
from layup.benchmark.methods.models import RidgeOfLayersMethod
from layup.model import RidgeOfLayersModel


class AverageClassifier(BlocksClassifier):
    """One ridge classifier for each layer; the score of a class is the mean of theirs."""

    @property
    def blocks(self) -> dict[str, list[str]]:
        """Every layer by itself."""
        return {name: [name] for name in self.statistics_.layers}

    def _score(self, x: Floats) -> Floats:
        return np.asarray(np.mean(list(self.scores_by_block(x).values()), axis=0))


class LayUPAverage(BlocksModel, RidgeOfLayersModel):
    """The averaged ridge classifiers of the last k layers."""

    method = "layup-average"
    classifier_: AverageClassifier

    def _classifier(self) -> AverageClassifier:
        return AverageClassifier(self.lam, self.balance, self.precision)

    def _solved_width(self, widths: Sequence[int]) -> int:
        return max(widths)


@dataclass(frozen=True)
class LayUPAverageMethod(RidgeOfLayersMethod):
    """The other way to use several layers (Figure 3 of the paper): a classifier for each, and their average.

    With φ_l(x), the output of layer l of the last k,

        G_l = Σ φ_l φ_lᵀ        c_{l,y} = Σ φ_l over class y
        s_y(x) = (1/k) Σ_l φ_l(x)ᵀ (G_l + λ_l I)⁻¹ c_{l,y}

    where every layer has its own λ. `layup` has what this lacks, how the layers vary together. With k = 1 it
    is `ridge`.

    Keeps: as `layup` of the same k, d²/2 + C·d values of 8 bytes for layers of d values in all, since any of
    `layup`'s classifiers can be had from the same sums; the k blocks of its own are Σ d_l²/2 of these.
    Costs: one pass of the network and d² operations an image; where λ is searched, 2 d_l³ to 9 d_l³ a
    task for each layer; else one solve for each layer (d_l³/3) before the first answer.
    Needs: nothing but a network with k layers. A first session, if there is one, tunes it before.

    k: how many of the last layers; by default the network's own number.
    lam: "search", "gcv" or a number ≥ 0, as of `layup`, but for each layer by itself.
    balance: treat classes of different size alike; off by default.
    """

    name = "layup-average"
    model = LayUPAverage
