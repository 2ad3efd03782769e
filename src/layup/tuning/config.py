"""How the first session adapts a backbone: plain values, with three presets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, TypeAlias, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from layup import sampling
from layup.adapters import ADAPTERS, AdaptedBackbone, Adapter, adapter_from, usual_adapter
from layup.backbones import Backbone, Preprocessing
from layup.errors import InputError
from layup.registry import unknown_name
from layup.seeds import seed_of
from layup.tuning.augmentation import AUGMENTATIONS

AUTO = "auto"

Optimizer = Literal["adam", "adamw", "sgd"]
Head = Literal["cosine", "learned cosine", "linear"]
Way = Literal["own", "squash", "crop", "crop224", "crop256"]
WAYS: tuple[Way, ...] = get_args(Way)
CHOICES = {
    "optimizer": get_args(Optimizer),
    "head": get_args(Head),
    "preprocessing": WAYS,
    "augmentation": tuple(AUGMENTATIONS),
}


class Values(TypedDict, total=False):
    """The values that a preset has, unless they are given."""

    optimizer: Optimizer
    learning_rate: float
    weight_decay: float
    batch_size: int
    epochs: int
    patience: int | None
    held_out: float
    head: Head
    preprocessing: Way
    augmentation: str
    trial: bool


# What users get, what the paper says, what its released code does, and what the codes of RanPAC and ADAM do.
PRESETS: dict[str, Values] = {
    "default": {
        "optimizer": "adamw",
        "learning_rate": 0.003,
        "weight_decay": 5e-4,
        "batch_size": 48,
        "epochs": 20,
        "patience": 5,
        "held_out": 0.2,
        "head": "cosine",
        "preprocessing": "own",
        "augmentation": "mild",
    },
    "paper": {
        "optimizer": "adam",
        "learning_rate": 0.03,
        "weight_decay": 0.0,
        "batch_size": 48,
        "epochs": 20,
        "patience": None,
        "held_out": 0.2,
        "head": "linear",
        "preprocessing": "squash",
        "augmentation": "mild",
    },
    "official": {
        "optimizer": "adamw",
        "learning_rate": 0.003,
        "weight_decay": 5e-4,
        "batch_size": 48,
        "epochs": 20,
        "patience": None,
        "held_out": 0.2,
        "head": "cosine",
        "preprocessing": "crop",
        "augmentation": "mild",
    },
    "ranpac": {
        "optimizer": "sgd",
        "learning_rate": 0.01,
        "weight_decay": 5e-4,
        "batch_size": 48,
        "epochs": 20,
        "patience": None,
        "held_out": 0.2,
        "head": "learned cosine",
        "preprocessing": "crop256",
        "augmentation": "wide",
    },
}
PRESET_ADAPTERS: dict[str, dict[str, dict[str, Any]]] = {
    "default": {},
    "paper": {"adaptformer": {"width": 16}},
    "official": {
        "vpt": {"tokens": 10, "depth": "shared", "start": "zero"},
        "ssf": {"final_norm": False},
    },
    "ranpac": {"vpt": {"start": "zero"}},
}


@dataclass(frozen=True)
class _Session:
    """All values of a session, checked."""

    adapter: Adapter | str
    preset: str
    optimizer: Optimizer
    learning_rate: float
    weight_decay: float
    batch_size: int
    epochs: int
    patience: int | None
    held_out: float
    head: Head
    preprocessing: Way
    augmentation: str
    trial: bool
    seed: int

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known)
        patient = self.patience is not None
        for name, possible, allowed in (
            ("batch_size", _is_whole(self.batch_size, 1), "a whole number ≥ 1"),
            ("epochs", _is_whole(self.epochs, 1), "a whole number ≥ 1"),
            ("patience", not patient or _is_whole(self.patience, 1), "a whole number ≥ 1, or None"),
            ("seed", _is_whole(self.seed, 0), "a whole number from 0 to 2^63 - 1"),
            ("learning_rate", _is_number(self.learning_rate) and self.learning_rate > 0, "a number > 0"),
            ("weight_decay", _is_number(self.weight_decay) and self.weight_decay >= 0, "a number ≥ 0"),
            (
                "held_out",
                not patient or (_is_number(self.held_out) and 0 < self.held_out < 1),
                "a share between 0 and 1",
            ),
        ):
            if not possible:
                raise InputError(f"{name} = {getattr(self, name)!r} is impossible. Use {allowed}.")


@dataclass(frozen=True, init=False)
class FirstSession(_Session):
    """How a backbone is adapted: plain values; the preset has those that are not given.

    >>> FirstSession("adaptformer", "paper").learning_rate
    0.03
    >>> FirstSession("vpt", epochs=5).adapter
    VPT(tokens=5, depth='deep', start='uniform')

    Attributes:
        adapter: what is tuned; "auto" for the usual one of the network.
        preset: "default", "paper", "official" or "ranpac": the values that are not given.
        optimizer: "adam", "adamw" or "sgd" (with momentum 0.9).
        learning_rate: in the first epoch; it decays to zero along a cosine, epoch by epoch.
        weight_decay: of the tuned values and the head.
        batch_size: images per step.
        epochs: passes over the images, at most.
        patience: stop after this many epochs without a gain in held-out accuracy, and keep the best; None:
            train on all images to the end, and keep the last epoch.
        held_out: the share of every class that is held out; nothing is held out without patience.
        head: "cosine" (with a fixed scale of 30), "learned cosine" (its scale is learned, from 1 on), or
            "linear".
        preprocessing: "own" (that of the weights), "squash" (the whole image to the input size), "crop" (the
            short side to the input size, bilinear, centre crop, values from 0 to 1), "crop224" (the same,
            but bicubic), or "crop256" (bicubic, and the short side to 256/224 of the input size).
        augmentation: of training images, a name of `AUGMENTATIONS`.
        trial: drop the adapter if the held-out images are predicted worse with it; by default for "auto".
        seed: decides the initial values, the split, the order of images, and their augmentation.
    """

    def __init__(
        self,
        adapter: Adapter | str = AUTO,
        preset: str = "default",
        *,
        seed: int = 0,
        **given: Unpack[Values],
    ) -> None:
        if preset not in PRESETS:
            raise unknown_name("preset", preset, PRESETS)
        values: dict[str, Any] = {"trial": adapter == AUTO, **PRESETS[preset], **given}
        if values["patience"] is None:
            values |= {"held_out": 0.0, "trial": False}
        super().__init__(_adapter(adapter, preset), preset, seed=seed, **values)

    @classmethod
    def wanted(cls, adapter: Wanted) -> FirstSession | None:
        """The session for an adapter's name, an adapter, a `FirstSession`, or None.

        >>> FirstSession.wanted("lora").adapter
        LoRA(rank=8, alpha=8.0)
        """
        if adapter is None or isinstance(adapter, FirstSession):
            return adapter
        return cls(adapter)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` is the inverse."""
        adapter = self.adapter if isinstance(self.adapter, str) else self.adapter.to_dict()
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "adapter": adapter}

    def training(self) -> dict[str, Any]:
        """What decides the tuned values: all but the trial, which comes after training.

        >>> FirstSession("vpt", trial=True).training() == FirstSession("vpt").training()
        True
        """
        return {name: value for name, value in self.to_dict().items() if name != "trial"}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The session with these plain values."""
        adapter = values["adapter"]
        if adapter != AUTO:  # not by its name alone, which would load a plug-in
            adapter = adapter_from({"name": adapter} if isinstance(adapter, str) else adapter)
        return cls(**{**values, "adapter": adapter})

    def attach(self, backbone: Backbone) -> AdaptedBackbone:
        """The backbone with the adapter in it, not trained yet."""
        adapter = self.adapter
        if isinstance(adapter, str):
            adapter = replace(self, adapter=usual_adapter(backbone.network)).adapter
        assert isinstance(adapter, Adapter)
        preprocessing = preprocessed(backbone.preprocessing, self.preprocessing)
        return AdaptedBackbone(backbone, adapter, seed=self.seed, preprocessing=preprocessing)


def _adapter(adapter: Adapter | str, preset: str) -> Adapter | str:
    """The adapter of that name as the preset has it; "auto" is resolved later, for a network."""
    if isinstance(adapter, Adapter) or adapter == AUTO:
        return adapter
    if adapter not in ADAPTERS:
        raise unknown_name("adapter", adapter, [AUTO, *ADAPTERS])
    return ADAPTERS[adapter](**PRESET_ADAPTERS[preset].get(adapter, {}))


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and least <= value < 2**63


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def preprocessed(own: Preprocessing, way: Way) -> Preprocessing:
    """How images are preprocessed, for a network with this preprocessing of its own."""
    if way == "squash":
        return replace(own, resize=own.size, crop="squash")
    if way == "own":
        return own
    height, width = (round(side * 256 / 224) for side in own.size) if way == "crop256" else own.size
    return replace(
        own,
        resize=(height, width),
        crop="center",
        interpolation="bilinear" if way == "crop" else "bicubic",
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
    )


def prepared(backbone: Backbone, way: Way) -> Backbone:
    """The backbone with images prepared in this way; the given one does not change.

    >>> from layup.backbones import load_backbone
    >>> prepared(load_backbone("vit-nano"), "squash").preprocessing.crop
    'squash'
    """
    return backbone.with_preprocessing(preprocessed(backbone.preprocessing, way))


def split(targets: NDArray[np.int64], share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices to train on and to hold out: the share of every class, at least one, but never its last one.

    >>> training, held_out = split(np.array([0, 0, 0, 0, 1, 1, 2]), 0.25, seed=0)
    >>> len(training), len(held_out)
    (5, 2)
    """
    rng = np.random.default_rng(seed_of(seed, "split"))
    training, held_out = sampling.split(targets.tolist(), share, lambda _: rng)
    if not len(held_out):
        raise InputError(
            "A backbone cannot be adapted to classes of one image each: no image can be held out. Learn more "
            "images per class in the first session, or learn without an adapter."
        )
    return training, held_out


Wanted: TypeAlias = str | Adapter | FirstSession | None
"""The ways to ask for a first session: see `FirstSession.wanted`."""
