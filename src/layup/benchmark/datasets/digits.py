"""Scikit-learn's handwritten digits, and the same digits in five styles: always there, offline."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from layup.benchmark.datasets.dataset import Contents, Part
from layup.benchmark.datasets.source import Source

CLASSES = tuple("0123456789")
TRAIN_SHARE = 0.6
SIZE = 32
"""Pixels per side of a digit in some style."""

Pixels: TypeAlias = NDArray[np.uint8]
Values: TypeAlias = NDArray[np.int64]

# Whole numbers everywhere: every machine makes the same pixels, and so the same fingerprint.
INKS = ((255, 70, 70), (255, 215, 0), (90, 255, 90), (60, 225, 255), (255, 130, 255))
GROUNDS = ((100, 0, 0), (0, 75, 0), (0, 0, 135), (85, 0, 100), (0, 75, 85))
PAPER_AND_INK = ((20, 20, 60), (244, 236, 214))
NOISE = 150
"""The brightest speck of a speckled background; the digit itself goes up to 255."""


class Digits(NamedTuple):
    """One half of the digits: 8 × 8 greys, their classes, and their numbers in scikit-learn's list."""

    images: list[Pixels]
    labels: list[str]
    numbers: list[int]


def split_digits() -> tuple[Digits, Digits]:
    """The 1,797 digits, 60 % of each class for training: always the same ones."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)  # 8 × 8 pixels of 17 greys
    numbers = np.arange(len(images))
    train, test = train_test_split(numbers, train_size=TRAIN_SHARE, stratify=digits.target, random_state=0)
    first, second = (
        Digits(list(images[half]), [str(digit) for digit in digits.target[half]], half.tolist())
        for half in (train, test)
    )
    return first, second


def _plain() -> Contents:
    train, test = (Part(half.images, half.labels) for half in split_digits())
    return Contents(CLASSES, train, test, layout="built in")


# Styles


def _enlarge(image: Pixels) -> Values:
    """8 × 8 → 32 × 32 pixels by linear interpolation, in whole numbers."""
    factor = SIZE // len(image)
    # The centre of pixel i of the large image lies between two centres of the small one, in units of 1/8.
    eighths = 2 * np.arange(SIZE) + 1 - factor
    left, share = np.divmod(eighths, 2 * factor)
    weights = np.zeros((SIZE, len(image)), np.int64)
    for column, weight in ((left, 2 * factor - share), (left + 1, share)):
        np.add.at(weights, (np.arange(SIZE), np.clip(column, 0, len(image) - 1)), weight)
    enlarged: Values = (weights @ image.astype(np.int64) @ weights.T) // (2 * factor) ** 2
    return enlarged


def _painted(grey: Values, ink: tuple[int, ...], ground: tuple[int, ...]) -> Values:
    """Ink where the digit is, ground elsewhere, a mixture at the edge."""
    painted: Values = (grey[..., None] * np.array(ink) + (255 - grey[..., None]) * np.array(ground)) // 255
    return painted


def _white_on_black(grey: Values, _: np.random.Generator) -> Values:
    return _painted(grey, (255, 255, 255), (0, 0, 0))


def _ink_on_paper(grey: Values, _: np.random.Generator) -> Values:
    return _painted(grey, *PAPER_AND_INK)


def _coloured(grey: Values, rng: np.random.Generator) -> Values:
    ink, ground = INKS[rng.integers(len(INKS))], GROUNDS[rng.integers(len(GROUNDS))]
    return _painted(grey, ink, ground)


def _speckled(grey: Values, rng: np.random.Generator) -> Values:
    specks = rng.integers(0, NOISE, (SIZE // 2, SIZE // 2, 3)).repeat(2, 0).repeat(2, 1)
    return np.maximum(_painted(grey, (255, 255, 255), (0, 0, 0)), specks)


def _outlined(grey: Values, _: np.random.Generator) -> Values:
    """A thin line around the digit, like a drawing of it."""
    inside = np.pad(grey > 100, 1)
    neighbours = [inside[1 + i : SIZE + 1 + i, 1 + j : SIZE + 1 + j] for i in (-1, 0, 1) for j in (-1, 0, 1)]
    line = np.any(neighbours, 0) & ~np.all(neighbours, 0)
    return _painted(line * np.int64(255), (40, 40, 40), (255, 255, 255))


STYLES: dict[str, Callable[[Values, np.random.Generator], Values]] = {
    "plain": _white_on_black,
    "inverted": _ink_on_paper,
    "coloured": _coloured,
    "speckled": _speckled,
    "outlined": _outlined,
}


def in_style(image: Pixels, style: str, number: int) -> Pixels:
    """A digit of 8 × 8 greys as 32 × 32 colours in a style; its number decides all that is random.

    >>> in_style(np.full((8, 8), 255, np.uint8), "inverted", 0)[0, 0]
    array([20, 20, 60], dtype=uint8)
    """
    rng = np.random.default_rng([number, list(STYLES).index(style)])
    return STYLES[style](_enlarge(image), rng).astype(np.uint8)


def _in_styles(half: Digits) -> Part:
    """Each digit in one style only, the styles in turn within each class: every style has every class."""
    seen = dict.fromkeys(CLASSES, 0)
    styles = []
    for label in half.labels:
        styles.append(list(STYLES)[seen[label] % len(STYLES)])
        seen[label] += 1
    images = [
        in_style(image, style, number)
        for image, style, number in zip(half.images, styles, half.numbers, strict=True)
    ]
    return Part(images, half.labels, styles)


def _styled() -> Contents:
    train, test = map(_in_styles, split_digits())
    return Contents(CLASSES, train, test, tuple(STYLES), layout="built in")


# Sources


def digits() -> Source:
    """Scikit-learn's digits."""
    return Source(
        name="digits",
        title="Handwritten digits",
        settings=("cil", "ocl"),
        classes=len(CLASSES),
        tasks=5,
        counts={"scikit-learn's": (1078, 719)},
        build=_plain,
    )


def digits_styles() -> Source:
    """The same digits in five styles, each digit in one of them."""
    return Source(
        name="digits-styles",
        title="Handwritten digits in styles",
        settings=("dil",),
        classes=len(CLASSES),
        tasks=len(STYLES),
        counts={"scikit-learn's": (1078, 719)},
        build=_styled,
    )
