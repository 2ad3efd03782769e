"""SLCA (Zhang et al., 2023): a slow learner, and a classifier aligned with the statistics of classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from layup.benchmark.methods.fine_tuned import FineTunedLearner
from layup.benchmark.methods.gradient import GradientMethod, own_classes_loss
from layup.benchmark.methods.head import TRUNCATED
from layup.benchmark.methods.learner import Setup
from layup.errors import DivergedError
from layup.images import ImageSource
from layup.tuning import Batch, Groups, Recipe, Trainable, Trainer, annealed

JITTER = 1e-4  # on the diagonals of covariances
MEAN, COVARIANCE, ALIGNED = "mean.", "covariance.", "aligned"


class SLCALearner(FineTunedLearner):
    """The network, the heads as they were trained, Gaussians of all classes, and the aligned heads."""

    method: SLCAMethod

    def __init__(self, method: Any, setup: Setup) -> None:
        super().__init__(method, setup)
        self.gaussians: dict[tuple[int, str], tuple[Tensor, Tensor]] = {}  # by task and class
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
        with torch.no_grad():
            parts = [self.embed(pixels, training=False) for pixels, _ in self.plain_batches(images, targets)]
        embeddings = torch.cat(parts).to("cpu", torch.float64)
        if not embeddings.isfinite().all():
            raise self.diverged("the embeddings are")
        for name in self.tasks[-1]:
            own = embeddings[torch.from_numpy(targets == self.head.classes.index(name))]
            # One image has no covariance.
            spread = torch.cov(own.T) if len(own) > 1 else torch.zeros(self.head.width, self.head.width)
            self.gaussians[len(self.tasks) - 1, name] = own.mean(dim=0).float(), spread.float()
        self.aligned = self.head.copy()
        if len(self.tasks) > 1:
            self._align()

    def _align(self) -> None:
        """Train the heads on samples of all Gaussians, with normalised logits."""
        method = self.method
        recipe = Recipe(
            "sgd",
            method.alignment_epochs,
            lambda epoch: annealed(method.alignment_rate, epoch, method.alignment_epochs),
            weight_decay=5e-4,
        )
        Trainer(_Alignment(self), recipe).run("Aligning", progress=False)

    def normalised(self, logits: Tensor) -> Tensor:
        """Logits over their norm (the mean over tasks of that of the task's new classes) and τ."""
        sizes = [len(names) for names in _arrivals(self.tasks)]
        norms = [part.norm(dim=1, keepdim=True) for part in torch.split(logits, sizes, dim=1)]
        return logits / (torch.cat(norms, dim=1).mean(dim=1, keepdim=True) + 1e-7) / self.method.temperature

    def state(self) -> dict[str, Tensor]:
        """The network, the Gaussians, and the aligned heads."""
        tensors = super().state()
        for (task, name), (mean, covariance) in self.gaussians.items():
            index = self.tasks[task].index(name)
            tensors[f"{MEAN}{task}.{index}"] = mean
            tensors[f"{COVARIANCE}{task}.{index}"] = covariance
        return {**tensors, ALIGNED: self.aligned.values()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take all of it over."""
        super().restore(tensors)
        self.gaussians = {}
        for name in tensors:
            if name.startswith(MEAN):
                task, index = map(int, name.removeprefix(MEAN).split("."))
                key = task, self.tasks[task][index]
                self.gaussians[key] = tensors[name], tensors[f"{COVARIANCE}{task}.{index}"]
        values = tensors[ALIGNED]
        self.aligned.take(self.head.classes[: len(values)], values)


class _Alignment(Trainable):
    """The aligned heads, on samples of all Gaussians."""

    def __init__(self, learner: SLCALearner) -> None:
        self.learner = learner
        self.device = learner.backbone.device
        self.steps = len(learner.gaussians)  # samples of all, as many at a time as there are of one
        self.factors = {key: _factor(covariance) for key, (_, covariance) in learner.gaussians.items()}
        # One course of random numbers goes through all epochs.
        self.generator = torch.Generator()
        self.generator.set_state(torch.get_rng_state())

    def groups(self) -> Groups:
        """The rows of all classes."""
        return [(1.0, self.learner.aligned.rows(self.learner.aligned.classes))]

    def batches(self, epoch: int) -> Iterator[Batch]:
        """New samples of every class, mixed."""
        learner, samples = self.learner, self.learner.method.samples
        indices = {name: index for index, name in enumerate(learner.aligned.classes)}
        inputs, targets = [], []
        for (task, name), (mean, _) in learner.gaussians.items():
            # The network has changed since: the older a mean is, the less it still holds.
            centre = mean * (0.9 + 0.1 * (task + 1) / len(learner.tasks))
            noise = torch.randn(samples, len(mean), generator=self.generator)
            inputs.append(centre + noise @ self.factors[task, name].T)
            targets.append(torch.full((samples,), indices[name]))
        every, aims = torch.cat(inputs), torch.cat(targets)
        for batch in torch.split(torch.randperm(len(every), generator=self.generator), samples):
            yield every[batch], aims[batch]

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of normalised logits."""
        logits = self.learner.aligned(inputs.to(self.device))
        return functional.cross_entropy(self.learner.normalised(logits), targets)

    def diverged(self, what: str, epoch: int) -> DivergedError:
        """The error that says so."""
        return self.learner.diverged(f"in aligning, {what}")


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


def _factor(covariance: Tensor) -> Tensor:
    """L with L Lᵀ = covariance + a little on the diagonal."""
    wide = covariance.double() + JITTER * torch.eye(len(covariance), dtype=torch.float64)
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(wide)
    if failed:  # rounded to float32, a large covariance may be negative in some direction
        values, directions = torch.linalg.eigh(wide)
        factor = directions * values.clamp(min=JITTER).sqrt()
    return factor.float()


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
