"""What methods share that train all weights of the network, or an adapter in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from layup.adapters import AdaptedBackbone, Adapter, Full
from layup.benchmark.methods.gradient import GradientLearner
from layup.benchmark.methods.learner import Setup
from layup.images import ImageSource
from layup.tuning import Groups


class FineTunedLearner(GradientLearner):
    """A learner with its own network, which begins as the backbone and is trained on every task."""

    def __init__(self, method: Any, setup: Setup) -> None:
        super().__init__(method, setup)
        self.body = self.new_body()

    def adapter(self) -> Adapter:
        """What is trained in the network: by default, all of it."""
        return Full()

    def new_body(self) -> AdaptedBackbone:
        """The backbone with the adapter as it begins."""
        return AdaptedBackbone(self.backbone, self.adapter(), seed=self.setup.seed)

    def embed(self, pixels: Tensor, *, training: bool) -> Tensor:
        """(B, 3, height, width) → (B, width)."""
        return self.body.embed(pixels, training=training)

    def embeddings(
        self, images: Sequence[ImageSource], targets: NDArray[np.int64], bodies: Sequence[AdaptedBackbone]
    ) -> list[Tensor]:
        """(N, width) by each of these networks, in float64, of images as they are; each is read once."""
        parts: list[list[Tensor]] = [[] for _ in bodies]
        with torch.no_grad():
            for pixels, _ in self.plain_batches(images, targets):
                for part, body in zip(parts, bodies, strict=True):
                    part.append(body.embed(pixels, training=False))
        found = [torch.cat(part).to("cpu", torch.float64) for part in parts]
        if not all(each.isfinite().all() for each in found):
            raise self.diverged("the embeddings are")
        return found

    def scores(self, inputs: Tensor) -> Tensor:
        """One score for each of the head's classes."""
        return self.head(self.embed(inputs, training=False))

    def groups(self) -> Groups:
        """All that the adapter tunes, and the head's rows of the classes that are trained, each by itself."""
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
        """All that the adapter tunes."""
        return {f"body.{name}": value.detach() for name, value in self.body.state().items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take it over."""
        self.body.load_state(
            {name.removeprefix("body."): value for name, value in tensors.items() if name.startswith("body.")}
        )
