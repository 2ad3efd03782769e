"""What tests of live models share: contents of photos, and models that are opened in a moment."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from layup import ImageModel, LayUP, load
from layup.serving import LiveModel
from models import picture, small_network


@cache
def photo(number: int) -> bytes:
    """The contents of a file."""
    file = io.BytesIO()
    Image.fromarray(picture(number)).save(file, "PNG")
    return file.getvalue()


def photos(numbers: Iterable[int]) -> list[bytes]:
    """Of several."""
    return [photo(number) for number in numbers]


def new_model(**options: Any) -> ImageModel:
    """A model that has learned nothing, with the default classifier."""
    return LayUP(small_network(), 2, **options)


def opened(path: Path | None, **options: Any) -> LiveModel:
    """A live model of the small network, whatever file it is in."""
    options = {"new": new_model, "loading": {"backbone": small_network()}, **options}
    return LiveModel.open(path, **options)


def reloaded(path: Path) -> ImageModel:
    """The model in a file and its journal."""
    return load(path, backbone=small_network())


def wait_until(holds: Callable[[], bool]) -> None:
    """Until it holds what other threads are about to do."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
