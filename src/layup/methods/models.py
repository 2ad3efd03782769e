"""LayUP and the nearest-mean classifiers, as `layup.model` has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from layup import storage
from layup.adapters import AdaptedBackbone
from layup.classifier import require_rule
from layup.errors import InputError
from layup.image_model import ImageModel
from layup.images import ImageSource
from layup.methods.learner import ONLY, Learner, Method, Report, Setup
from layup.model import NMC, LayNMC, LayUP


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
        chosen = {"lambda": self.model.lambda_} if isinstance(self.model, LayUP) else {}
        size = self.model.statistics_.nbytes + self.tuned_bytes
        return {ONLY: Report({**chosen, **self.adaptation()}, size)}

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
    """What the methods of this file share."""

    model: ClassVar[type[ImageModel]]

    def begin(self, setup: Setup) -> Learner:
        """A learner that knows nothing yet."""
        options = self.settled(setup).options()
        model = self.model(setup.backbone, adapter=setup.session, **options, **setup.reading)
        return ModelLearner(model, setup.checkpoint)

    def resume(self, setup: Setup, path: Path) -> Learner:
        """The learner that was saved."""
        model = self.model.load(path, backbone=setup.backbone, **setup.reading)
        return ModelLearner(model, setup.checkpoint)


@dataclass(frozen=True)
class LayUPMethod(ModelMethod):
    """The paper's method: ridge classification on the concatenated last k layers.

    s_y = Φᵀ (G + λI)⁻¹ c_y, with Φ of width d, the sum of the layers' widths. It keeps d² + C·d float64
    values; a lesson costs d² operations a sample and, where λ is searched, four eigendecompositions.

    k: how many of the last layers; by default the backbone's own.
    lam: "search", "gcv" or a number; by default "search", and "gcv" on a stream, which cannot be searched.
    balance: treat classes of different size alike; off by default here, as in the paper.
    """

    name = "layup"
    model = LayUP

    k: int | None = None
    lam: float | str | None = None
    balance: bool = False

    def settled(self, setup: Setup) -> Self:
        """K and λ's rule decided; a stream cannot be searched."""
        return replace(self, k=settled_depth(self.k, setup), lam=settled_rule(self.lam, setup.setting))


def settled_depth(k: int | None, setup: Setup) -> int:
    """How many layers: as asked, if the backbone has so many, or its own default."""
    return len(setup.backbone.last(setup.backbone.default_k if k is None else k))


def settled_rule(lam: float | str | None, setting: str) -> float | str:
    """The rule for λ: the one that was asked for, or the usual one of the setting.

    >>> settled_rule(None, "cil"), settled_rule(None, "ocl"), settled_rule(1.0, "ocl")
    ('search', 'gcv', 1.0)
    """
    if setting == "ocl" and lam == "search":
        raise InputError(
            "λ cannot be searched in the online setting: that takes several passes over a task, and a stream "
            "has but one. Use gcv, or a number such as 1 (the paper uses 0 and 1)."
        )
    usual = "gcv" if setting == "ocl" else "search"
    rule = usual if lam is None else lam
    require_rule(rule)
    return rule


@dataclass(frozen=True)
class LayNMCMethod(ModelMethod):
    """Nearest mean, by cosine, of the concatenated last k layers. It keeps C·d values."""

    name = "laynmc"
    model = LayNMC

    k: int | None = None

    def settled(self, setup: Setup) -> Self:
        """K decided."""
        return replace(self, k=settled_depth(self.k, setup))


@dataclass(frozen=True)
class NMCMethod(ModelMethod):
    """Nearest mean, by cosine, of the network's final embedding. It keeps C values of its width."""

    name = "nmc"
    model = NMC
