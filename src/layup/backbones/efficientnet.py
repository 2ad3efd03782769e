"""EfficientNet-Lite0 in plain PyTorch: the network that comes with the installation.

It has the modules, the names and, to the bit, the values of timm's `tf_efficientnet_lite0`. It is here so
that a photo is predicted without waiting for timm and torchvision, which take longer to import than PyTorch.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

STEM, HEAD = 32, 1280
STAGES = (  # blocks, kernel size, stride of the first block, expansion, width
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
ROUNDING = 1e-3  # what its batch norms add to the variance


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """How many zeros TensorFlow's "same" padding adds to a side of this size, at both ends together.

    >>> same_padding(160, kernel=3, stride=2), same_padding(5, kernel=5, stride=1)
    (1, 4)
    """
    return max((math.ceil(size / stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)


class SameConv2d(nn.Conv2d):
    """A convolution that pads by the size of its input; the odd zero comes last, as in TensorFlow."""

    def forward(self, maps: Tensor) -> Tensor:
        """(B, C, H, W) → (B, C', ⌈H / stride⌉, ⌈W / stride⌉)."""
        sides = zip(maps.shape[-2:], self.kernel_size, self.stride, self.dilation, strict=True)
        high, wide = (same_padding(*side) for side in sides)
        padded = functional.pad(maps, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
        return super().forward(padded)


class BatchNormAct2d(nn.BatchNorm2d):
    """A batch norm and, unless it is `linear`, ReLU6."""

    def __init__(self, channels: int, *, linear: bool = False, **where: Any) -> None:
        super().__init__(channels, eps=ROUNDING, **where)
        self.act = nn.Identity() if linear else nn.ReLU6(inplace=True)

    def forward(self, maps: Tensor) -> Tensor:
        """(B, C, H, W) → (B, C, H, W)."""
        activated: Tensor = self.act(super().forward(maps))
        return activated


def _convolution(inside: int, outside: int, kernel: int = 1, stride: int = 1, **how: Any) -> nn.Conv2d:
    if stride > 1:
        return SameConv2d(inside, outside, kernel, stride, bias=False, **how)
    return nn.Conv2d(inside, outside, kernel, padding=kernel // 2, bias=False, **how)


class DepthwiseSeparable(nn.Module):
    """A convolution of each channel by itself, and one across channels."""

    def __init__(self, inside: int, outside: int, kernel: int, **where: Any) -> None:
        super().__init__()
        self.conv_dw = _convolution(inside, inside, kernel, groups=inside, **where)
        self.bn1 = BatchNormAct2d(inside, **where)
        self.conv_pw = _convolution(inside, outside, **where)
        self.bn2 = BatchNormAct2d(outside, linear=True, **where)

    def forward(self, maps: Tensor) -> Tensor:
        """(B, C, H, W) → (B, C', H, W)."""
        deep = self.bn1(self.conv_dw(maps))
        narrow: Tensor = self.bn2(self.conv_pw(deep))
        return narrow


class InvertedResidual(nn.Module):
    """Wider, each channel by itself, and narrow again; plus the input, if it has the same shape."""

    def __init__(
        self, inside: int, outside: int, kernel: int, stride: int, expansion: int, **where: Any
    ) -> None:
        super().__init__()
        wide = inside * expansion
        self.residual = stride == 1 and inside == outside
        self.conv_pw = _convolution(inside, wide, **where)
        self.bn1 = BatchNormAct2d(wide, **where)
        self.conv_dw = _convolution(wide, wide, kernel, stride, groups=wide, **where)
        self.bn2 = BatchNormAct2d(wide, **where)
        self.conv_pwl = _convolution(wide, outside, **where)
        self.bn3 = BatchNormAct2d(outside, linear=True, **where)

    def forward(self, maps: Tensor) -> Tensor:
        """(B, C, H, W) → (B, C', H / stride, W / stride)."""
        wide = self.bn2(self.conv_dw(self.bn1(self.conv_pw(maps))))
        narrow: Tensor = self.bn3(self.conv_pwl(wide))
        return narrow + maps if self.residual else narrow


class EfficientNetLite0(nn.Module):
    """Images in, scores of `classes` classes out; the embedding, if there are none.

    >>> import torch
    >>> EfficientNetLite0(classes=0)(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 1280])
    """

    def __init__(self, classes: int, **where: Any) -> None:
        super().__init__()
        self.conv_stem = _convolution(3, STEM, 3, 2, **where)
        self.bn1 = BatchNormAct2d(STEM, **where)
        stages, width = [], STEM
        for number, kernel, stride, expansion, outside in STAGES:
            blocks: list[nn.Module] = []
            for index in range(number):
                inside = outside if index else width
                if expansion == 1:
                    blocks.append(DepthwiseSeparable(inside, outside, kernel, **where))
                else:
                    step = 1 if index else stride
                    blocks.append(InvertedResidual(inside, outside, kernel, step, expansion, **where))
            stages.append(nn.Sequential(*blocks))
            width = outside
        self.blocks = nn.Sequential(*stages)
        self.conv_head = _convolution(width, HEAD, **where)
        self.bn2 = BatchNormAct2d(HEAD, **where)
        self.global_pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1))
        self.classifier = nn.Linear(HEAD, classes, **where) if classes else nn.Identity()

    @property
    def block_names(self) -> list[str]:
        """The names of its blocks, shallow to deep."""
        numbers = enumerate(number for number, *_ in STAGES)
        return [f"blocks.{stage}.{block}" for stage, number in numbers for block in range(number)]

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) → (B, classes), or (B, 1280)."""
        maps = self.blocks(self.bn1(self.conv_stem(images)))
        embedding = self.global_pool(self.bn2(self.conv_head(maps)))
        scores: Tensor = self.classifier(embedding)
        return scores
