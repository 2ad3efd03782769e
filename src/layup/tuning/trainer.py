"""What all training shares: batches of pixels, learning rates, and optimisers that outlive the process.

Everything random is drawn anew for every epoch and image from seeds: so neither the number of processes that
decode images nor a break in between changes anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor

from layup.features import in_batches, read_ahead
from layup.images import ImageSource, open_image
from layup.seeds import seeded

Batch: TypeAlias = tuple[Tensor, Tensor]  # pixels (B, 3, height, width), targets (B,)

# What an optimiser remembers of each parameter.
SGD_PARTS = {"momentum_buffer"}
ADAM_PARTS = {"step", "exp_avg", "exp_avg_sq"}


class Pictures:
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

    def read(self, indices: list[int]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """A batch as arrays. Raises `BadImageError` for the first image that cannot be used."""
        return np.stack([self._pixels(index) for index in indices]), self.targets[indices]

    def _pixels(self, index: int) -> NDArray[np.float32]:
        image = open_image(self.images[index])
        with seeded(*self.seeds, index):
            pixels: NDArray[np.float32] = self.transform(image).numpy()
            return pixels

    def batches(
        self, indices: Sequence[int] | NDArray[np.int64], size: int, workers: int | None
    ) -> Iterator[Batch]:
        """The pictures at these indices, so many at a time; other processes prepare the next ones."""
        # One random number is spent on every pass, as PyTorch's own loader does: whoever trains with dropout
        # gets the same numbers as with that.
        torch.empty((), dtype=torch.int64).random_()
        for pixels, targets in read_ahead(self.images, self.read, in_batches(indices, size), workers):
            yield torch.from_numpy(pixels), torch.from_numpy(targets)


def annealed(learning_rate: float, epoch: int, epochs: int) -> float:
    """The learning rate of an epoch (from 0): half a cosine wave from the first value towards zero.

    >>> [annealed(1.0, epoch, 4) for epoch in (0, 2)]
    [1.0, 0.5]
    """
    return learning_rate * (1 + math.cos(math.pi * epoch / epochs)) / 2


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What an optimiser remembers, by PLACE.NAME, where the places are those of the parameters."""
    return {
        f"{place}.{name}": value
        for place, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
        if value is not None
    }


def load_optimizer_state(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Have an optimiser of the same parameters remember what `optimizer_state` gave.

    Parameters that it knows nothing of begin without a memory. A `ValueError` if it was of other parameters,
    or of another kind of optimiser.
    """
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    known = {str(place): parameter for place, parameter in enumerate(parameters)}
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        place, _, part = name.partition(".")
        if place not in known or not _fits(part, tensor, known[place]):
            raise ValueError(f"{name} is not what an optimiser of these parameters remembers")
        state.setdefault(int(place), {})[part] = tensor
    parts = SGD_PARTS if isinstance(optimizer, torch.optim.SGD) else ADAM_PARTS
    for number, remembered in state.items():
        if remembered.keys() != parts:
            raise ValueError(f"of parameter {number} it remembers {sorted(remembered)}, not {sorted(parts)}")
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _fits(part: str, tensor: Tensor, parameter: Tensor) -> bool:
    """Whether a tensor can be this part of what is remembered: a number of steps, or like its parameter."""
    if part == "step":
        return tensor.ndim == 0 and tensor.is_floating_point() and 1 <= tensor.item() < math.inf
    return tensor.shape == parameter.shape
