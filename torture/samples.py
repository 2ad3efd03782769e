"""Small networks, pictures and models, to be saved, killed and mutated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from layup import NMC, Backbone, FirstSession, LayNMC, LayUP, Preprocessing
from layup.algebra import ClassCovariancesClassifier, DiscriminantClassifier
from layup.features import Embedding, Fourier, Normalised
from layup.model import ImageModel
from layup.seeds import seed_of, seeded

SIDE = 8
Pixels = NDArray[np.uint8]


@cache
def tiny() -> Backbone:
    """A network of two layers, 6 and 8 values wide, that takes next to no time."""
    with seeded("tiny"):
        network = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.Conv2d(6, 8, 3))
    return Backbone.from_module(network, ["1", "2"], Preprocessing((SIDE, SIDE), (SIDE, SIDE), "squash"))


def picture(*key: int | str) -> Pixels:
    """A picture of noise that follows from a key: no two are alike."""
    rng = np.random.default_rng(seed_of("picture", *key))
    return rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)


def batch(name: str, counts: Mapping[str, int]) -> tuple[list[Pixels], list[str]]:
    """So many pictures of each class; another name, other pictures."""
    labels = [label for label, count in counts.items() for _ in range(count)]
    return [picture(name, label, i) for i, label in enumerate(labels)], labels


def photos(folder: Path, name: str, counts: Mapping[str, int]) -> Path:
    """The same pictures as files: FOLDER/name/class/3.png."""
    for i, (pixels, label) in enumerate(zip(*batch(name, counts), strict=True)):
        home = folder / name / label
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(home / f"{i}.png")
    return folder / name


def session() -> FirstSession:
    """The shortest adaptation that writes a checkpoint after each of its two epochs."""
    return FirstSession("vpt", epochs=2, patience=None, batch_size=4)


def _like_layup(**options: Any) -> ImageModel:
    plain = LayUP(tiny(), lam=1.0)
    return ImageModel(plain.features, plain.classifier, backbone=tiny(), cache=False, **options)


MODELS: dict[str, Callable[[], ImageModel]] = {
    "layup": lambda: LayUP(tiny(), lam=1.0, cache=False),
    "searched": lambda: LayUP(tiny(), cache=False),
    "float32": lambda: LayUP(tiny(), lam="gcv", precision="float32", cache=False),
    "nano": lambda: LayUP("vit-nano", k=1, lam=1.0, cache=False),
    "adapted": lambda: LayUP("vit-nano", k=1, lam=1.0, adapter=session(), cache=False),
    "rooted": lambda: _like_layup(per_class=True),
    "anonymous": lambda: _like_layup(anonymous=True),
    "nmc": lambda: NMC(tiny(), cache=False),
    "laynmc": lambda: LayNMC(tiny(), metric="euclidean", cache=False),
    "discriminant": lambda: ImageModel(
        Fourier(Normalised(Embedding()), 9), DiscriminantClassifier("oas"), backbone=tiny(), cache=False
    ),
    "covariances": lambda: ImageModel(
        Normalised(Embedding()), ClassCovariancesClassifier(), backbone=tiny(), cache=False
    ),
}
"""A model of every kind, before it has learned anything."""


def saved(folder: Path, name: str) -> Path:
    """The file of one of them that has learned two batches."""
    model, path = MODELS[name](), folder / f"{name}.layup"
    model.learn(*batch(name, {"ant": 3, "bee": 4, "cat": 2}))
    model.learn(*batch(f"{name} 2", {"bee": 1, "dog": 5}))
    model.save(path)
    return path


def backbone_for(header: Mapping[str, Any]) -> Backbone | None:
    """What has to be given again to load a sample: nothing, if its network is layup's own."""
    return tiny() if header["backbone"]["spec"] is None else None


def one_thread() -> None:
    """Many processes run at the same time, and networks are tiny."""
    torch.set_num_threads(1)
