"""What methods that train all weights of the network share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from layup.adapters import AdaptedBackbone, Full
from layup.benchmark.methods.gradient import GradientLearner
from layup.benchmark.methods.learner import Setup
from layup.images import ImageSource
from layup.tuning import Groups


class FineTunedLearner(GradientLearner):
    """A learner with its own network, which begins as the backbone and is trained on every task."""

    def __init__(self, method: Any, setup: Setup) -> None:
        super().__init__(method, setup)
        self.body = AdaptedBackbone(setup.backbone, Full())

    def embed(self, pixels: Tensor, *, training: bool) -> Tensor:
        """(B, 3, height, width) → (B, width)."""
        return self.body.embed(pixels, training=training)

    def embeddings(self, images: Sequence[ImageSource], targets: NDArray[np.int64]) -> Tensor:
        """(N, width): the embeddings of all images as they are, in float64."""
        with torch.no_grad():
            parts = [self.embed(pixels, training=False) for pixels, _ in self.plain_batches(images, targets)]
        embeddings = torch.cat(parts).to("cpu", torch.float64)
        if not embeddings.isfinite().all():
            raise self.diverged("the embeddings are")
        return embeddings

    def scores(self, inputs: Tensor) -> Tensor:
        """One score for each of the head's classes."""
        return self.head(self.embed(inputs, training=False))

    def groups(self) -> Groups:
        """All weights, and the head's rows of the classes that are trained, each by itself."""
        self.body.train()
        weights = [value for value in self.body.state().values() if isinstance(value, nn.Parameter)]
        return [
            (self.method.lr_multiplier, weights),
            *((1.0, [row]) for row in self.head.rows(self.trained())),
        ]

    def trained(self) -> list[str]:
        """The classes whose rows of the head the current task trains."""
        return self.head.classes

    def finish(self, images: Sequence[ImageSource], targets: NDArray[np.int64]) -> None:
        """Put the network into evaluation mode."""
        self.body.train(False)

    def state(self) -> dict[str, Tensor]:
        """All weights of the network."""
        return {f"body.{name}": value.detach() for name, value in self.body.state().items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over all weights."""
        self.body.load_state(
            {name.removeprefix("body."): value for name, value in tensors.items() if name.startswith("body.")}
        )
