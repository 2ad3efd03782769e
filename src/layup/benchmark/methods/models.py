"""What the methods that are models share: a learner, and how their options are settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from layup import storage
from layup.adapters import AdaptedBackbone
from layup.algebra import require_rule
from layup.benchmark.methods.learner import ONLY, Learner, Method, Report, Setup
from layup.errors import InputError
from layup.images import ImageSource
from layup.memory import Forecast
from layup.model import ImageModel

NOT_RECORDED = {"precision": "float64", "metric": "cosine", "layer": 1}
"""Options that came after the first records, as they were in these. Left out, so that those stay in force."""


class ModelLearner(Learner):
    """A model as a learner. A bad image ends the run: to skip it would be another experiment."""

    def __init__(self, model: ImageModel, checkpoint: Path | None = None) -> None:
        self.model = model
        self.checkpoint = checkpoint

    def learn(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Learn a lesson; the first one may adapt the backbone before, which other runs may wait for."""
        if self.checkpoint is None or self.model.lessons:
            self.model.learn(images, labels, strict=True)
            return
        with storage.locked(self.checkpoint):
            self.model.learn(images, labels, strict=True, checkpoint=self.checkpoint)

    def answers(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """The label of every image."""
        return {ONLY: self.model.predict(images).tolist()}

    def reports(self) -> dict[str, Report]:
        """λ, if there is one, how the backbone was adapted, and the size of all that is kept."""
        size = self.model.statistics_.nbytes + self.tuned_bytes
        return {ONLY: Report({**self.model.in_force_, **self.adaptation()}, size)}

    def adaptation(self) -> dict[str, Any]:
        """After the first lesson, how it adapted the backbone, if it did: every epoch, and which was kept."""
        backbone = self.model.backbone_
        if not isinstance(backbone, AdaptedBackbone) or len(self.model.lessons) > 1:
            return {}
        course = {name: backbone.record[name] for name in ("epochs", "kept")}
        return {"adaptation": {"tuned_values": backbone.tuned_values, **course}}

    @property
    def tuned_bytes(self) -> int:
        """Bytes of what the first session tuned."""
        backbone = self.model.backbone_
        return 4 * backbone.tuned_values if isinstance(backbone, AdaptedBackbone) else 0

    def save(self, path: Path) -> None:
        """Write the model."""
        self.model.save(path)


@dataclass(frozen=True)
class ModelMethod(Method):
    """A method that is a model of images, made with its options."""

    model: ClassVar[type[ImageModel]]
    learner: ClassVar[type[ModelLearner]] = ModelLearner

    def options(self) -> dict[str, Any]:
        """The options, as JSON; without those that came later, where they change nothing."""
        given = super().options().items()
        return {name: value for name, value in given if NOT_RECORDED.get(name) != value}

    def begin(self, setup: Setup) -> Learner:
        """A learner that knows nothing yet."""
        return self.learner(self._blank(setup), setup.checkpoint)

    def forecast(self, setup: Setup, lesson: int, images: int, classes: int) -> Forecast | None:
        """The memory that the last and largest lesson of so many images and classes in all will take."""
        return self._blank(setup).forecast(lesson, classes, known=images - lesson)

    def resume(self, setup: Setup, path: Path) -> Learner:
        """The learner that was saved."""
        model = self.model.load(path, backbone=setup.backbone, **setup.reading)
        return self.learner(model, setup.checkpoint)

    def arguments(self, setup: Setup) -> dict[str, Any]:
        """What the model is made with, once all is settled."""
        return self.options()

    def _blank(self, setup: Setup) -> ImageModel:
        """A model that knows nothing yet."""
        arguments = self.settled(setup).arguments(setup)
        return self.model(setup.backbone, adapter=setup.session, **arguments, **setup.reading)


@dataclass(frozen=True)
class RidgeOfLayersMethod(ModelMethod):
    """What ridge classifiers of the last k layers share: their options, and how these are settled."""

    k: int | None = None
    lam: float | str | None = None
    balance: bool = False

    def settled(self, setup: Setup) -> Self:
        """K and λ's rule decided; a stream cannot be searched."""
        return replace(self, k=settled_depth(self.k, setup), lam=settled_rule(self.lam, setup.setting))


def settled_depth(k: int | None, setup: Setup) -> int:
    """How many layers: as asked, if the backbone has so many, or its own default."""
    return len(setup.backbone.last(setup.backbone.default_k if k is None else k))


def settled_rule(lam: float | str | None, setting: str, on_a_stream: float | str = "gcv") -> float | str:
    """The rule for λ: the one that was asked for, or the usual one of the setting.

    >>> settled_rule(None, "cil"), settled_rule(None, "ocl"), settled_rule(1.0, "ocl")
    ('search', 'gcv', 1.0)
    """
    if setting == "ocl" and lam == "search":
        raise InputError(
            "λ cannot be searched in the online setting: that takes several passes over a task, and a stream "
            "has but one. Use gcv, or a number such as 1 (the paper uses 0 and 1)."
        )
    usual = on_a_stream if setting == "ocl" else "search"
    rule = usual if lam is None else lam
    require_rule(rule)
    return rule
