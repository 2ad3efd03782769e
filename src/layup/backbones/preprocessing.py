"""From an image to the numbers that a network was trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from layup.errors import InputError

Crop = Literal["center", "squash", "border"]
BLACK = (0, 0, 0)
RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "nearest-exact": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "box": Image.Resampling.BOX,
    "hamming": Image.Resampling.HAMMING,
    "lanczos": Image.Resampling.LANCZOS,
}
"""Ways to interpolate, by the names that torchvision and timm have for them."""


def as_size(value: int | Sequence[int]) -> tuple[int, int]:
    """The (height, width) that a number or a pair means.

    >>> as_size(224), as_size([96, 128])
    ((224, 224), (96, 128))
    """
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or not all(isinstance(side, int) and side >= 1 for side in pair):
        raise InputError(
            f"{value!r} is not an image size. Give one whole number of pixels, or (height, width)."
        )
    return pair[0], pair[1]


@dataclass(frozen=True)
class Preprocessing:
    """Resize, crop and scale, as in the network's training.

    An image is resized to `resize` (height, width), and the network sees its centre of `size`:

    - `center`: the image keeps its proportions and covers `resize`; the rest is cut off;
    - `squash`: the image is stretched to exactly `resize`;
    - `border`: the image keeps its proportions, fits into `resize`, and is padded with the mean colour.

    >>> preprocessing = Preprocessing(size=(32, 32), resize=(36, 36), crop="center")
    >>> from PIL import Image
    >>> preprocessing.transform(Image.new("RGB", (60, 40))).shape
    torch.Size([3, 32, 32])
    """

    size: tuple[int, int]
    resize: tuple[int, int]
    crop: Crop = "center"
    interpolation: str = "bicubic"
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)

    def __post_init__(self) -> None:
        as_size(self.size), as_size(self.resize)
        if self.interpolation not in RESAMPLING:
            known = ", ".join(RESAMPLING)
            raise InputError(f"Unknown interpolation {self.interpolation!r}. Known: {known}.")
        if self.crop not in get_args(Crop):
            raise InputError(f"Unknown crop {self.crop!r}. Known: {', '.join(get_args(Crop))}.")
        if len(self.mean) != 3 or len(self.std) != 3 or not all(self.std):
            raise InputError(
                f"mean = {self.mean} and std = {self.std} cannot scale RGB images. "
                "Each needs three values, and none of std may be 0."
            )

    @classmethod
    def from_timm(
        cls, config: Mapping[str, Any], input_size: int | Sequence[int] | None = None
    ) -> Preprocessing:
        """What timm's `create_transform` does for this `pretrained_cfg`, at its own size or another.

        >>> Preprocessing.from_timm({"input_size": (3, 224, 224), "crop_pct": 0.875}).resize
        (256, 256)
        """
        import layup.compat  # noqa: F401, I001  # before timm
        from timm.data.config import resolve_data_config  # here, because importing timm takes seconds

        data = resolve_data_config(pretrained_cfg=dict(config))  # type: ignore[no-untyped-call]
        size = as_size(data["input_size"][1:] if input_size is None else input_size)
        height, width = (math.floor(side / data["crop_pct"]) for side in size)
        return cls(
            size=size,
            resize=(height, width),
            crop=data["crop_mode"],
            interpolation=data["interpolation"],
            mean=tuple(data["mean"]),
            std=tuple(data["std"]),
        )

    def transform(self, image: Image.Image) -> Tensor:
        """RGB image → float32 tensor (3, height, width).

        It computes what transforms of torchvision and timm compute, to the bit, without importing them.
        """
        width, height = self._resized(image)
        if (width, height) != image.size:
            image = image.resize((width, height), RESAMPLING[self.interpolation])
        red, green, blue = (round(255 * value) for value in self.mean)
        seen = _centre(image, self.size, (red, green, blue) if self.crop == "border" else BLACK)
        pixels = torch.from_numpy(np.array(seen)).permute(2, 0, 1).to(torch.float32).mul_(1 / 255)
        mean, std = (torch.tensor(values, dtype=torch.float32) for values in (self.mean, self.std))
        return pixels.sub_(mean[:, None, None]).div_(std[:, None, None])

    def region(self, image: Image.Image) -> tuple[float, float, float, float]:
        """The part of an image that the network sees: left, top, right and bottom, in pixels of the image.

        It reaches beyond the image where that is padded.

        >>> Preprocessing(size=(32, 32), resize=(32, 32)).region(Image.new("RGB", (128, 64)))
        (32.0, 0.0, 96.0, 64.0)
        """
        resized = self._resized(image)
        height, width = self.size
        left, top = (_beginning(has, seen) for has, seen in zip(resized, (width, height), strict=True))
        across, down = image.width / resized[0], image.height / resized[1]
        return across * left, down * top, across * (left + width), down * (top + height)

    def _resized(self, image: Image.Image) -> tuple[int, int]:
        """The width and height of the image before its centre is taken."""
        height, width = self.resize
        if self.crop == "squash":
            return width, height
        if self.crop == "center" and height == width:  # whole pixels are cut off, not rounded
            short, long = sorted(image.size)
            longer = int(height * long / short)
            return (height, longer) if image.width <= image.height else (longer, height)
        ratios = image.height / height, image.width / width
        ratio = max(ratios) if self.crop == "border" else min(ratios)
        return round(image.width / ratio), round(image.height / ratio)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocessing:
        """The inverse of `to_dict`."""
        tuples: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        return cls(**tuples)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values.

        >>> Preprocessing((8, 8), (8, 8), "squash").to_dict()["size"]
        [8, 8]
        """
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()
        }


def _centre(image: Image.Image, size: tuple[int, int], around: tuple[int, int, int]) -> Image.Image:
    """The centre of this (height, width); what is missing at the sides gets the colour `around`."""
    height, width = size
    centre = Image.new("RGB", (width, height), around)
    centre.paste(image, (-_beginning(image.width, width), -_beginning(image.height, height)))
    return centre


def _beginning(has: int, seen: int) -> int:
    """Where the centre of `seen` pixels begins along a side: before its first, if it has fewer.

    >>> _beginning(36, 32), _beginning(32, 36)
    (2, -2)
    """
    return round((has - seen) / 2) if has >= seen else -((seen - has) // 2)
