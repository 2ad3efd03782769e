"""SSIAT (Tan et al., CVPR 2024): one adapter that goes on being tuned, and means that move along with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from layup.adapters import AdaptedBackbone, Adapter, AdaptFormer, usual_adapter
from layup.benchmark.methods.alignment import Alignment
from layup.benchmark.methods.fine_tuned import FineTunedLearner
from layup.benchmark.methods.gaussians import Gaussians, gaussians_from, gaussians_of, tensors_of
from layup.benchmark.methods.gradient import GradientMethod, own_classes_loss
from layup.benchmark.methods.head import TRUNCATED
from layup.benchmark.methods.learner import Setup
from layup.errors import InputError
from layup.images import ImageSource
from layup.tuning import Recipe, annealed

JITTER = 1e-3  # on the diagonals of covariances
FLOOR = 1e-5  # the least weight of an image: far from all of them, a mean moves as they do on average


class SSIATLearner(FineTunedLearner):
    """The adapter, one cosine row per class, and Gaussians of all classes."""

    method: SSIATMethod

    def __init__(self, method: Any, setup: Setup) -> None:
        super().__init__(method, setup)
        self.gaussians: Gaussians = {}
        self.earlier: AdaptedBackbone | None = None  # the network as it was before the current task

    def adapter(self) -> Adapter:
        """A narrow MLP next to that of every block."""
        return AdaptFormer(self.method.width)

    def trained(self) -> list[str]:
        """The classes of the task."""
        return self.tasks[-1]

    @property
    def recipe(self) -> Recipe:
        """The first task has more epochs; the rate falls along half a cosine wave in each."""
        method = self.method
        epochs = method.epochs * (method.first_factor if len(self.tasks) == 1 else 1)
        return replace(
            super().recipe,
            epochs=epochs,
            rate=lambda epoch: annealed(method.learning_rate, epoch, epochs),
        )

    def start(self) -> None:
        """Remember the adapter as it is, unless there is no class yet whose mean could move."""
        if len(self.tasks) > 1:
            self.earlier = self.new_body()
            self.earlier.load_state(self.body.state())

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of scaled cosines over the classes of the task, with a margin."""
        embedding, method = self.embed(inputs, training=True), self.method
        return own_classes_loss(
            self.head, embedding, targets, self.tasks[-1], scale=method.scale, margin=method.margin
        )

    def finish(self, images: Sequence[ImageSource], targets: NDArray[np.int64]) -> None:
        """Move the means of earlier tasks, keep Gaussians of the task's classes, and align all rows."""
        super().finish(images, targets)
        bodies = [self.body] if self.earlier is None else [self.body, self.earlier]
        now, *before = self.embeddings(images, targets, bodies)
        for each in before:
            self._shift(each, now)
        self.earlier = None
        classes = {name: self.head.classes.index(name) for name in self.tasks[-1]}
        self.gaussians |= gaussians_of(len(self.tasks) - 1, classes, now, targets)
        if len(self.tasks) > 1:
            self._align()

    def _shift(self, before: Tensor, now: Tensor) -> None:
        """Move the means of all classes so far, as the images of the task moved."""
        means = torch.stack([mean for mean, _ in self.gaussians.values()]).double()
        moved = (means + shift_of(means, before, now, self.method.sigma)).float()
        for (key, (_, covariance)), mean in zip(self.gaussians.items(), moved, strict=True):
            self.gaussians[key] = mean.clone(), covariance

    def _align(self) -> None:
        """Train the rows of all classes on samples of all Gaussians, with scaled cosines."""
        method = self.method
        Alignment(
            self.head,
            self.gaussians,
            device=self.backbone.device,
            tasks=len(self.tasks),
            samples=method.samples,
            jitter=JITTER,
            loss=lambda cosines, targets: functional.cross_entropy(method.scale * cosines, targets),
            diverged=self.diverged,
        ).run(method.alignment_epochs, method.alignment_rate)

    def state(self) -> dict[str, Tensor]:
        """The adapter and the Gaussians."""
        return {**super().state(), **tensors_of(self.gaussians, self.tasks)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take them over."""
        super().restore(tensors)
        self.gaussians = gaussians_from(tensors, self.tasks)


def shift_of(means: Tensor, before: Tensor, now: Tensor, sigma: float) -> Tensor:
    """How far means (C, d) moved (C, d), judged by images whose embeddings (N, d) were and are these.

    The weighted mean of what images moved, with a Gaussian weight by their distance to a mean before.

    >>> before = torch.tensor([[0.0, 0.0], [9.0, 0.0]]).double()
    >>> shift_of(torch.zeros(1, 2).double(), before, before + torch.tensor([[0, 2], [0, 4]]), 1.0)
    tensor([[0.0000, 2.0000]], dtype=torch.float64)
    """
    weights = torch.exp(-(torch.cdist(means, before) ** 2) / (2 * sigma**2)) + FLOOR
    return weights / weights.sum(dim=1, keepdim=True) @ (now - before)


@dataclass(frozen=True)
class SSIATMethod(GradientMethod):
    """Semantically shifted adapter-tuning: tune one adapter on every task, and let old class means follow it.

    1. On every task one AdaptFormer adapter, which all tasks share and nothing holds back, and a row w_c per
       class of the task are trained with cross-entropy of s (cos(f(x), w_c) − m for the right class) over the
       task's classes alone; the rate falls along half a cosine wave.
    2. The means of earlier classes follow without their images: μ moves by the mean of f_t(x) − f_{t−1}(x)
       over the images of the task, each with the weight exp(−‖f_{t−1}(x) − μ‖² / 2σ²) + 10⁻⁵. Then mean and
       covariance of the task's own classes are kept.
    3. From the second task on, the rows of all classes are trained on samples of
       N(μ_c (0.9 + 0.1 t_c / t), Σ_c + 10⁻³ I), t_c being the class's task and t the current one, with
       cross-entropy of s cos(·, w_c).

    Keeps: blocks·(2·width·d + width + d) values of the adapter, and C·(d² + 2d) of Gaussians and rows, 4
    bytes each (a class that returns has one more Gaussian). It neither merges with another, nor forgets
    exactly: every image has moved the adapter.
    Costs: `epochs` forward and backward passes per training image (`first_factor` times as many in the first
    task), then one more forward pass, and two after the first task; C·d³ / 3 operations per task to factorise
    covariances, and one forward pass per test image after every task.
    Needs: one of timm's plain vision transformers, and the boundaries between tasks.

    epochs, learning_rate, batch_size: of the first step.
    first_factor: how many times as many epochs the first task has.
    width: of the adapter.
    scale, margin: s and m.
    sigma: σ, in the units of embeddings.
    alignment_epochs, alignment_rate: epochs and learning rate of the third step.
    samples: how many samples per class in each epoch of the third step.
    augmentation: of training images: mild, wide, standard, bright or stretched.
    """

    name = "ssiat"
    learner = SSIATLearner
    initial = TRUNCATED
    cosine = True
    weight_decay = 5e-4
    lr_multiplier = 1.0
    may_be_zero = ("margin",)
    exempt: ClassVar[Mapping[str, str]] = {
        **GradientMethod.exempt,
        "memory-per-task": "each keeps its own Gaussians",
    }

    epochs: int = 10
    learning_rate: float = 0.01
    batch_size: int = 48
    first_factor: int = 2
    width: int = 64
    scale: float = 20.0
    margin: float = 0.0
    sigma: float = 4.0
    alignment_epochs: int = 5
    alignment_rate: float = 0.01
    samples: int = 256
    augmentation: str = "wide"

    def resolved(self, setup: Setup) -> Self:
        """The method itself, if its adapter fits the network."""
        backbone = setup.backbone
        if usual_adapter(backbone.network) != AdaptFormer.name:
            raise InputError(
                f"{self.name!r} tunes an AdaptFormer adapter in one of timm's plain vision transformers, and "
                f"{backbone.name!r} is of another kind ({type(backbone.network).__name__}). Use another "
                "backbone, or a method that fits any network, such as 'layup', 'ranpac' or 'slca'."
            )
        return super().resolved(setup)
