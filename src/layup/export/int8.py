"""A graph whose network computes in whole numbers from −128 to 127: smaller, maybe faster, less exact.

Only the network is: pixels are made and features scored as before. Weights are rounded per channel. The range
of each activation is measured on photos, which should be like those to come; a few dozen are enough.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from layup.errors import BadImageError, InputError
from layup.export.about import KEY, About
from layup.export.onnx_model import pixels
from layup.images import ImageSource

NETWORK = "/features/network/"
"""How the names of the network's own nodes begin."""
OPERATIONS = ("Conv", "MatMul", "Gemm")
ENOUGH = 64
"""So many photos measure the ranges, at most."""


class _Measured:
    """Photos one by one, as the measuring of ranges takes them."""

    def __init__(self, photos: Sequence[ImageSource]) -> None:
        self._given: Iterator[Any] = (found for found in map(_usable, photos) if found is not None)

    def get_next(self) -> dict[str, Any] | None:
        """The next one; None at the end."""
        found = next(self._given, None)
        return None if found is None else {"images": found}


def in_int8(graph: bytes, photos: Sequence[ImageSource]) -> bytes:
    """The same ONNX file in int8, with ranges measured on photos: evenly taken, at most `ENOUGH` of them."""
    import onnx
    from onnxruntime import quantization

    count = min(ENOUGH, len(photos))
    few = [photos[number * len(photos) // count] for number in range(count)]
    if not any(_usable(photo) is not None for photo in few):
        raise InputError("int8 needs photos to measure ranges on, and none of these can be used.")
    model = onnx.load_from_string(graph)
    nodes = [
        node.name for node in model.graph.node if node.op_type in OPERATIONS and node.name.startswith(NETWORK)
    ]
    with tempfile.TemporaryDirectory() as folder, _advice_unsaid():
        small = Path(folder, "int8.onnx")
        quantization.quantize_static(
            model,
            small,
            _Measured(few),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            nodes_to_quantize=nodes,
        )
        made = onnx.load(small)
    said = {each.key: each.value for each in model.metadata_props}
    about = replace(About.from_json(said[KEY]), precision="int8")
    onnx.helper.set_model_props(made, {KEY: about.to_json()})
    return bytes(made.SerializeToString())


@contextmanager
def _advice_unsaid() -> Iterator[None]:
    """The quantizer advises by the root logger, which would print that, and whatever comes after it."""
    root, nowhere = logging.getLogger(), logging.NullHandler()
    root.addHandler(nowhere)
    try:
        yield
    finally:
        root.removeHandler(nowhere)


def _usable(photo: ImageSource) -> Any:
    """Its pixels; None if it cannot be used."""
    try:
        return pixels(photo)
    except BadImageError:
        return None
