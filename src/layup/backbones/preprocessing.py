"""From an image to the numbers that a network was trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any, Literal, get_args

import torch
from timm.data.config import resolve_data_config
from timm.data.transforms import CenterCropOrPad, ResizeKeepRatio
from torchvision.transforms import InterpolationMode, v2

from layup.errors import InputError

Crop = Literal["center", "squash", "border"]


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
        modes = [mode.value for mode in InterpolationMode]
        if self.interpolation not in modes:
            raise InputError(f"Unknown interpolation {self.interpolation!r}. Known: {', '.join(modes)}.")
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

    @cached_property
    def transform(self) -> v2.Compose:
        """PIL image (RGB) → float32 tensor (3, height, width)."""
        mode = InterpolationMode(self.interpolation)
        keep_ratio: Any = partial(ResizeKeepRatio, self.resize, interpolation=self.interpolation)
        steps: list[Any]
        if self.crop == "squash":
            steps = [v2.Resize(self.resize, mode), v2.CenterCrop(self.size)]
        elif self.crop == "border":
            red, green, blue = (round(255 * value) for value in self.mean)
            steps = [keep_ratio(longest=1.0), CenterCropOrPad(list(self.size), fill=(red, green, blue))]
        elif self.resize[0] == self.resize[1]:
            steps = [v2.Resize(self.resize[0], mode), v2.CenterCrop(self.size)]
        else:
            steps = [keep_ratio(), v2.CenterCrop(self.size)]
        return v2.Compose(steps + self._to_numbers)

    @cached_property
    def augmentation(self) -> v2.Compose:
        """The same with random augmentation, for training: the paper's crops, flips and colours.

        A crop of 70 to 100 % of the image, between 3:4 and 4:3, flipped or not, with brightness, contrast,
        saturation and hue changed by up to 10 %. Draws from torch's own random numbers.
        """
        mode = InterpolationMode(self.interpolation)
        crop = v2.RandomResizedCrop(self.size, scale=(0.7, 1.0), ratio=(3 / 4, 4 / 3), interpolation=mode)
        steps: list[Any] = [crop, v2.RandomHorizontalFlip(), v2.ColorJitter(0.1, 0.1, 0.1, 0.1)]
        return v2.Compose(steps + self._to_numbers)

    @property
    def _to_numbers(self) -> list[Any]:
        return [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(self.mean, self.std)]

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
