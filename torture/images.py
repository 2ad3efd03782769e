"""Malformed images: each is a picture or a sentence, in bounded time and memory."""

from __future__ import annotations

from pathlib import Path
from random import Random

from layup.errors import BadImageError
from layup.images import image_digest, open_image
from torture.image_files import mutated, samples
from torture.promise import Promise, Tries, about, require, require_sentence


def usable(path: Path) -> bool:
    """Whether a file is an image to layup; whatever it is, nothing else may happen."""
    try:
        image = open_image(path)
    except BadImageError as error:
        require_sentence(error)
        return False
    require(image.mode == "RGB" and min(image.size) > 0, "an image is not RGB, or has no pixels", image)
    require(len(image.tobytes()) == 3 * image.width * image.height, "an image lacks pixels", image)
    require(len(image_digest(path)) == 32, "an image has no digest")
    return True


def prepare(folder: Path) -> Tries:
    """Small pictures of every format."""
    made = list(samples().items())

    def attempt(index: int, chance: Random, home: Path) -> None:
        name, data = made[index % len(made)]
        changed, said = mutated(name, data, chance)
        path = home / "image"
        path.write_bytes(changed)
        with about(f"{name}: {said}"):
            usable(path)

    return Tries(attempt)


PROMISE = Promise(
    "images",
    "A malformed image is a picture or a sentence: never a crash, a hang, or all of the memory.",
    100_000,
    prepare,
    seconds=30,
    # As many pixels as Pillow allows before it speaks of a bomb, twice: as decoded, and as RGB.
    megabytes=1500,
)
