"""Joint linear probing: the upper bound for methods that leave the network as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from layup.benchmark.methods.gradient import GradientLearner, GradientMethod
from layup.benchmark.methods.learner import Setup
from layup.errors import BadImageError
from layup.features import EMBEDDING, extractor_of, in_batches
from layup.images import ImageSource
from layup.tuning import Batch, Groups, shuffled


class ProbeLearner(GradientLearner):
    """A head alone, on embeddings that are read once."""

    def __init__(self, method: Any, setup: Setup) -> None:
        super().__init__(method, setup)
        self.extractor = extractor_of(self.backbone, [EMBEDDING], setup.reading)
        self._rows: Tensor | None = None  # of the task's images

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy over all classes."""
        return functional.cross_entropy(self.head(inputs), targets)

    def scores(self, inputs: Tensor) -> Tensor:
        """One score for each of the head's classes."""
        return self.head(inputs)

    def groups(self) -> Groups:
        """The head."""
        return [(1.0, self.head.rows(self.head.classes))]

    def training_batches(
        self, images: Sequence[ImageSource], targets: NDArray[np.int64], epoch: int
    ) -> Iterator[Batch]:
        """An epoch, in a random order."""
        if self._rows is None:
            self._rows = torch.cat([rows for rows, _ in self.plain_batches(images, targets)])
        order = shuffled(np.arange(len(images)), self.setup.seed, len(self.tasks), epoch)
        for indices in in_batches(order, self.method.batch_size):
            yield self._rows[indices], torch.from_numpy(targets[indices])

    def plain_batches(self, images: Sequence[ImageSource], targets: NDArray[np.int64]) -> Iterator[Batch]:
        """The embeddings of the images, in order."""
        for part in self.extractor.stream(images):
            if part.bad:
                raise BadImageError(part.bad[0].reason)
            yield torch.from_numpy(part.rows).to(self.backbone.device), torch.from_numpy(targets[part.kept])

    def start(self) -> None:
        """Drop the embeddings of a task that was interrupted."""
        self._rows = None

    def finish(self, images: Sequence[ImageSource], targets: NDArray[np.int64]) -> None:
        """Drop the embeddings."""
        self._rows = None


@dataclass(frozen=True)
class JointProbeMethod(GradientMethod):
    """Train a linear classifier on the frozen network's embeddings of all tasks jointly.

    Minimises the cross-entropy of softmax(W f(x) + b) over all classes by SGD with momentum, on embeddings
    that are read once, without augmentation: what gradient descent makes of the features that NMC and RanPAC
    have. Its record has one task.

    Keeps (d + 1)·C values of the head, 4 bytes each. Costs one forward pass per image, then epochs·C·d
    operations per training image. Needs all images at the same time.

    epochs: passes over all embeddings.
    learning_rate: of the head.
    batch_size: embeddings per step.
    """

    name = "joint-probe"
    learner = ProbeLearner
    joint = True
    weight_decay = 5e-4

    epochs: int = 30
    learning_rate: float = 0.01
    batch_size: int = 128
