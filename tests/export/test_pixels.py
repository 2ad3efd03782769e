"""Pixels as tensor operations are what Pillow makes, for images of any size."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image

from layup import Preprocessing
from layup.errors import InputError
from layup.export import Pixels
from layup.export.graph import OPSET

SIZES = [(64, 64), (80, 60), (77, 150), (301, 77), (20, 31), (1, 1), (224, 224), (640, 481)]
"""No higher than twice their width: higher ones, and squashed ones that are higher than wide, are
resized along columns first, from Pillow 13 on."""


def image(width: int, height: int) -> Image.Image:
    """Noise over a ramp: both sharp edges and slow changes."""
    rng = np.random.default_rng(width * 1000 + height)
    ramp = np.linspace(0, 255, width)[None, :, None] * np.ones((height, 1, 3))
    noise = rng.integers(0, 256, (height, width, 3))
    return Image.fromarray(np.where(rng.random((height, width, 1)) < 0.5, ramp, noise).astype(np.uint8))


def exported(module: Pixels) -> Any:
    file = io.BytesIO()
    images = torch.zeros(2, 96, 97, 3, dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (images,),
            file,
            dynamo=False,
            opset_version=OPSET,
            input_names=["images"],
            dynamic_axes={"images": {0: "batch", 1: "height", 2: "width"}},
        )
    return onnxruntime.InferenceSession(file.getvalue())


@pytest.mark.parametrize(
    "preprocessing",
    [
        Preprocessing((64, 64), (72, 72), "center", "bicubic"),
        Preprocessing((64, 64), (64, 64), "center", "bilinear"),
        Preprocessing((48, 64), (60, 70), "center", "bicubic"),
        Preprocessing((64, 64), (64, 64), "squash", "lanczos"),
        Preprocessing((64, 64), (64, 64), "border", "bicubic", (0.4, 0.5, 0.6)),
        Preprocessing((64, 80), (70, 70), "border", "hamming"),
        Preprocessing((80, 64), (60, 60), "center", "box"),
    ],
    ids=lambda each: f"{each.crop}-{each.interpolation}-{each.resize}",
)
def test_pixels_are_those_of_pillow(preprocessing: Preprocessing) -> None:
    """Those of the module, and those of its graph, which ONNX Runtime computes."""
    module = Pixels(preprocessing)
    graph = exported(module)
    for size in SIZES:
        photo = image(*size)
        if preprocessing.crop == "squash" and photo.height > photo.width:
            continue
        expected = preprocessing.transform(photo)
        pixels = np.array(photo)[None]
        given = module(torch.from_numpy(pixels))[0]
        np.testing.assert_allclose(given, expected, rtol=0, atol=1e-6, err_msg=str(size))
        (found,) = graph.run(None, {"images": pixels})[0]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6, err_msg=str(size))


def test_a_way_to_resize_that_is_not_one_of_weights_is_refused() -> None:
    with pytest.raises(InputError, match="resized with 'nearest' cannot be exported"):
        Pixels(Preprocessing((8, 8), (8, 8), interpolation="nearest"))
