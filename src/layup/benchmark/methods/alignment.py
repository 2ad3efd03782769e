"""Classifier alignment (SLCA, Zhang et al., 2023): a head, trained on samples of Gaussians of all classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from layup.benchmark.methods.gaussians import Gaussians, factor_of
from layup.benchmark.methods.head import GrowingHead
from layup.errors import DivergedError
from layup.tuning import Batch, Groups, Recipe, Trainable, Trainer, annealed


class Alignment(Trainable):
    """A head, on samples of N(μ_c (0.9 + 0.1 t_c / t), Σ_c) of all classes c.

    t_c is the class's task and t the current one. Costs C·d³ / 3 operations to factorise the covariances, and
    C·samples·d² for the samples of an epoch.

    Args:
        head: the head to train, on `device`.
        gaussians: those of all classes.
        tasks: how many there were so far.
        samples: how many of each Gaussian in an epoch, and in a step.
        jitter: what is added to the diagonals of covariances.
        loss: of the head's scores (B, C), given the targets (B,).
        diverged: makes the error that says so.
    """

    def __init__(
        self,
        head: GrowingHead,
        gaussians: Gaussians,
        *,
        device: torch.device,
        tasks: int,
        samples: int,
        jitter: float,
        loss: Callable[[Tensor, Tensor], Tensor],
        diverged: Callable[[str], DivergedError],
    ) -> None:
        self.head, self.gaussians, self.device = head, gaussians, device
        self.tasks, self.samples = tasks, samples
        self.loss_of, self.error = loss, diverged
        self.steps = len(gaussians)  # samples of all, as many at a time as there are of one
        self.factors = {key: factor_of(covariance, jitter) for key, (_, covariance) in gaussians.items()}
        # One course of random numbers goes through all epochs.
        self.generator = torch.Generator()
        self.generator.set_state(torch.get_rng_state())

    def run(self, epochs: int, learning_rate: float) -> None:
        """Train for so many epochs, with a rate that falls along half a cosine wave."""
        recipe = Recipe(
            "sgd", epochs, lambda epoch: annealed(learning_rate, epoch, epochs), weight_decay=5e-4
        )
        Trainer(self, recipe).run("Aligning", progress=False)

    def groups(self) -> Groups:
        """The rows of all classes."""
        return [(1.0, self.head.rows(self.head.classes))]

    def batches(self, epoch: int) -> Iterator[Batch]:
        """New samples of every class, mixed."""
        samples = self.samples
        indices = {name: index for index, name in enumerate(self.head.classes)}
        inputs, targets = [], []
        for (task, name), (mean, _) in self.gaussians.items():
            # The network has changed since: the older a mean is, the less it still holds.
            centre = mean * (0.9 + 0.1 * (task + 1) / self.tasks)
            noise = torch.randn(samples, len(mean), generator=self.generator)
            inputs.append(centre + noise @ self.factors[task, name].T)
            targets.append(torch.full((samples,), indices[name]))
        every, aims = torch.cat(inputs), torch.cat(targets)
        for batch in torch.split(torch.randperm(len(every), generator=self.generator), samples):
            yield every[batch], aims[batch]

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The given one, of the head's scores."""
        return self.loss_of(self.head(inputs.to(self.device)), targets)

    def diverged(self, what: str, epoch: int) -> DivergedError:
        """The error that says so."""
        return self.error(f"in aligning, {what}")
