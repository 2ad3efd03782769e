"""The nearest mean of final embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from layup.algebra import require_metric
from layup.benchmark.methods.learner import Setup
from layup.benchmark.methods.models import ModelMethod
from layup.model import NMC, ImageModel


@dataclass(frozen=True)
class NMCMethod(ModelMethod):
    """The nearest class mean of the network's final embedding: the simplest baseline.

    With f(x), the final embedding (of a transformer after the final norm), and μ_y, its mean over class y,

        cosine:     s_y(x) = f(x)ᵀ μ_y / (‖f(x)‖ ‖μ_y‖)        (SimpleCIL)
        euclidean:  s_y(x) = −‖f(x) − μ_y‖

    Keeps: C·d values of 8 bytes, for C classes and embeddings of d values, and a count for each class.
    Costs: one pass of the network and d operations an image; C·d for an answer.
    Needs: nothing. A first session, if there is one, tunes the network before.

    metric: "cosine" (the default) or "euclidean".
    """

    name = "nmc"
    model: ClassVar[type[ImageModel]] = NMC

    metric: str = "cosine"

    def settled(self, setup: Setup) -> Self:
        """Unchanged, if the metric is one."""
        require_metric(self.metric)
        return self
