"""DualPrompt (Wang et al., ECCV 2022): prompts for all tasks, and prompts for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from layup.benchmark.methods.gradient import own_classes_loss
from layup.benchmark.methods.head import TRUNCATED
from layup.benchmark.methods.learner import Setup
from layup.benchmark.methods.prompting import PromptLearner, PromptMethod, cosine
from layup.seeds import seeded
from layup.tuning import Groups

GENERAL_BLOCKS = (0, 1)
EXPERT_BLOCKS = (2, 3, 4)
EXPERT, KEY = "expert.", "key."


class DualPromptLearner(PromptLearner):
    """One general prompt, and one expert prompt with a key for each task."""

    method: DualPromptMethod

    def __init__(self, method: Any, setup: Setup) -> None:
        super().__init__(method, setup)
        with seeded(setup.seed, "general"):
            self.general = self.new(len(GENERAL_BLOCKS), 2, method.general_length, self.network.width)
        self.experts: list[nn.Parameter] = []  # (blocks, 2, length, d) each
        self.keys: list[nn.Parameter] = []  # (d) each

    def start(self) -> None:
        """A new expert, which begins as the last one ended, and a new key."""
        expert = self.new(len(EXPERT_BLOCKS), 2, self.method.expert_length, self.network.width)
        self.experts.append(nn.Parameter(self.experts[-1].detach().clone()) if self.experts else expert)
        self.keys.append(self.new(self.network.width))

    def read(self, pixels: Tensor, expert: Tensor, *, training: bool) -> Tensor:
        """The feature (B, d), with the expert prompts (B, blocks, 2, length, d) of each image."""
        general = self.general.expand(len(pixels), *self.general.shape)
        prefixes = {block: general[:, index] for index, block in enumerate(GENERAL_BLOCKS)}
        prefixes |= {block: expert[:, index] for index, block in enumerate(EXPERT_BLOCKS)}
        return self.network.embed(pixels, prefixes, training=training)

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy over the task's classes, less the pull of its key towards its images."""
        nearness = cosine(self.network.query(inputs), self.keys[-1][None])
        own = self.experts[-1].expand(len(inputs), *self.experts[-1].shape)
        feature = self.read(inputs, own, training=True)
        entropy = own_classes_loss(self.head, feature, targets, self.tasks[-1])
        return entropy - self.method.pull * nearness.mean()

    def scores(self, inputs: Tensor) -> Tensor:
        """One score for each class, with the expert whose key is nearest to the image."""
        near = cosine(self.network.query(inputs, training=False), torch.stack([*self.keys]))
        expert = torch.stack([*self.experts])[near.argmax(dim=1)]
        return self.head(self.read(inputs, expert, training=False))

    def groups(self) -> Groups:
        """The general prompt, the task's own prompt and key, and the rows of its classes."""
        prompts = [self.general, self.experts[-1], self.keys[-1]]
        return [(1.0, [*prompts, *self.head.rows(self.tasks[-1])])]

    def state(self) -> dict[str, Tensor]:
        """All prompts and keys."""
        experts = {f"{EXPERT}{task}": expert for task, expert in enumerate(self.experts)}
        keys = {f"{KEY}{task}": key for task, key in enumerate(self.keys)}
        return {"general": self.general, **experts, **keys}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take them over."""

        def taken(name: str) -> nn.Parameter:
            return nn.Parameter(tensors[name].to(self.backbone.device))

        self.general = taken("general")
        self.experts = [taken(f"{EXPERT}{task}") for task in range(len(self.tasks))]
        self.keys = [taken(f"{KEY}{task}") for task in range(len(self.tasks))]


@dataclass(frozen=True)
class DualPromptMethod(PromptMethod):
    """DualPrompt: a general prompt that all tasks train, and an expert prompt for each task.

    Prompts are prefixes: keys and values added to those of the attention, the general ones in blocks 1 and 2,
    the expert ones in blocks 3 to 5. A task trains its own expert, which starts as a copy of the previous
    one, and pulls its key towards q = f(x) of its images: cross-entropy over the task's classes − pull ·
    cos(q, key), by Adam, gradients clipped at norm 1. A test image gets the expert whose key has the largest
    cos(q, key), each image separately. (In the released code the images of a batch vote, and a reshape mixes
    them up.)

    Keeps 2·2·general_length·d values of the general prompt, (3·2·expert_length + 1)·d per task, and (d + 1)·C
    of the head, 4 bytes each. Costs two forward passes and one backward pass per image and epoch, and two
    forward passes per test image after every task. Needs a plain vision transformer with a class token and
    five blocks, and the boundaries between tasks.

    epochs, learning_rate, batch_size: how every task is trained.
    general_length, expert_length: of the prefixes of each kind.
    pull: how strongly a key is drawn to the images of its task.
    augmentation: of training images: mild, wide, standard, bright or stretched.
    """

    name = "dualprompt"
    learner = DualPromptLearner
    initial = TRUNCATED
    blocks = GENERAL_BLOCKS + EXPERT_BLOCKS
    clip = 1.0
    exempt: ClassVar[Mapping[str, str]] = {
        **PromptMethod.exempt,
        "memory-per-task": "each keeps its own prompt",
    }
    may_be_zero = ("pull",)

    epochs: int = 5
    learning_rate: float = 0.0028
    batch_size: int = 24
    general_length: int = 5
    expert_length: int = 5
    pull: float = 1.0
    augmentation: str = "wide"
