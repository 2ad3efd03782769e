"""`layup` at several depths, or `ridge` on several layers, in one run: from the sums of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Self, cast

from layup.algebra import BlocksClassifier, DepthsClassifier, LayersClassifier
from layup.benchmark.methods.closed_form import (
    ClosedFormMethod,
    ModelLearner,
    closed_form,
    resolved_depth,
)
from layup.benchmark.methods.layup import LayUPMethod, RidgeMethod
from layup.benchmark.methods.learner import Method, Report, Setup
from layup.errors import BadImageError
from layup.features import LastLayers
from layup.images import ImageSource


class DepthsLearner(ModelLearner):
    """A model of several classifiers as a learner: it predicts once for each."""

    @property
    def classifier(self) -> BlocksClassifier:
        """The classifiers, of which each is one of `blocks`."""
        classifier: Any = self.model.classifier_
        return classifier  # type: ignore[no-any-return]

    def predict(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """The label of every image, by depth or layer, in one pass over them."""
        found: dict[str, list[str]] = {block: [] for block in self.classifier.blocks}
        for part in self.model.extractor_.stream(images, "Predicting"):
            if part.bad:
                raise BadImageError(part.bad[0].reason)
            for block, labels in self.classifier.labels_by_block(part.rows).items():
                found[block] += labels
        return found

    def reports(self) -> dict[str, Report]:
        """λ, how the backbone was adapted, and the size of the sums, by depth or layer."""
        adaptation = self.adaptation()
        return {
            block: Report(
                {"lambda": self.classifier.solved(block)[0], **adaptation},
                self.classifier.nbytes_alone(block) + self.tuned_bytes,
            )
            for block in self.classifier.blocks
        }


class SweepMethod(ClosedFormMethod):
    """A method with an option of several values in one run: as many records as values."""

    alone: ClassVar[type[Method]]
    """The method of one value."""
    swept: ClassVar[str]
    """Its option."""
    learner = DepthsLearner
    depths: tuple[int, ...]

    def resolved(self, setup: Setup) -> Self:
        """With every depth of the backbone that was chosen, each once."""
        depths = tuple(sorted({resolved_depth(k, setup) for k in self.depths or (None,)}))
        return cast("Self", ClosedFormMethod.resolved(replace(cast("Any", self), depths=depths), setup))

    def variants(self) -> dict[str, Method]:
        """The method of each value."""
        shared = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "depths"}
        return {str(n): self.alone.with_options({self.swept: n, **shared}) for n in self.depths}


DepthsMethod = closed_form(
    "layup-depths",
    "`layup` at several depths in one run: as many records as depths.",
    features=lambda method, setup: LastLayers(max(method.depths)),
    classifier=DepthsClassifier,
    options={"depths": ()},
    base=SweepMethod,
    alone=LayUPMethod,
    swept="k",
)

LayersMethod = closed_form(
    "ridge-layers",
    "`ridge` on several layers in one run: as many records as layers.",
    features=lambda method, setup: LastLayers(max(method.depths)),
    classifier=LayersClassifier,
    options={"depths": ()},
    base=SweepMethod,
    alone=RidgeMethod,
    swept="layer",
)
