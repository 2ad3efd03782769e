"""Batches of pixels for training, whose order and augmentation depend only on seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor

import layup.compat  # noqa: F401  # before a transform of torchvision is unpickled
from layup.features import in_batches, read_ahead
from layup.images import ImageSource, open_image
from layup.seeds import seed_of, seeded

Batch: TypeAlias = tuple[Tensor, Tensor]
"""Inputs (B, …), mostly pixels (B, 3, height, width), and targets (B,)."""


class Pictures:
    """Transformed images; a random transform is seeded by the seeds and the image's index."""

    def __init__(
        self,
        images: Sequence[ImageSource],
        targets: NDArray[np.int64],
        transform: Callable[[Image], Tensor],
        seeds: tuple[int, ...] = (),
    ) -> None:
        self.images, self.targets = images, targets
        self.transform, self.seeds = transform, seeds

    def read(self, indices: list[int]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """A batch as arrays. Raises `BadImageError` for the first image that cannot be used."""
        return np.stack([self._pixels(index) for index in indices]), self.targets[indices]

    def _pixels(self, index: int) -> NDArray[np.float32]:
        image = open_image(self.images[index])
        with seeded(*self.seeds, index):
            pixels: NDArray[np.float32] = self.transform(image).numpy()
            return pixels

    def shuffled(self, indices: NDArray[np.int64], size: int, workers: int | None) -> Iterator[Batch]:
        """Batches of these images, in an order that depends only on the seeds."""
        return self.batches(shuffled(indices, *self.seeds), size, workers)

    def batches(
        self, indices: Sequence[int] | NDArray[np.int64], size: int, workers: int | None
    ) -> Iterator[Batch]:
        """Batches of `size` of these images; other processes prepare the next ones."""
        # PyTorch's own loader draws one random number per pass: draw it too, so that training with dropout
        # gives the same numbers.
        torch.empty((), dtype=torch.int64).random_()
        for pixels, targets in read_ahead(self.images, self.read, in_batches(indices, size), workers):
            yield torch.from_numpy(pixels), torch.from_numpy(targets)


def shuffled(indices: NDArray[np.int64], *seeds: int) -> NDArray[np.int64]:
    """The indices, in an order that depends only on the seeds.

    >>> sorted(shuffled(np.arange(5), 0, 1).tolist())
    [0, 1, 2, 3, 4]
    """
    return np.random.default_rng(seed_of(*seeds, "order")).permutation(indices)
