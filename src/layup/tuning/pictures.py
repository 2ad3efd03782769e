"""Batches of pixels for training, whose order and augmentation follow from seeds alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor
from torch.utils.data import Dataset

from layup.errors import BadImageError
from layup.features import in_batches, read_ahead
from layup.images import ImageSource, open_image
from layup.seeds import seed_of, seeded

Batch: TypeAlias = tuple[Tensor, Tensor]
"""Inputs (B, …), mostly pixels (B, 3, height, width), and targets (B,)."""


class Pictures(Dataset[Any]):
    """Images as a transform leaves them; a random one draws from the seeds and the image's index."""

    def __init__(
        self,
        images: Sequence[ImageSource],
        targets: NDArray[np.int64],
        transform: Callable[[Image], Tensor],
        seeds: tuple[int, ...] = (),
    ) -> None:
        self.images, self.targets = images, targets
        self.transform, self.seeds = transform, seeds

    def __getitems__(self, indices: list[int]) -> Batch | BadImageError:
        pixels = []
        for index in indices:
            try:
                image = open_image(self.images[index])
            except BadImageError as error:
                return error  # raised in another process, it would be a page of text
            with seeded(*self.seeds, index):
                pixels.append(self.transform(image))
        return torch.stack(pixels), torch.from_numpy(self.targets[indices])

    def shuffled(self, indices: NDArray[np.int64], size: int, workers: int | None) -> Iterator[Batch]:
        """The pictures of these indices in an order that follows from the seeds."""
        return self.batches(shuffled(indices, *self.seeds), size, workers)

    def batches(
        self, indices: Sequence[int] | NDArray[np.int64], size: int, workers: int | None
    ) -> Iterator[Batch]:
        """The pictures of these indices, so many at a time; other processes prepare the next ones."""
        for batch in read_ahead(self, in_batches(indices, size), workers):
            if isinstance(batch, BadImageError):
                raise batch
            yield batch


def shuffled(indices: NDArray[np.int64], *seeds: int) -> NDArray[np.int64]:
    """The indices in an order that follows from the seeds.

    >>> sorted(shuffled(np.arange(5), 0, 1).tolist())
    [0, 1, 2, 3, 4]
    """
    return np.random.default_rng(seed_of(*seeds, "order")).permutation(indices)
