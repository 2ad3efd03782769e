"""Where in a photo a network finds what it goes by: cover a part of it, and see what that costs.

A square patch of the network's mean colour moves over what the network sees, in 8 × 8 overlapping positions.
This needs nothing but passes through the network, so it works with any network and any classifier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from layup.algebra import Floats
from layup.backbones import BATCH
from layup.features import in_batches
from layup.progress import progress_bar

STEPS = 8
"""Positions of the patch along each side."""
SIDE = 0.25
"""The side of the patch, as a share of that of what the network sees."""
NAMES = (
    ("upper left", "top", "upper right"),
    ("left side", "middle", "right side"),
    ("lower left", "bottom", "lower right"),
)


@dataclass(frozen=True)
class Heat:
    """What covering a part of a photo costs: how much the lead of its label over the next class falls.

    drops: one number per position of the patch, from the top left. Below zero, the lead grows.
    region: the part of the photo that the network sees: left, top, right and bottom, in its pixels.

    >>> heat = Heat(np.eye(8), region=(2.0, 0.0, 10.0, 8.0))
    >>> heat.largest, heat.where
    (1.0, 'upper left')
    >>> heat.over(12, 8).shape
    (8, 12)
    """

    drops: Floats
    region: tuple[float, float, float, float]

    @property
    def largest(self) -> float:
        """The largest fall of the lead."""
        return float(self.drops.max())

    @property
    def where(self) -> str:
        """The position of the patch that costs most, in words."""
        row, column = np.unravel_index(self.drops.argmax(), self.drops.shape)
        return NAMES[3 * int(row) // STEPS][3 * int(column) // STEPS]

    def over(self, width: int, height: int) -> Floats:
        """One number per pixel of the photo (height × width); NaN where the network does not look.

        It is the mean of the patches around the pixel: the nearer their centre, the more they count.
        """
        left, top, right, bottom = self.region
        across, down = _nearness(width, left, right), _nearness(height, top, bottom)
        return np.asarray(down @ self.drops @ across.T)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"drops": self.drops.tolist(), "side": SIDE, "region": list(self.region), "where": self.where}


def occlusion(
    pixels: Tensor,
    lead: Callable[[Tensor], Floats],
    region: tuple[float, float, float, float],
    progress: bool | None = None,
) -> Heat:
    """The heat of a preprocessed photo (3, height, width); `lead` says how far ahead the label is in each."""
    height, width = pixels.shape[1:]
    high, wide = (max(1, round(SIDE * side)) for side in (height, width))
    corners = [(row, column) for row in _starts(height, high) for column in _starts(width, wide)]
    whole, drops = lead(pixels[None])[0], np.empty(len(corners))
    with progress_bar(progress) as bar:
        task = bar.add_task("Covering parts", total=len(corners), note="")
        for numbers in in_batches(range(len(corners)), BATCH):
            covered = pixels.repeat(len(numbers), 1, 1, 1)
            for image, number in zip(covered, numbers, strict=True):
                top, left = corners[number]
                image[:, top : top + high, left : left + wide] = 0  # the mean colour, as it is scaled
            drops[numbers] = whole - lead(covered)
            bar.advance(task, len(numbers))
    return Heat(drops.reshape(STEPS, STEPS), region)


def _starts(side: int, patch: int) -> list[int]:
    """Where the patch begins along a side, in pixels, at each position."""
    return [round((side - patch) * step / (STEPS - 1)) for step in range(STEPS)]


def _nearness(count: int, begin: float, end: float) -> Floats:
    """How much each position of the patch counts for each of so many pixels, which adds up to one.

    NaN outside `begin` to `end`.
    """
    place = (np.arange(count) + 0.5 - begin) / (end - begin)
    place[(place < 0) | (place > 1)] = np.nan
    centres = np.linspace(SIDE / 2, 1 - SIDE / 2, STEPS)
    nearness = np.maximum(1 - np.abs(place[:, None] - centres) / SIDE, 0)
    return np.asarray(nearness / nearness.sum(axis=1, keepdims=True))
