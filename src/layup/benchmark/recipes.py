"""What the authors of each method released for each of the paper's datasets, as data.

A run takes the options of its method from here, unless they are given. Adapter and preprocessing are taken
under the presets `paper` and `official`, which stand for released code: by default, images are prepared as
the network was trained, and the adapter is the one that fits it. What nobody released for a dataset is not in
the table, and then the method's defaults hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from layup.tuning import PRESETS

IN21K, IN1K = "IN21K", "IN1K"


@dataclass(frozen=True)
class Recipe:
    """What was released for a dataset.

    options: of the method.
    adapter, network: of the published runs; the network by what it was trained on.
    session: values of the first session.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    adapter: str | None = None
    network: str = ""
    session: Mapping[str, Any] = field(default_factory=dict)


def _ranpac(width: int | None = 10_000) -> dict[str, Recipe]:
    """RanPAC's published runs: args/*_publish.csv, id 7. Its DomainNet is the whole one."""
    chosen = {
        "cifar100": ("adaptformer", IN21K),
        "cub200": ("adaptformer", IN1K),
        "imagenet-r": ("ssf", IN1K),
        "imagenet-a": ("ssf", IN1K),
        "vtab": ("ssf", IN1K),
        "omnibenchmark": ("vpt", IN21K),
        "cars196": ("vpt", IN21K),
        "cddb-hard": ("adaptformer", IN21K),
        "s-domainnet": ("adaptformer", IN1K),
    }
    widths = {"cddb-hard": 5000}
    return {
        dataset: Recipe(
            {} if width is None else {"width": widths.get(dataset, width)},
            adapter,
            network,
            # Its images of CIFAR-100 are enlarged to the input size, and not cropped.
            {"preprocessing": "crop224"} if dataset == "cifar100" else {},
        )
        for dataset, (adapter, network) in chosen.items()
    }


SLOW = {"epochs": 50}
GACL = Recipe({"width": 5000, "lam": 100.0}, network=IN1K)
RECIPES: dict[str, dict[str, Recipe]] = {
    "ranpac": _ranpac(),
    "ranpac+layup": _ranpac(),
    "nmc": _ranpac(width=None),  # RanPAC's code has it too, with and without a first session
    # GACL's scripts/gacl.sh, with a DeiT-S. ACIL's own runs are those of small networks trained from scratch.
    "acil": {"cifar100": GACL, "imagenet-r": GACL},
    "ds-al": {"cifar100": Recipe({"compensation": 0.6}, network="ResNet-32")},
    # Its published runs of pre-trained networks have no random features (scripts/runall.sh).
    "randumb": dict.fromkeys(
        ("cifar100", "imagenet-r", "imagenet-a", "cub200", "omnibenchmark", "vtab", "cars196"),
        Recipe({"width": 0}, network=f"{IN21K}, {IN1K}"),
    ),
    "fecam": {
        "cifar100": Recipe({"gamma1": 1.0, "gamma2": 0.0}, network=IN21K),
        "imagenet-r": Recipe({"gamma1": 10.0, "gamma2": 10.0}, network=IN21K),
    },
    "l2p": {
        "cifar100": Recipe({"epochs": 5, "learning_rate": 0.001875, "batch_size": 16}, network=IN21K),
        # In PILOT, with its rate of 0.03 · batch size / 256.
        "imagenet-r": Recipe({"epochs": 10, "learning_rate": 0.00375, "batch_size": 32}, network=IN21K),
    },
    "dualprompt": {
        "cifar100": Recipe({"epochs": 5, "learning_rate": 0.0028125, "batch_size": 24}, network=IN21K),
        "imagenet-r": Recipe(
            {"epochs": 50, "learning_rate": 0.00046875, "batch_size": 24, "expert_length": 20}, network=IN21K
        ),
    },
    "coda-prompt": {
        "cifar100": Recipe({"epochs": 20}, network=IN1K),
        "imagenet-r": Recipe(SLOW, network=IN1K),
    },
    "slca": {
        "cifar100": Recipe({"epochs": 20, "augmentation": "bright"}, network=IN21K),
        "imagenet-r": Recipe(SLOW, network=IN21K),
        "cub200": Recipe({**SLOW, "augmentation": "stretched"}, network=IN21K),
        "cars196": Recipe({**SLOW, "augmentation": "stretched", "temperature": 0.05}, network=IN21K),
    },
    "ssiat": {
        "cifar100": Recipe({"margin": 0.0}, network=IN21K),
        "imagenet-r": Recipe({"margin": 0.0}, network=IN21K),
        "imagenet-a": Recipe({"margin": 0.3}, network=IN21K),
        # Its own code does not run with the values released for CUB: they do not name its epochs.
        "cub200": Recipe({"margin": 0.0}, network=IN1K),
    },
}
"""By method and dataset."""

ADAM: dict[str, dict[str, Any]] = {
    "vpt": {"learning_rate": 0.05, "batch_size": 16, "epochs": 5},
    "full": {"learning_rate": 0.01, "batch_size": 128, "epochs": 5},
}
"""ADAM's first sessions that differ from RanPAC's, by adapter."""
ADAM_ON: dict[tuple[str, str], dict[str, Any]] = {
    ("imagenet-r", "adaptformer"): {"learning_rate": 0.05, "batch_size": 24, "weight_decay": 0.005},
}
"""The same, by dataset and adapter."""
BY_ADAPTER = ("adam", "adam+layup")

TRAINING = ("optimizer", "learning_rate", "weight_decay", "batch_size", "epochs", "head", "augmentation")
"""What the authors of a method chose to train its first session, whatever the preset of a run."""


def recipe_of(method: str, dataset: str) -> Recipe:
    """What was released for a method on a dataset; empty if nothing was.

    >>> recipe_of("slca", "cars196").options["temperature"], recipe_of("slca", "digits").options
    (0.05, {})
    """
    return RECIPES.get(method, {}).get(dataset, Recipe())


def session_values(method: str, released: str, dataset: str, adapter: str) -> dict[str, Any]:
    """How the authors of a method train its first session; `released` is the preset of their code.

    >>> session_values("adam", "ranpac", "cifar100", "vpt")["learning_rate"]
    0.05
    """
    values: Mapping[str, Any] = PRESETS[released]
    found = {name: values[name] for name in TRAINING}
    if method in BY_ADAPTER:
        found |= ADAM.get(adapter, {}) | ADAM_ON.get((dataset, adapter), {})
    return found


def recipe_rows(method: str) -> list[list[str]]:
    """The recipes of a method as rows: dataset, options, adapter and network.

    >>> recipe_rows("coda-prompt")
    [['cifar100', 'epochs=20', '', 'IN1K'], ['imagenet-r', 'epochs=50', '', 'IN1K']]
    >>> recipe_rows("adam")[0]
    ['any', 'learning_rate=0.05, batch_size=16, epochs=5', 'vpt', '']
    """
    rows = [
        [dataset, _listed({**recipe.options, **recipe.session}), recipe.adapter or "", recipe.network]
        for dataset, recipe in RECIPES.get(method, {}).items()
    ]
    if method in BY_ADAPTER:
        rows += [["any", _listed(values), adapter, ""] for adapter, values in ADAM.items()]
        rows += [[dataset, _listed(values), adapter, ""] for (dataset, adapter), values in ADAM_ON.items()]
    return rows


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
