"""Random changes of training images, each as the authors of some method made them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from layup.backbones import Preprocessing
from layup.registry import unknown_name

if TYPE_CHECKING:
    from torchvision.transforms import v2


@dataclass(frozen=True)
class Augmentation:
    """A random crop, flipped or not, with changed colours.

    scale: the share of the image's area that a crop has, from and to, between 3:4 and 4:3; None for a crop of
        the input size from the whole image, stretched to 300/224 of that size.
    jitter: by how much brightness, contrast, saturation and hue change at most.
    """

    about: str
    scale: tuple[float, float] | None
    jitter: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


AUGMENTATIONS = {
    "mild": Augmentation(
        "LayUP: 70 to 100 % of the image, colours by 10 %", (0.7, 1.0), (0.1, 0.1, 0.1, 0.1)
    ),
    "wide": Augmentation("RanPAC, ADAM, L2P, DualPrompt: 5 to 100 % of the image", (0.05, 1.0)),
    "standard": Augmentation("CODA-Prompt, SLCA: 8 to 100 % of the image", (0.08, 1.0)),
    "bright": Augmentation(
        "SLCA on CIFAR-100: standard, brightness by 25 %", (0.08, 1.0), (63 / 255, 0, 0, 0)
    ),
    "stretched": Augmentation("SLCA on CUB and Cars: a crop of the image stretched to 300/224", None),
}
"""By name. All flip half of the images."""


def require_augmentation(name: str) -> None:
    """Refuse a name that is not in `AUGMENTATIONS`."""
    if name not in AUGMENTATIONS:
        raise unknown_name("augmentation", name, AUGMENTATIONS)


@lru_cache
def augmented(preprocessing: Preprocessing, name: str) -> v2.Compose:
    """The preprocessing with this random augmentation. Draws from torch's own random numbers.

    >>> from PIL import Image
    >>> own = Preprocessing(size=(32, 32), resize=(36, 36))
    >>> augmented(own, "wide")(Image.new("RGB", (60, 40))).shape
    torch.Size([3, 32, 32])
    """
    import layup.compat  # noqa: F401, I001  # before torchvision
    from torchvision.transforms import InterpolationMode, v2  # here, because it takes seconds to import

    require_augmentation(name)
    chosen = AUGMENTATIONS[name]
    mode = InterpolationMode(preprocessing.interpolation)
    steps: list[Any]
    if chosen.scale is None:
        height, width = (round(side * 300 / 224) for side in preprocessing.size)
        steps = [v2.Resize((height, width), interpolation=mode), v2.RandomCrop(preprocessing.size)]
    else:
        ratio = (3 / 4, 4 / 3)
        steps = [v2.RandomResizedCrop(preprocessing.size, chosen.scale, ratio, interpolation=mode)]
    steps.append(v2.RandomHorizontalFlip())
    if any(chosen.jitter):
        steps.append(v2.ColorJitter(*chosen.jitter))
    steps += [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]
    return v2.Compose([*steps, v2.Normalize(preprocessing.mean, preprocessing.std)])
