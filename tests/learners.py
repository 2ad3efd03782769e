"""What tests of methods share: small networks, easy images, and quick settings of those that train."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from layup.backbones import Backbone, Preprocessing, load_backbone
from layup.backbones.timm_models import timm_backbone
from layup.benchmark.methods.coda_prompt import CODAPromptMethod
from layup.benchmark.methods.dualprompt import DualPromptMethod
from layup.benchmark.methods.gradient import GradientLearner, GradientMethod
from layup.benchmark.methods.joint import JointMethod
from layup.benchmark.methods.joint_probe import JointProbeMethod
from layup.benchmark.methods.l2p import L2PMethod
from layup.benchmark.methods.learner import Setup
from layup.benchmark.methods.sequential import SequentialMethod
from layup.benchmark.methods.slca import SLCAMethod
from layup.benchmark.methods.ssiat import SSIATMethod
from layup.images import open_image
from layup.seeds import seed_of
from layup.tuning import augmented
from photos import batch

from timm.models.vision_transformer import VisionTransformer  # isort: skip  # after layup

TaskData = tuple[list[Any], list[str]]

SHORT = {"epochs": 2, "learning_rate": 0.02, "batch_size": 4}
QUICK: dict[str, GradientMethod] = {
    method.name: method
    for method in (
        SequentialMethod(**SHORT),
        JointMethod(**SHORT),
        JointProbeMethod(**SHORT),
        SLCAMethod(**SHORT, alignment_epochs=2, samples=6),
        SSIATMethod(**SHORT, first_factor=1, width=3, alignment_epochs=2, samples=6),
        L2PMethod(**SHORT, pool=4, length=2, top=2),
        DualPromptMethod(**SHORT, general_length=3, expert_length=2),
        CODAPromptMethod(**SHORT, components=6, length=4),
    )
}

TINTS = ((1.0, 0.2, 0.2), (0.2, 1.0, 0.2), (0.2, 0.2, 1.0), (1.0, 1.0, 0.2), (0.2, 1.0, 1.0), (1.0, 0.2, 1.0))


def tinted(digit_counts: Mapping[int, int], start: int = 0) -> TaskData:
    """Digits from 0 to 5, each in a colour of its own: easy to tell apart, also after a flip."""
    images, labels = batch(digit_counts, start)
    tints = [np.array(TINTS[int(label[-1])]) for label in labels]
    coloured = [(image[..., None] * tint).astype(np.uint8) for image, tint in zip(images, tints, strict=True)]
    return coloured, labels


FIRST = tinted({0: 3, 1: 2})
SECOND = tinted({2: 2, 3: 3})
BACK = tinted({0: 3, 2: 3}, start=20)  # classes of both, and no other
TEST = tinted(dict.fromkeys(range(4), 3), start=60)[0]


def tiny(seed: int = 0, **changes: Any) -> Backbone:
    """A vision transformer in a moment, of values that show every mistake: no zeros, no equal scales."""
    size: dict[str, Any] = {"img_size": 16, "patch_size": 8, "embed_dim": 24, "depth": 5, "num_heads": 2}
    network = VisionTransformer(**{**size, "num_classes": 0, "mlp_ratio": 2.0, **changes})
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in network.named_parameters():
            spread = 1.5 / value[0].numel() ** 0.5 if name.endswith("weight") and value.ndim > 1 else 0.3
            value.normal_(0, spread, generator=generator)
            if "norm" in name and name.endswith("weight"):
                value.add_(1)
    return timm_backbone(network, Preprocessing((16, 16), (16, 16), "squash"), name="tiny", spec=None)


@cache
def _nano() -> dict[str, Tensor]:
    return load_backbone("vit-nano").network.state_dict()


def small() -> Backbone:
    """The first half of vit-nano, for small images: a network that knows something, and is quick."""
    network = VisionTransformer(img_size=32, patch_size=8, embed_dim=128, depth=6, num_heads=4, num_classes=0)
    weights = {name: _nano()[name] for name in network.state_dict()}
    first, grid = weights["pos_embed"].split([1, 64], dim=1)
    grid = functional.avg_pool2d(grid.mT.unflatten(2, (8, 8)), 2).flatten(2).mT
    network.load_state_dict({**weights, "pos_embed": torch.cat([first, grid], dim=1)})
    return timm_backbone(network, Preprocessing((32, 32), (32, 32), "squash"), name="small", spec=None)


def setup_of(backbone: Backbone, **changes: Any) -> Setup:
    values: dict[str, Any] = {"setting": "cil", "reading": {"cache": False}, "tasks": 3}
    return Setup(backbone, **{**values, **changes})


def learned(method: GradientMethod, setup: Setup, *tasks: TaskData) -> Any:
    learner = method.begin(setup)
    for images, labels in tasks:
        learner.learn(images, labels)
    return learner


def kept(learner: GradientLearner) -> dict[str, Tensor]:
    """A copy of all that a learner has learned."""
    everything = {**learner.state(), "head": learner.head.values()}
    return {name: value.detach().clone() for name, value in everything.items()}


def equal(some: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> bool:
    return list(some) == list(others) and all(torch.equal(some[name], others[name]) for name in some)


def pixels_of(backbone: Backbone, images: list[Any]) -> Tensor:
    return torch.stack([backbone.preprocess(open_image(image)) for image in images])


# The oracle of all training: one image after the other, and torch's own optimisers.


def new_rows(
    width: int, task_number: int, count: int, seed: int = 0, *, truncated: bool = False
) -> list[nn.Parameter]:
    """The head's rows of a lesson's new classes."""
    torch.manual_seed(seed_of(seed, task_number, "start"))
    if truncated:
        weights = [nn.init.trunc_normal_(torch.empty(width), std=0.02) for _ in range(count)]
        return [nn.Parameter(torch.cat([each, torch.zeros(1)])) for each in weights]
    bound = 1 / width**0.5
    return [nn.Parameter(torch.empty(width + 1).uniform_(-bound, bound)) for _ in range(count)]


def epoch_of(
    backbone: Backbone, images: list[Any], size: int, seeds: tuple[int, int, int], augmentation: str = "wide"
) -> list[tuple[list[int], Tensor]]:
    """The batches of an epoch: which images, and what augmentation made of them."""
    order = np.random.default_rng(seed_of(*seeds, "order")).permutation(len(images)).tolist()
    batches = []
    for start in range(0, len(order), size):
        chosen, pixels = order[start : start + size], []
        for place in chosen:
            torch.manual_seed(seed_of(*seeds, place))
            pixels.append(augmented(backbone.preprocessing, augmentation)(open_image(images[place])))
        batches.append((chosen, torch.stack(pixels)))
    return batches


def scored(rows: list[nn.Parameter], embedding: Tensor) -> Tensor:
    """W f + b, class by class."""
    return torch.stack([embedding @ row[:-1] + row[-1] for row in rows], dim=1)


def plain_fine_tuning(
    backbone: Backbone,
    tasks: list[TaskData],
    rates: list[float],
    *,
    size: int = 4,
    lr_multiplier: float = 1.0,
    own: bool = False,
    stream: bool = False,
) -> tuple[dict[str, Tensor], dict[str, Tensor], list[float]]:
    """All weights and a head, lesson after lesson: the weights, the head's rows, and the last losses.

    `rates` are the head's in each epoch, `lr_multiplier` the network's share of it; `own` leaves the scores
    and rows of classes alone that are not in the lesson (as SLCA does, with its rows and crops), and on a
    `stream` one Adam serves all lessons.
    """
    network = deepcopy(backbone.network).requires_grad_(True)
    rows: dict[str, nn.Parameter] = {}
    optimizer: Any = None
    losses: list[float] = []
    for number, (images, labels) in enumerate(tasks, start=1):
        classes = sorted(set(labels))
        new = [name for name in classes if name not in rows]
        new_ones = new_rows(backbone.embedding_width, number, len(new), truncated=own)
        rows.update(zip(new, new_ones, strict=True))
        trained = classes if own else list(rows)
        head = [rows[name] for name in trained]
        if not stream:
            groups = [{"params": list(network.parameters())}, {"params": head}]
            optimizer = torch.optim.SGD(groups, lr=1.0, momentum=0.9, weight_decay=5e-4)
        elif optimizer is None:
            optimizer = torch.optim.Adam([*network.parameters(), *head], lr=rates[0], weight_decay=5e-4)
        elif new:
            optimizer.add_param_group({"params": [rows[name] for name in new]})
        losses = []
        for epoch, rate in enumerate(rates):
            if not stream:
                optimizer.param_groups[0]["lr"], optimizer.param_groups[1]["lr"] = lr_multiplier * rate, rate
            total = 0.0
            for chosen, pixels in epoch_of(
                backbone, images, size, (0, number, epoch), "standard" if own else "wide"
            ):
                targets = torch.tensor([trained.index(labels[place]) for place in chosen])
                each = functional.cross_entropy(scored(head, network(pixels)), targets, reduction="none")
                optimizer.zero_grad()
                each.mean().backward()
                optimizer.step()
                total += each.sum().item()
            losses.append(total / len(images))
    weights = {name: value.detach() for name, value in network.named_parameters()}
    return weights, {name: row.detach() for name, row in rows.items()}, losses


def assert_fine_tuned(learner: Any, expected: tuple[Mapping[str, Tensor], Mapping[str, Tensor], Any]) -> None:
    weights, rows, losses = expected
    for name, value in learner.body.state().items():
        torch.testing.assert_close(value, weights[name], rtol=1e-4, atol=1e-6, msg=name)
    assert learner.head.classes == list(rows)
    torch.testing.assert_close(learner.head.values(), torch.stack([*rows.values()]), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(learner.losses, losses, rtol=1e-4)
