"""From decoded pixels of any size to what a network reads, as tensor operations that ONNX has.

Pillow resizes in two passes, along rows and then along columns, and rounds to whole levels after each. A pass
is a product with a matrix of weights that follows from the two lengths alone, so a graph can make the matrix
itself and give exactly what Pillow gives, which ONNX's own Resize does not. Only the rows of the matrix that
end in the centre are made. Weights are whole multiples of 2⁻²², so float64 has every sum of products.

Pillow 13 may go along columns first if a photo is more than twice as high as wide, or is squashed and 1.3
times as high: of such photos, pixels differ by a level here and there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from layup.backbones import Preprocessing
from layup.errors import InputError

FIXED_POINT = 2.0**22
"""Pillow's weights are whole multiples of one over this."""
LEVELS = 255.0


def _triangle(z: Tensor) -> Tensor:
    return (1 - z).clamp(min=0)


def _cubic(z: Tensor) -> Tensor:
    near = (1.5 * z - 2.5) * z * z + 1
    far = -0.5 * (((z - 5) * z + 8) * z - 4)
    return torch.where(z < 1, near, torch.where(z < 2, far, 0.0))


def _sinc(z: Tensor) -> Tensor:
    turned = torch.pi * torch.where(z == 0, 1.0, z)
    return torch.where(z == 0, 1.0, torch.sin(turned) / turned)


def _lanczos(z: Tensor) -> Tensor:
    return torch.where(z < 3, _sinc(z) * _sinc(z / 3), 0.0)


def _hamming(z: Tensor) -> Tensor:
    return torch.where(z < 1, _sinc(z) * (0.54 + 0.46 * torch.cos(torch.pi * z)), 0.0)


def _box(z: Tensor) -> Tensor:
    return torch.where(z <= 0.5, 1.0, 0.0)


FILTERS: dict[str, tuple[float, Callable[[Tensor], Tensor]]] = {
    "bilinear": (1.0, _triangle),
    "bicubic": (2.0, _cubic),
    "box": (0.5, _box),
    "hamming": (1.0, _hamming),
    "lanczos": (3.0, _lanczos),
}
"""How far each reaches, and its weight at a distance: as in Pillow."""


class Pixels(nn.Module):
    """Images (N, height, width, 3) of whole levels, all of one size, to what `Preprocessing` makes of them.

    >>> import numpy as np
    >>> from PIL import Image
    >>> preprocessing = Preprocessing(size=(32, 32), resize=(36, 36), crop="center")
    >>> image = Image.effect_mandelbrot((60, 40), (-2, -1, 1, 1), 90).convert("RGB")
    >>> pixels = Pixels(preprocessing)(torch.from_numpy(np.array(image))[None])
    >>> bool(((pixels[0] - preprocessing.transform(image)).abs() < 1e-6).all())
    True
    """

    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__()
        if preprocessing.interpolation not in FILTERS:
            raise InputError(
                f"Images that are resized with {preprocessing.interpolation!r} cannot be exported. "
                f"Use a network with one of {', '.join(FILTERS)}."
            )
        self.how = preprocessing
        self.reach, self.filter = FILTERS[preprocessing.interpolation]
        around = [round(LEVELS * value) for value in preprocessing.mean]
        self.around = around if preprocessing.crop == "border" else [0, 0, 0]

    def forward(self, images: Tensor) -> Tensor:
        """(N, height, width, 3) → (N, 3, height, width) of the network's size, normalised."""
        # As lists of one: with single numbers the exporter of PyTorch computes in float32.
        height, width = (torch.as_tensor(images.shape[i]).reshape(1) for i in (1, 2))
        tall, wide = self._resized(height, width)
        rows, seen_rows = self._weights(height, tall, self.how.size[0])
        columns, seen_columns = self._weights(width, wide, self.how.size[1])
        planes = images.permute(0, 3, 1, 2).double()
        levels = _whole(rows @ _whole(planes @ columns.transpose(0, 1))).to(torch.float32)
        if self._may_be_padded:
            outside = 1 - seen_rows[:, None] * seen_columns[None]
            levels = levels + outside * torch.tensor(self.around, dtype=torch.float32)[:, None, None]
        mean, std = (torch.tensor(values, dtype=torch.float32) for values in (self.how.mean, self.how.std))
        return (levels * (1 / LEVELS) - mean[:, None, None]) / std[:, None, None]

    @property
    def _may_be_padded(self) -> bool:
        return self.how.crop == "border" or any(
            resized < seen for resized, seen in zip(self.how.resize, self.how.size, strict=True)
        )

    def _resized(self, height: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
        """The height and width of the image before its centre is taken: see `Preprocessing`."""
        tall, wide = self.how.resize
        if self.how.crop == "squash":
            return torch.tensor([tall]), torch.tensor([wide])
        if self.how.crop == "center" and tall == wide:
            short, long = torch.minimum(height, width), torch.maximum(height, width)
            longer = torch.div(tall * long, short, rounding_mode="floor")
            upright = width <= height
            return torch.where(upright, longer, tall), torch.where(upright, tall, longer)
        high, broad = height.double() / tall, width.double() / wide
        ratio = torch.maximum(high, broad) if self.how.crop == "border" else torch.minimum(high, broad)
        return (height.double() / ratio).round().long(), (width.double() / ratio).round().long()

    def _weights(self, has: Tensor, becomes: Tensor, seen: int) -> tuple[Tensor, Tensor]:
        """What each of `seen` pixels takes of the `has` along a side; and 0 where it is beyond the image."""
        over = becomes - seen
        half = torch.div(seen - becomes, 2, rounding_mode="floor")
        begin = torch.where(over >= 0, (over.double() / 2).round(), -half.double())
        out = torch.arange(seen, dtype=torch.float64) + begin
        scale = has.double() / becomes.double()
        wider = scale.clamp(min=1.0)
        centre = ((out + 0.5) * scale)[:, None]
        first = (centre - self.reach * wider + 0.5).floor().clamp(min=0.0)
        last = torch.minimum((centre + self.reach * wider + 0.5).floor(), has.double())
        at = torch.arange(has[0], dtype=torch.float64)[None]  # type: ignore[call-overload]  # of a traced size
        weights = self.filter(((at - centre + 0.5) * (1 / wider)).abs())
        weights = torch.where((at >= first) & (at < last), weights, 0.0)
        total = weights.sum(dim=1, keepdim=True)
        weights = weights / torch.where(total == 0, 1.0, total)
        fixed = weights.sign() * (weights.abs() * FIXED_POINT + 0.5).floor() / FIXED_POINT
        inside = ((out >= 0) & (out < becomes)).double()
        return fixed * inside[:, None], inside.to(torch.float32)


def _whole(levels: Tensor) -> Tensor:
    """Rounded to whole levels, half of one up, as Pillow does."""
    return (levels + 0.5).floor().clamp(0.0, LEVELS)
