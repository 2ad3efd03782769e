"""The trainer: epochs, seeds, learning rates, held-out accuracy, checkpoints and divergence, in one loop.

First-session adaptation and all methods that train say what they train (`Trainable`) and how (`Recipe`); the
rest is the same for all. Every epoch and image has its own seed: so neither the number of processes that
decode images nor an interruption changes anything.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from layup import schema, storage
from layup.errors import DamagedFileError, DivergedError, MismatchError
from layup.progress import progress_bar
from layup.seeds import seeded
from layup.tuning.optimizers import (
    OPTIMIZERS,
    Groups,
    grouped,
    load_optimizer_state,
    optimizer_state,
    parameters_of,
    set_rate,
)
from layup.tuning.pictures import Batch

OPTIMIZER = "optimizer."  # before the names of such tensors in files
CHECKPOINT: schema.Shape = {
    "key": schema.HASH,
    "epochs": [{"loss": schema.NUMBER, "accuracy": schema.AMOUNT.or_none()}],
    "scaler": schema.FIELDS,
}


@dataclass(frozen=True)
class Epoch:
    """One epoch: the mean loss over its samples, and the held-out accuracy, if any samples are held out."""

    loss: float
    accuracy: float | None = None


@dataclass(frozen=True)
class Recipe:
    """How something is trained.

    optimizer: "sgd" (with momentum), "adam" or "adamw".
    epochs: passes over the samples, at most.
    rate: the learning rate of an epoch, counted from 0.
    weight_decay: of everything that is trained.
    clip: the largest norm of all gradients together; None for no clipping.
    patience: stop after this many epochs without a gain in held-out accuracy; None: train to the end.
    seeds: all randomness of a step depends only on them and the epoch.
    """

    optimizer: str
    epochs: int
    rate: Callable[[int], float]
    weight_decay: float = 0.0
    clip: float | None = None
    patience: int | None = None
    seeds: tuple[int, ...] = ()

    def optimizer_of(self, groups: Groups) -> torch.optim.Optimizer:
        """A new optimizer of these parameters."""
        return OPTIMIZERS[self.optimizer](grouped(groups), lr=self.rate(0), weight_decay=self.weight_decay)


class Trainable(ABC):
    """What a `Trainer` trains."""

    device: torch.device
    steps: int
    """Batches per epoch, including held-out ones."""

    @abstractmethod
    def groups(self) -> Groups:
        """The parameters."""

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, counted from 0."""

    @abstractmethod
    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss that a step minimises."""

    @abstractmethod
    def diverged(self, what: str, epoch: int) -> DivergedError:
        """The error for an epoch (from 1) in which `what` ("the loss is") no longer finite."""

    def learning(self) -> AbstractContextManager[None]:
        """The context in which an epoch is trained."""
        return nullcontext()

    def held_out(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Scores (B, C) of the held-out samples, and their targets (B,)."""
        return iter(())

    def keep(self) -> None:  # noqa: B027  # optional
        """Keep the current values: no earlier epoch was as good."""

    def tensors(self, finished: bool) -> dict[str, Tensor]:
        """What a checkpoint holds besides the optimizer; after training has finished, only the result."""
        return {}

    def load(self, tensors: Mapping[str, Tensor], finished: bool) -> None:  # noqa: B027
        """Load what `tensors` returned, or raise a `ValueError`."""


@dataclass(frozen=True)
class Checkpoint:
    """A file with the state of training after its last epoch.

    key: a hash of everything that decides how training goes: a file with another key is not used.
    of: what is trained, and `hint`: what to do about a file that is not such a checkpoint, for the error.
    """

    path: Path
    kind: str
    key: str
    of: str
    hint: str


class Trainer:
    """Trains something, one epoch at a time.

    >>> class Line(Trainable):
    ...     device, steps = torch.device("cpu"), 1
    ...     slope = nn.Parameter(torch.zeros(()))
    ...     def groups(self):
    ...         return [(1.0, [self.slope])]
    ...     def batches(self, epoch):
    ...         yield torch.ones(3), torch.full((3,), 2.0)
    ...     def loss(self, inputs, targets):
    ...         return ((self.slope * inputs - targets) ** 2).mean()
    ...     def diverged(self, what, epoch):
    ...         return DivergedError(f"{what} not finite")
    >>> trainer = Trainer(Line(), Recipe("adam", epochs=2, rate=lambda epoch: 0.1))
    >>> trainer.run("Fitting", progress=False)
    >>> [round(epoch.loss, 2) for epoch in trainer.epochs]
    [4.0, 3.61]

    Args:
        trained: what is trained.
        recipe: how.
        optimizer: one that has made steps before; by default a new one.
        scaled: scale gradients up, where half precision would make the small ones zero.

    Attributes:
        epochs: how each epoch went.
    """

    def __init__(
        self,
        trained: Trainable,
        recipe: Recipe,
        *,
        optimizer: torch.optim.Optimizer | None = None,
        scaled: bool = False,
    ) -> None:
        self.trained, self.recipe = trained, recipe
        self.epochs: list[Epoch] = []
        self.scaler = torch.amp.GradScaler(trained.device.type, enabled=scaled)
        self._given = optimizer

    @cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer, made when needed: a checkpoint may bring other parameters."""
        return self.recipe.optimizer_of(self.trained.groups()) if self._given is None else self._given

    @property
    def kept(self) -> int:
        """The epoch to keep, counted from 1: the first of the best; the last one if nothing is held out."""
        accuracies = [-1.0 if epoch.accuracy is None else epoch.accuracy for epoch in self.epochs]
        best = max(accuracies, default=-1.0)
        return len(accuracies) if best < 0 else 1 + accuracies.index(best)

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or the last ones brought no gain."""
        done, patience = len(self.epochs), self.recipe.patience
        return done >= self.recipe.epochs or (patience is not None and done - self.kept >= patience)

    @property
    def finite(self) -> bool:
        """Whether all trained values, and the state of the optimizer, are finite numbers."""
        return all_finite([*parameters_of(self.optimizer), *optimizer_state(self.optimizer).values()])

    def run(self, title: str, *, progress: bool | None, checkpoint: Checkpoint | None = None) -> None:
        """Train to the end, from the checkpoint if its key is the same, and write it after every epoch."""
        if checkpoint is not None:
            self.resume(checkpoint)
        steps = self.trained.steps
        with progress_bar(progress, "steps") as bar:
            task = bar.add_task(
                title,
                total=steps * self.recipe.epochs,
                completed=steps * len(self.epochs),
                note=self.summary(),
            )

            def counted(batches: Iterator[Batch]) -> Iterator[Batch]:
                for batch in batches:
                    yield batch
                    bar.advance(task)

            while not self.finished:
                try:
                    loss = self.train(counted(self.trained.batches(len(self.epochs))))
                    accuracy = self.measure(counted(self.trained.held_out()))
                except DivergedError:
                    if checkpoint is not None:
                        storage.delete(checkpoint.path)  # it could only diverge again
                    raise
                self.note(Epoch(loss, accuracy))
                if checkpoint is not None:
                    self.save(checkpoint)
                bar.update(task, completed=steps * len(self.epochs), note=self.summary())
        self.optimizer.zero_grad()  # frees the gradients, which are as large as the parameters

    def train(self, batches: Iterable[Batch]) -> float:
        """One epoch; the mean loss."""
        epoch = len(self.epochs)
        set_rate(self.optimizer, self.recipe.rate(epoch))
        total, count = 0.0, 0
        with (
            self.trained.learning(),
            seeded(*self.recipe.seeds, epoch, "dropout", device=self.trained.device),
        ):
            for inputs, targets in batches:
                total += self.step(inputs, targets.to(self.trained.device)) * len(targets)
                count += len(targets)
        if not self.finite:
            raise self._diverged("the weights are")
        return total / count

    def step(self, inputs: Tensor, targets: Tensor) -> float:
        """One step; the loss before it."""
        loss = self.trained.loss(inputs, targets)
        if not math.isfinite(value := loss.item()):
            raise self._diverged("the loss is")
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        if self.recipe.clip is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(parameters_of(self.optimizer), self.recipe.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return value

    def measure(self, scored: Iterable[tuple[Tensor, Tensor]]) -> float | None:
        """The share of targets with the highest score; None without patience, or without samples."""
        right, count = 0, 0
        for scores, targets in scored:
            if not scores.isfinite().all():
                raise self._diverged("the scores are")
            right += int((scores.argmax(dim=1).cpu() == targets).sum())
            count += len(targets)
        return right / count if count and self.recipe.patience is not None else None

    def note(self, epoch: Epoch) -> None:
        """Record an epoch, and keep it if no earlier one was as good."""
        self.epochs.append(epoch)
        if self.kept == len(self.epochs):
            self.trained.keep()

    def summary(self) -> str:
        """How many epochs are done, and how the last one went."""
        if not self.epochs:
            return ""
        last = self.epochs[-1]
        held_out = "" if last.accuracy is None else f" · held-out {last.accuracy:.3f}"
        return f"epoch {len(self.epochs)} · loss {last.loss:.3f}{held_out}"

    # ---- files

    def save(self, checkpoint: Checkpoint) -> None:
        """Write everything that is needed to continue."""
        tensors = self.trained.tensors(self.finished)
        if not self.finished:
            remembered = optimizer_state(self.optimizer)
            tensors |= {OPTIMIZER + name: value for name, value in remembered.items()}
        header = {
            "key": checkpoint.key,
            "epochs": [asdict(epoch) for epoch in self.epochs],
            "scaler": self.scaler.state_dict(),
        }
        storage.write(checkpoint.path, checkpoint.kind, header, as_arrays(tensors))

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue from the file, if its key is the same."""
        path = checkpoint.path
        if not path.exists():
            return
        try:
            header, arrays = storage.read(path, checkpoint.kind)
            with storage.believed(path):
                schema.require(header, CHECKPOINT, "header")
                if header["key"] == checkpoint.key:
                    self._take(header, as_tensors(arrays))
        except (DamagedFileError, MismatchError) as error:
            raise DamagedFileError(
                f"'{path}' is not a checkpoint of {checkpoint.of}, or is damaged. {checkpoint.hint}"
            ) from error

    def _take(self, header: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
        self.epochs = [Epoch(**epoch) for epoch in header["epochs"]]
        if not 1 <= len(self.epochs) <= self.recipe.epochs:
            raise ValueError(f"it has {len(self.epochs)} epochs, not 1 to {self.recipe.epochs}")
        remembered = split_off(OPTIMIZER, tensors)
        self.trained.load(tensors, self.finished)
        if not self.finished:
            load_optimizer_state(self.optimizer, remembered)
            if header["scaler"] and self.scaler.is_enabled():  # it may have started on another device
                self.scaler.load_state_dict(header["scaler"])
        elif remembered:
            raise ValueError("it holds more than the result of a training")
        if not self.finite:
            raise ValueError("it holds NaN or infinity")

    def _diverged(self, what: str) -> DivergedError:
        return self.trained.diverged(what, len(self.epochs) + 1)


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether none of them holds NaN or infinity."""
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


def as_arrays(tensors: Mapping[str, Tensor]) -> storage.Arrays:
    """Tensors as files hold them."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def as_tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """The inverse of `as_arrays`."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def split_off(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Remove the tensors whose names begin with the prefix, and return them without it.

    >>> tensors = {"head": torch.zeros(1), "optimizer.0.step": torch.ones(1)}
    >>> split_off("optimizer.", tensors), list(tensors)
    ({'0.step': tensor([1.])}, ['head'])
    """
    names = [name for name in tensors if name.startswith(prefix)]
    return {name.removeprefix(prefix): tensors.pop(name) for name in names}
