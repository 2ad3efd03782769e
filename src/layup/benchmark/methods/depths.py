"""LayUP at several depths k in one run, from the sums of the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, Unpack

from numpy.typing import NDArray

from layup.algebra import GramStatistics, require_precision
from layup.backbones import Backbone
from layup.benchmark.methods.blocks import BlocksClassifier, BlocksModel
from layup.benchmark.methods.layup import LayUPMethod
from layup.benchmark.methods.learner import Method, Report, Setup
from layup.benchmark.methods.models import ModelLearner, ModelMethod, settled_depth, settled_rule
from layup.errors import BadImageError
from layup.images import ImageSource
from layup.model import Reading
from layup.tuning import Wanted


class DepthsClassifier(BlocksClassifier):
    """One ridge classifier for each number of last layers, by that number."""

    def __init__(
        self, depths: Sequence[int], lam: float | str, balance: bool, precision: str = "float64"
    ) -> None:
        super().__init__(lam, balance, precision)
        self.depths = depths

    @property
    def blocks(self) -> dict[str, list[str]]:
        """The last k layers, by k."""
        return {str(k): list(self.statistics_.layers)[-k:] for k in self.depths}

    def labels(self, x: NDArray[Any]) -> dict[str, list[Any]]:
        """The label of every row, by k."""
        return {
            k: [self.statistics_.labels[best] for best in scores.argmax(axis=1)]
            for k, scores in self.scores_by_block(x).items()
        }

    def state_bytes(self, k: str) -> int:
        """What a model of this depth alone would keep."""
        sums = self.statistics_
        alone = GramStatistics({name: sums.layers[name] for name in self.blocks[k]}, sums.precision)
        prototypes = len(sums.labels) * alone.prototypes.itemsize * alone.dim
        return alone.nbytes + prototypes + int(sums.counts.nbytes)


class LayUPDepths(BlocksModel):
    """LayUP at several depths: learns as one, answers as many."""

    method = "layup-depths"
    classifier_: DepthsClassifier

    def __init__(
        self,
        backbone: str | Backbone = "bundled",
        depths: Sequence[int] = (1, 6),
        lam: float | str = "search",
        *,
        balance: bool = False,
        precision: str = "float64",
        adapter: Wanted = None,
        **reading: Unpack[Reading],
    ) -> None:
        super().__init__(backbone, adapter=adapter, **reading)
        self.depths = tuple(depths)
        self.lam = lam
        self.balance = balance
        self.precision = precision

    def labels(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """The label of every image, by k, in one pass over them."""
        found: dict[str, list[str]] = {str(k): [] for k in self.depths}
        for part in self.extractor_.stream(images, "Looking"):
            if part.bad:
                raise BadImageError(part.bad[0].reason)
            for k, labels in self.classifier_.labels(part.rows).items():
                found[k] += labels
        return found

    def _layers(self) -> tuple[str, ...]:
        return self.backbone_.last(max(self.depths))

    def _classifier(self) -> DepthsClassifier:
        return DepthsClassifier(self.depths, self.lam, self.balance, self.precision)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "depths": list(self.depths)}


class DepthsLearner(ModelLearner):
    """LayUP at several depths as a learner: it answers once for each."""

    model: LayUPDepths

    def answers(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """The label of every image, by k."""
        return self.model.labels(images)

    def reports(self) -> dict[str, Report]:
        """λ, how the backbone was adapted, and the size of the sums, by k."""
        classifier, adaptation = self.model.classifier_, self.adaptation()
        return {
            k: Report(
                {"lambda": classifier.solved(k)[0], **adaptation},
                classifier.state_bytes(k) + self.tuned_bytes,
            )
            for k in classifier.blocks
        }


@dataclass(frozen=True)
class DepthsMethod(ModelMethod):
    """`layup` at several depths in one run: as many records as depths."""

    name = "layup-depths"
    model = LayUPDepths
    learner = DepthsLearner

    depths: tuple[int, ...] = ()
    lam: float | str | None = None
    balance: bool = False
    precision: str = "float64"

    def settled(self, setup: Setup) -> Self:
        """All depths are there, and λ's rule is decided."""
        require_precision(self.precision)
        depths = tuple(sorted({settled_depth(k, setup) for k in self.depths or (None,)}))
        return replace(self, depths=depths, lam=settled_rule(self.lam, setup.setting))

    def variants(self) -> dict[str, Method]:
        """LayUP of each depth."""
        return {str(k): LayUPMethod(k, self.lam, self.balance, self.precision) for k in self.depths}
