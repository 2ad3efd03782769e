"""Small real images for tests: scikit-learn's digits, and crops of its photos."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_sample_image

from layup import GramStatistics, LayUP, load, storage


@cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    loaded = load_digits()
    return np.round(loaded.images * (255 / 16)).astype(np.uint8), loaded.target


def digits(digit: int, count: int, start: int = 0) -> list[np.ndarray]:
    """Some of about 180 images of one digit: grey, 8 × 8."""
    images, target = _digits()
    chosen = images[target == digit][start : start + count]
    assert len(chosen) == count
    return list(chosen)


def batch(digit_counts: Mapping[int, int], start: int = 0) -> tuple[list[np.ndarray], list[str]]:
    """Images and labels, the classes in turn, as those of a shuffled folder."""
    columns = {digit: digits(digit, count, start) for digit, count in digit_counts.items()}
    rows = range(max(digit_counts.values()))
    pairs = [(column[i], name(digit)) for i in rows for digit, column in columns.items() if i < len(column)]
    return [image for image, _ in pairs], [label for _, label in pairs]


def name(digit: int) -> str:
    return f"digit {digit}"


def write_photos(folder: Path, digit_counts: Mapping[int, int], start: int = 0) -> Path:
    """FOLDER/digit 3/007.png, …"""
    for digit, count in digit_counts.items():
        home = folder / name(digit)
        home.mkdir(parents=True, exist_ok=True)
        for i, image in enumerate(digits(digit, count, start), start=start):
            Image.fromarray(image).save(home / f"{i:03}.png")
    return folder


def sums_of(folder: Path | str) -> GramStatistics:
    """What a model holds that has learned a folder once."""
    model = LayUP("vit-nano", lam=1.0)
    paths = sorted(Path(folder).rglob("*.png"))
    model.learn(paths, [path.parent.name for path in paths])
    return model.statistics_


def require_same_sums(model: Path | str, expected: GramStatistics) -> None:
    """Refuse a model file whose sums differ by more than the rounding of the network."""
    found = load(model).statistics_
    assert found.count_by_label() == expected.count_by_label()
    np.testing.assert_allclose(found.gram, expected.gram, rtol=0, atol=1e-6 * expected.trace)
    scale = np.abs(expected.prototypes).max()
    np.testing.assert_allclose(found.prototypes, expected.prototypes, rtol=0, atol=1e-5 * scale)


def crops(count: int, side: int = 48) -> list[np.ndarray]:
    """Squares cut out of a photo: in colour, all different."""
    photo = load_sample_image("china.jpg")
    across = photo.shape[1] // side
    places = [(i // across * side, i % across * side) for i in range(count)]
    return [photo[y : y + side, x : x + side].copy() for y, x in places]


@contextlib.contextmanager
def log_levels_kept() -> Iterator[None]:
    """The command line quiets some logs, which other tests in this process want to read."""
    kept = {
        each: logging.getLogger(each).level
        for each in ("layup", "layup.model.image_model", "layup.model.visits", "layup.features.cache")
    }
    try:
        yield
    finally:
        for each, level in kept.items():
            logging.getLogger(each).setLevel(level)


def counts_in(model: Path) -> dict[str, int]:
    """How many images of each class a model file says that it holds."""
    header = storage.read_header(model, "model")
    return dict(zip(header["labels"], header["counts"], strict=True))


def save_crops(folder: Path, count: int = 40, classes: int = 4) -> Path:
    """Different pictures as files, in turn of each class."""
    for number, image in enumerate(crops(count, side=16)):
        path = folder / f"class {number % classes}" / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return folder
