"""CODA-Prompt (Smith et al., CVPR 2023): prompts that are weighted sums of components."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from layup.benchmark.methods.gradient import own_classes_loss
from layup.benchmark.methods.learner import Setup
from layup.benchmark.methods.prompting import PromptLearner, PromptMethod
from layup.errors import InputError
from layup.tuning import Groups

BLOCKS = (0, 1, 2, 3, 4)
PARTS = ("prompts", "keys", "attentions")


class CODAPromptLearner(PromptLearner):
    """Components for each task, in each of five blocks."""

    method: CODAPromptMethod

    def __init__(self, method: Any, setup: Setup) -> None:
        super().__init__(method, setup)
        # Of each task, (blocks, own, length · d) and twice (blocks, own, d).
        self.components: list[dict[str, nn.Parameter]] = []

    @property
    def own(self) -> int:
        """How many components a task gets."""
        assert self.setup.tasks is not None  # else the method would not have been resolved
        return max(1, self.method.components // self.setup.tasks)

    def require_room(self) -> None:
        """Refuse more tasks than were announced."""
        if len(self.tasks) >= (self.setup.tasks or 0):
            raise InputError(
                f"'coda-prompt' was told of {self.setup.tasks} tasks, among which it divides its "
                "components, and this is one more. Say from the beginning how many there will be."
            )

    def start(self) -> None:
        """New components, at right angles to all before."""
        widths = {"prompts": self.method.length * self.network.width}
        new = {}
        for part in PARTS:
            width = widths.get(part, self.network.width)
            nothing = torch.zeros(len(BLOCKS), 0, width, device=self.backbone.device)
            before = self.every(part).detach() if self.components else nothing
            new[part] = nn.Parameter(torch.stack([_at_right_angles(each, self.own) for each in before]))
        self.components.append(new)

    def every(self, part: str) -> Tensor:
        """One part of all components (blocks, M, …); gradients reach those of the current task alone."""
        before = [task[part].detach() for task in self.components[:-1]]
        return torch.cat([*before, self.components[-1][part]], dim=1)

    def read(self, pixels: Tensor, *, training: bool) -> Tensor:
        """The feature (B, d)."""
        query = self.network.query(pixels, training=training)
        prompts, keys, attentions = map(self.every, PARTS)
        prefixes = {}
        for index, block in enumerate(BLOCKS):
            seen = query[:, None] * attentions[index]  # (B, M, d)
            weights = functional.cosine_similarity(seen, keys[index], dim=2)  # (B, M)
            both = weights @ prompts[index]  # (B, length · d)
            prefixes[block] = both.reshape(len(both), 2, self.method.length // 2, self.network.width)
        return self.network.embed(pixels, prefixes, training=training)

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy over the task's classes, and how far components are from right angles."""
        loss = own_classes_loss(self.head, self.read(inputs, training=True), targets, self.tasks[-1])
        if self.method.orthogonality:
            loss = loss + self.method.orthogonality * self._skewness()
        return loss

    def scores(self, inputs: Tensor) -> Tensor:
        """One score for each of the head's classes."""
        return self.head(self.read(inputs, training=False))

    def groups(self) -> Groups:
        """The task's components, and the rows of its classes."""
        return [(1.0, [*self.components[-1].values(), *self.head.rows(self.tasks[-1])])]

    def _about(self) -> dict[str, Any]:
        return {**super()._about(), "tasks": self.setup.tasks}

    def _skewness(self) -> Tensor:
        """The mean of (B Bᵀ − I)² over prompts, keys and attentions B of each block, summed."""
        total = torch.zeros((), device=self.backbone.device)
        for part in PARTS:
            every = self.every(part)
            unit = torch.eye(every.shape[1], device=every.device)
            total = total + ((every @ every.transpose(1, 2) - unit) ** 2).mean(dim=(1, 2)).sum()
        return total

    def state(self) -> dict[str, Tensor]:
        """All components."""
        return {
            f"{part}.{task}": value
            for task, parts in enumerate(self.components)
            for part, value in parts.items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take them over."""
        self.components = [
            {part: nn.Parameter(tensors[f"{part}.{task}"].to(self.backbone.device)) for part in PARTS}
            for task in range(len(self.tasks))
        ]


def _at_right_angles(before: Tensor, count: int) -> Tensor:
    """So many random unit vectors, at right angles to those before (n, width) and to each other.

    Where no more directions are left, a vector is just random.

    >>> both = torch.cat([torch.eye(2, 4), _at_right_angles(torch.eye(2, 4), 2)])
    >>> torch.allclose(both @ both.T, torch.eye(4), atol=1e-6)
    True
    """
    basis = [functional.normalize(vector, dim=0) for vector in before]
    if basis:  # trained vectors are not at right angles any more
        basis = list(torch.linalg.qr(torch.stack(basis, dim=1)).Q.T)
    found = []
    for _ in range(count):
        vector = functional.normalize(torch.empty(before.shape[1]).uniform_(-1, 1).to(before.device), dim=0)
        if len(basis) < len(vector):
            directions = torch.stack(basis) if basis else vector.new_zeros(0, len(vector))
            for _twice in range(2):  # once leaves rounding
                vector = vector - directions.T @ (directions @ vector)
            vector = functional.normalize(vector, dim=0)
            basis.append(vector)
        found.append(vector)
    return torch.stack(found)


@dataclass(frozen=True)
class CODAPromptMethod(PromptMethod):
    """CODA-Prompt: the prompt of an image is a weighted sum of components, to which every task adds some.

    A component has a prompt P_m, a key K_m and an attention A_m; with q = f(x) and α_m = cos(q ⊙ A_m, K_m)
    the prefix of a block is Σ α_m P_m, one half keys and one half values, in each of the first five blocks.
    A task trains only its own components, which start orthogonal to all earlier ones, with cross-entropy over
    the task's classes (plus orthogonality · mean (B Bᵀ − I)², if that option is set), by Adam; the learning
    rate falls along a quarter of a cosine wave.

    Keeps 5·components·(length + 2)·d values and (d + 1)·C of the head, 4 bytes each. Costs two forward passes
    and one backward pass per image and epoch, and two forward passes per test image after every task. Needs
    a plain vision transformer with a class token and five blocks, the boundaries between tasks, and the
    number of tasks in advance, because it divides its components among them.

    epochs, learning_rate, batch_size: how every task is trained.
    components: of all tasks together. length: of every prefix, keys and values together; an even number.
    orthogonality: how strongly components are kept orthogonal while they are trained.
    augmentation: of training images: mild, wide, standard, bright or stretched.
    """

    name = "coda-prompt"
    learner = CODAPromptLearner
    blocks = BLOCKS
    exempt: ClassVar[Mapping[str, str]] = {
        **PromptMethod.exempt,
        "memory-per-task": "each keeps its own components",
    }
    may_be_zero = ("orthogonality",)

    epochs: int = 20
    learning_rate: float = 1e-3
    batch_size: int = 128
    components: int = 100
    length: int = 8
    orthogonality: float = 0.0
    augmentation: str = "standard"

    def resolved(self, setup: Setup) -> Self:
        """The method itself; raises if it cannot work with this setup."""
        super().resolved(setup)
        if self.length % 2:
            raise InputError(
                f"'coda-prompt' cannot make components of length {self.length}: one half of a prefix are "
                "keys, and the other values. Use an even length."
            )
        if setup.tasks is None:
            raise InputError(
                "'coda-prompt' must know the number of tasks before the first one: it divides its "
                "components among them. Give Setup(…, tasks=…)."
            )
        return self

    def rate(self, epoch: int) -> float:
        """A quarter of a cosine wave, towards zero."""
        share = 0.99 * epoch / (self.epochs - 1) if self.epochs > 1 else 0.0
        return self.learning_rate * math.cos(math.pi / 2 * share)
