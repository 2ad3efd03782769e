"""SLCA (Zhang et al., 2023): a slow learner, and a classifier aligned with the statistics of classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from layup.benchmark.methods.alignment import Alignment
from layup.benchmark.methods.fine_tuned import FineTunedLearner
from layup.benchmark.methods.gaussians import Gaussians, gaussians_from, gaussians_of, tensors_of
from layup.benchmark.methods.gradient import GradientMethod, own_classes_loss
from layup.benchmark.methods.head import TRUNCATED
from layup.benchmark.methods.learner import Setup
from layup.images import ImageSource

JITTER = 1e-4  # on the diagonals of covariances
ALIGNED = "aligned"


class SLCALearner(FineTunedLearner):
    """The network, the heads as they were trained, Gaussians of all classes, and the aligned heads."""

    method: SLCAMethod

    def __init__(self, method: Any, setup: Setup) -> None:
        super().__init__(method, setup)
        self.gaussians: Gaussians = {}
        self.aligned = self.head.copy()

    def trained(self) -> list[str]:
        """The classes of the task."""
        return self.tasks[-1]

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy over the classes of the task."""
        return own_classes_loss(self.head, self.embed(inputs, training=True), targets, self.tasks[-1])

    def scores(self, inputs: Tensor) -> Tensor:
        """One score for each class, by the aligned heads."""
        return self.aligned(self.embed(inputs, training=False))

    def finish(self, images: Sequence[ImageSource], targets: NDArray[np.int64]) -> None:
        """Keep mean and covariance of each of the task's classes, and align a copy of the heads."""
        super().finish(images, targets)
        [embeddings] = self.embeddings(images, targets, [self.body])
        classes = {name: self.head.classes.index(name) for name in self.tasks[-1]}
        self.gaussians |= gaussians_of(len(self.tasks) - 1, classes, embeddings, targets)
        self.aligned = self.head.copy()
        if len(self.tasks) > 1:
            self._align()

    def _align(self) -> None:
        """Train the heads on samples of all Gaussians, with normalised logits."""
        method = self.method
        Alignment(
            self.aligned,
            self.gaussians,
            device=self.backbone.device,
            tasks=len(self.tasks),
            samples=method.samples,
            jitter=JITTER,
            loss=lambda logits, targets: functional.cross_entropy(self.normalised(logits), targets),
            diverged=self.diverged,
        ).run(method.alignment_epochs, method.alignment_rate)

    def normalised(self, logits: Tensor) -> Tensor:
        """Logits over their norm (the mean over tasks of that of the task's new classes) and τ."""
        sizes = [len(names) for names in _arrivals(self.tasks)]
        norms = [part.norm(dim=1, keepdim=True) for part in torch.split(logits, sizes, dim=1)]
        return logits / (torch.cat(norms, dim=1).mean(dim=1, keepdim=True) + 1e-7) / self.method.temperature

    def state(self) -> dict[str, Tensor]:
        """The network, the Gaussians, and the aligned heads."""
        return {
            **super().state(),
            **tensors_of(self.gaussians, self.tasks),
            ALIGNED: self.aligned.values(),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take all of it over."""
        super().restore(tensors)
        self.gaussians = gaussians_from(tensors, self.tasks)
        values = tensors[ALIGNED]
        self.aligned.take(self.head.classes[: len(values)], values)


def _arrivals(tasks: Sequence[Sequence[str]]) -> list[list[str]]:
    """The new classes of each task, without tasks that brought none.

    >>> _arrivals([["a", "b"], ["a", "b"], ["b", "c"]])
    [['a', 'b'], ['c']]
    """
    seen: set[str] = set()
    found = []
    for names in tasks:
        found.append([name for name in names if name not in seen])
        seen.update(names)
    return [names for names in found if names]


@dataclass(frozen=True)
class SLCAMethod(GradientMethod):
    """Slow learner with classifier alignment: fine-tune slowly, then balance the heads on class statistics.

    1. On every task the whole network is trained at a hundredth of the rate of the task's new head, with
       cross-entropy over the task's classes alone; the rate drops to a tenth for the last tenth of epochs.
    2. The mean μ_c and covariance Σ_c of the embeddings are kept for every class of the task.
    3. From the second task on, a copy of all heads is trained on samples of N(μ_c (0.9 + 0.1 t_c / t), Σ_c)
       of all classes, t_c being the class's task and t the current one, with cross-entropy of l / (‖l‖ τ),
       ‖l‖ the mean over tasks of the norm of the task's logits. Only this copy is used for predictions.

    Keeps the P weights of the network, and C·(d² + 3d + 2) values of Gaussians and heads, 4 bytes each (a
    class that returns has one more Gaussian). Costs `epochs` forward and backward passes of the whole network
    per training image, one more forward pass, C·d³ / 3 operations per task to factorise covariances, and one
    forward pass per test image after every task. Needs the boundaries between tasks.

    epochs, learning_rate, batch_size: of the first step; the rate is the head's.
    alignment_epochs, alignment_rate: epochs and learning rate of the third step.
    samples: how many samples per class in each epoch of the third step.
    temperature: τ.
    augmentation: of training images: mild, wide, standard, bright or stretched.
    """

    name = "slca"
    learner = SLCALearner
    initial = TRUNCATED
    weight_decay = 5e-4
    lr_multiplier = 0.01
    exempt: ClassVar[Mapping[str, str]] = {
        **GradientMethod.exempt,
        "memory-per-task": "each keeps its own Gaussians",
    }

    epochs: int = 20
    learning_rate: float = 0.01
    batch_size: int = 128
    alignment_epochs: int = 5
    alignment_rate: float = 0.01
    samples: int = 256
    temperature: float = 0.1
    augmentation: str = "standard"

    def rate(self, epoch: int) -> float:
        """A tenth of the rate for the last tenth of the epochs."""
        return self.learning_rate * (0.1 if epoch >= math.ceil(0.9 * self.epochs) else 1.0)
