"""Rows whose values are rounded to steps, so that their sums are exact (`layup.algebra.steps`).

The step of a layer is 2⁻⁷ of the size of its values, as a power of two. Their size, the root mean square, is
measured once on a few pictures that are made here from whole numbers: so it belongs to the network, and not
to anybody's photos. It is kept in the file of a model. docs/exact.md has what rounding costs: nothing that
could be measured.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from PIL import Image

from layup.algebra import Steps
from layup.backbones import Backbone
from layup.features.extract import FeatureSource, Rows
from layup.features.sources import MappedRows

FINENESS = 7
"""A step is 2⁻⁷ of the size of a layer's values: fine enough for accuracy, with room for 10⁸ images."""
PICTURES = 8
SIDE = 224
CONTRAST = 64


def pictures() -> list[Image.Image]:
    """Clouds of colour: squares of every size, the smaller the fainter, as in photos.

    >>> [first, *_] = pictures()
    >>> first.size, first.getpixel((0, 0)) == pictures()[0].getpixel((0, 0))
    ((224, 224), True)
    """
    draw = np.random.RandomState(0)  # its numbers are promised to stay the same in all versions
    found = []
    for _ in range(PICTURES):
        clouds = np.zeros((SIDE, SIDE, 3), np.int64)
        cells = 2
        while cells <= SIDE // 2:
            side = -(-SIDE // cells)
            colour, grey = (draw.randint(-(2**16), 2**16, (cells, cells, depth)) for depth in (3, 1))
            squares = (colour // 2 + grey) * 2 // cells
            clouds += squares.repeat(side, axis=0).repeat(side, axis=1)[:SIDE, :SIDE]
            cells *= 2
        levels = (128 + clouds * CONTRAST // 2**16).clip(0, 255)
        found.append(Image.fromarray(levels.astype(np.uint8)))
    return found


_MEASURED: dict[tuple[str, ...], dict[str, int]] = {}
"""By network and layers."""


def measured_steps(source: FeatureSource, backbone: Backbone) -> dict[str, int]:
    """The step of each layer of a source that reads this backbone, by its exponent. Costs eight passes, once.

    >>> from layup.backbones import load_backbone
    >>> from layup.features import Extractor, NoCache
    >>> nano = load_backbone("vit-nano")
    >>> measured_steps(Extractor(nano, ["blocks.11"], cache=NoCache()), nano)
    {'blocks.11': -5}
    """
    key = (backbone.features_key, *source.layers)
    if key not in _MEASURED:
        _MEASURED[key] = _measured(source, backbone)
    return _MEASURED[key]


def _measured(source: FeatureSource, backbone: Backbone) -> dict[str, int]:
    pixels = torch.stack([backbone.preprocess(picture) for picture in pictures()])
    rows = source.rows_of(pixels).astype(np.float64)
    layers = np.split(rows, np.cumsum([*source.layers.values()])[:-1], axis=1)
    return {
        name: _exponent(float(np.sqrt((layer**2).mean())))
        for name, layer in zip(source.layers, layers, strict=True)
    }


def _exponent(size: float) -> int:
    """The exponent of the step for values of this size; any will do where all of them are zero.

    >>> _exponent(1.0), _exponent(100.0), _exponent(0.0)
    (-7, 0, -7)
    """
    return round(np.log2(size)) - FINENESS if size > 0 else -FINENESS


class RoundedRows(MappedRows):
    """The rows of another source, every value as the nearest multiple of the step of its layer.

    >>> from PIL import Image
    >>> from layup.backbones import load_backbone
    >>> from layup.features import Extractor, NoCache
    >>> source = Extractor(load_backbone("vit-nano"), ["blocks.11"], cache=NoCache())
    >>> rows = RoundedRows(source, {"blocks.11": -5}).extract([Image.new("RGB", (64, 64))]).rows
    >>> bool((rows * 2**5 == np.rint(rows * 2**5)).all())
    True
    """

    def __init__(self, source: FeatureSource, steps: Mapping[str, int]) -> None:
        self.source = source
        self.layers = source.layers
        self._steps = Steps(self.layers, steps)
        self.steps = self._steps.exponents

    @property
    def unrounded(self) -> FeatureSource:
        """The other source."""
        return self.source

    def mapped(self, rows: Rows) -> Rows:
        """Every value rounded."""
        return self._steps.nearest(rows)
