"""`layup predict MODEL -`: paths come in line by line, and each gets a line of JSON at once."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from layup.cli import console
from layup.errors import LayupError

if TYPE_CHECKING:
    from layup.export import OnnxModel
    from layup.model import ImagePredictor


def predict_lines(
    model: ImagePredictor | OnnxModel, details: console.PredictionDetails, allow_addresses: bool
) -> None:
    """Read standard input to its end. Who reads what is printed may leave at any time."""
    found = model.predictions([])  # loads the network: an error of its own is not one of the first line
    if details.coverage is not None:
        found.sets(details.coverage)  # so is a model that cannot give sets
    try:
        for line in sys.stdin.buffer:
            if line.strip():
                path = os.fsdecode(line.rstrip(b"\r\n"))
                console.print_json(_predicted(model, path, details, allow_addresses), indent=None)
                sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _predicted(
    model: ImagePredictor | OnnxModel, path: str, details: console.PredictionDetails, allow_addresses: bool
) -> dict[str, Any]:
    """The prediction for a photo, or why there is none."""
    from layup.images import located

    try:
        found = model.predictions([located(path, allow_addresses)])
    except LayupError as error:
        return {"path": path, "error": str(error)}
    if found.bad:
        return {"path": path, "error": found.bad[0].reason}
    return next(console.prediction_rows([path], found, details))
