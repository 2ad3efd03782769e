"""Something to see at once: a model that knows a few handwritten digits, and pictures to try."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PIL import Image

from layup.benchmark.datasets import load_dataset

if TYPE_CHECKING:
    from layup.serving.live import LiveModel

TAUGHT = ("0", "1", "2")
NEW = "3"
"""A digit that the demo shows, and that nobody has taught yet."""
EACH = 12
"""Pictures that are taught of each digit."""
SHOWN = 4
"""Pictures to try of each digit."""
ABOUT = (
    f"The model was taught {EACH} pictures of each of {', '.join(TAUGHT[:-1])} and {TAUGHT[-1]}, and has "
    f"never seen a {NEW}. Ask about one, say what it is, and ask about the next."
)
"""What a visitor may do with them."""
SIDE = 96
"""Pixels per side, so that a person sees something."""


@dataclass(frozen=True)
class DemoPhotos:
    """Pictures to try, by name: PNG files. about: what may be done with them."""

    pictures: Mapping[str, bytes]
    about: str = ""


def demo(live: LiveModel) -> DemoPhotos:
    """Teach a live model a few digits, and give pictures to try: of these, and of one that is new to it."""
    digits = load_dataset("digits")
    contents: list[bytes] = []
    labels: list[str] = []
    for label in TAUGHT:
        chosen = [i for i, each in enumerate(digits.train.labels) if each == label][:EACH]
        contents += [_png(digits.train.images[i]) for i in chosen]
        labels += [label] * len(chosen)
    live.teach(contents, labels)
    shown = {}
    for label in (*TAUGHT, NEW):
        chosen = [i for i, each in enumerate(digits.test.labels) if each == label][:SHOWN]
        for number, i in enumerate(chosen, start=1):
            shown[f"a-{label}-{number}.png"] = _png(digits.test.images[i])
    return DemoPhotos(shown, ABOUT)


def _png(pixels: object) -> bytes:
    """A digit as a file, enlarged without smoothing."""
    file = io.BytesIO()
    Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.NEAREST).save(file, "PNG")  # type: ignore[arg-type]
    return file.getvalue()
