"""L2P, learning to prompt (Wang et al., CVPR 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor, nn

from layup.benchmark.methods.gradient import own_classes_loss
from layup.benchmark.methods.head import TRUNCATED
from layup.benchmark.methods.learner import Setup
from layup.benchmark.methods.prompting import PromptLearner, PromptMethod, cosine
from layup.errors import InputError
from layup.seeds import seeded
from layup.tuning import Groups


class L2PLearner(PromptLearner):
    """A pool of prompts with a key each."""

    method: L2PMethod

    def __init__(self, method: Any, setup: Setup) -> None:
        super().__init__(method, setup)
        with seeded(setup.seed, "pool"):
            self.prompts = self.new(method.pool, method.length, self.network.width)
            self.keys = self.new(method.pool, self.network.width)

    def read(self, pixels: Tensor, *, training: bool) -> tuple[Tensor, Tensor]:
        """The feature (B, d), and how near the chosen keys are, summed (B)."""
        near = cosine(self.network.query(pixels, training=training), self.keys)  # (B, pool)
        best, chosen = near.topk(self.method.top, dim=1)  # (B, top), each image separately
        tokens = self.prompts[chosen].flatten(1, 2) + self.network.token_position  # (B, top · length, d)
        seen = self.network.read_tokens(pixels, tokens, training=training)
        return seen.mean(dim=1), best.sum(dim=1)

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy over the task's classes, less the pull of keys to the images that chose them."""
        feature, nearness = self.read(inputs, training=True)
        own = own_classes_loss(self.head, feature, targets, self.tasks[-1])
        return own - self.method.pull * nearness.mean()

    def scores(self, inputs: Tensor) -> Tensor:
        """One score for each of the head's classes."""
        return self.head(self.read(inputs, training=False)[0])

    def groups(self) -> Groups:
        """Prompts, keys, and the rows of the task's classes."""
        return [(1.0, [self.prompts, self.keys, *self.head.rows(self.tasks[-1])])]

    def state(self) -> dict[str, Tensor]:
        """Prompts and keys."""
        return {"prompts": self.prompts, "keys": self.keys}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take them over."""
        self.prompts = nn.Parameter(tensors["prompts"].to(self.backbone.device))
        self.keys = nn.Parameter(tensors["keys"].to(self.backbone.device))


@dataclass(frozen=True)
class L2PMethod(PromptMethod):
    """Learning to prompt: every image chooses prompts from a pool by what the bare network sees in it.

    With the query q = f(x), the `top` keys with the largest cos(q, key) choose their prompts. The tokens of
    these prompts are placed between the class token and the patches, with the position embedding of the class
    token; the feature is the mean of the outputs of these tokens. Minimises the cross-entropy over the task's
    classes − pull · Σ cos(q, chosen keys), by Adam, gradients clipped at norm 1.
    Each image chooses for itself, in training and in testing. (In the released code the images of a batch
    vote, so that a prediction depends on the other images.)

    Keeps pool·(length + 1)·d values of prompts and keys and (d + 1)·C of the head, 4 bytes each, however many
    tasks there are. Costs two forward passes and one backward pass per image and epoch, and two forward
    passes per test image after every task. Needs a plain vision transformer with a class token, and the
    boundaries between tasks.

    epochs, learning_rate, batch_size: how every task is trained.
    pool: number of prompts. length: tokens of each. top: how many an image chooses.
    pull: how strongly keys are drawn to the images that chose them.
    augmentation: of training images: mild, wide, standard, bright or stretched.
    """

    name = "l2p"
    learner = L2PLearner
    initial = TRUNCATED
    clip = 1.0
    may_be_zero = ("pull",)

    epochs: int = 5
    learning_rate: float = 0.001875
    batch_size: int = 16
    pool: int = 10
    length: int = 5
    top: int = 5
    pull: float = 0.1
    augmentation: str = "wide"

    def resolved(self, setup: Setup) -> Self:
        """The method itself; raises if it cannot work with this setup."""
        super().resolved(setup)
        if self.top > self.pool:
            raise InputError(
                f"'l2p' cannot choose {self.top} of {self.pool} prompts. Use top from 1 to pool."
            )
        return self
