"""A method, a dataset, an adapter and a backbone of somebody else: see docs/extending.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from layup import Backbone, Preprocessing, storage
from layup.adapters import Adapter
from layup.benchmark.datasets import Contents, Part, Source
from layup.benchmark.methods import ONLY, Learner, Method, Report, Setup
from layup.images import ImageSource, open_image

# A method: a class that begins and resumes learners.


class Thumbnails(Learner):
    """The nearest mean of pictures of 8 × 8 pixels."""

    def __init__(self) -> None:
        self.sums: dict[str, NDArray[Any]] = {}
        self.counts: dict[str, int] = {}

    def learn(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Add the pixels of every image to the sum of its class; a bad image ends it before."""
        for row, label in zip([pixels(image) for image in images], labels, strict=True):
            self.sums[label] = self.sums.get(label, 0) + row
            self.counts[label] = self.counts.get(label, 0) + 1

    def predict(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """The class whose mean is nearest."""
        means = {label: self.sums[label] / self.counts[label] for label in sorted(self.sums)}
        rows = [pixels(image) for image in images]
        return {ONLY: [min(means, key=lambda label: np.sum((means[label] - row) ** 2)) for row in rows]}

    def reports(self) -> dict[str, Report]:
        """Nothing is chosen; a sum of pixels per class is kept."""
        return {ONLY: Report({}, sum(row.nbytes for row in self.sums.values()))}

    def save(self, path: Path) -> None:
        """Write sums and counts."""
        storage.write(path, "thumbnails", {"counts": self.counts}, self.sums)


def pixels(image: ImageSource) -> NDArray[Any]:
    """An image as 8 × 8 colours."""
    return np.asarray(open_image(image).resize((8, 8)), float)


@dataclass(frozen=True)
class ThumbnailsMethod(Method):
    """The nearest thumbnail.

    Keeps: 192 values of 8 bytes per class, and a count.
    Costs: nothing worth mentioning.
    Needs: no network, though it is given one.
    """

    name: ClassVar[str] = "thumbnails"

    def begin(self, setup: Setup) -> Learner:
        """A learner that knows nothing yet."""
        return Thumbnails()

    def resume(self, setup: Setup, path: Path) -> Learner:
        """The learner that was saved."""
        learner = Thumbnails()
        header, learner.sums = storage.read(path, "thumbnails")
        learner.counts = header["counts"]
        return learner


# A dataset: a function that gives its facts; nothing is read before `build` is called.

CLASSES = ("across", "down", "dots", "plain")


def stripes() -> Source:
    """Stripes across and down, dots, and plain greys, of 16 × 16 pixels."""
    return Source("stripes", "Stripes and dots", ("cil", "ocl"), len(CLASSES), tasks=2, build=_build)


def _build() -> Contents:
    train, test = (_part(count, seed) for seed, count in enumerate((12, 6)))
    return Contents(CLASSES, train, test, layout="built in")


def _part(count: int, seed: int) -> Part:
    rng = np.random.default_rng(seed)
    labels = [label for label in CLASSES for _ in range(count)]
    return Part([_drawn(label, rng) for label in labels], labels)


def _drawn(label: str, rng: np.random.Generator) -> NDArray[np.uint8]:
    rows, columns = np.indices((16, 16)) // 4 % 2
    shape = {"across": rows, "down": columns, "dots": rows * columns, "plain": np.ones((16, 16))}[label]
    return (shape * rng.integers(100, 200) + rng.integers(0, 50, (16, 16))).astype(np.uint8)


# An adapter: what of a network is tuned in the first session.


@dataclass(frozen=True)
class Biases(Adapter):
    """The biases of all linear layers (BitFit)."""

    name: ClassVar[str] = "biases"
    shares_weights: ClassVar[bool] = False  # biases are the network's own weights

    def attach(self, network: nn.Module) -> None:
        """Let the biases have a gradient. Where there are none, layup says so."""
        for module in network.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.requires_grad_(True)


# A backbone: a function that makes a network and says which of its layers are read.


def small_conv(*, input_size: tuple[int, int] | None = None, device: torch.device | None = None) -> Backbone:
    """Three convolutions that nobody has trained."""
    size = input_size or (16, 16)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [(nn.Conv2d(a, b, 3, padding=1), nn.ReLU()) for a, b in ((3, 8), (8, 16), (16, 32))]
    network = nn.Sequential(*(module for pair in layers for module in pair))
    return Backbone.from_module(network, ["1", "3", "5"], Preprocessing(size, size, "squash"), device=device)
