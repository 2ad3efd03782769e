"""What methods that train share: epochs over a task, a head that grows, a state that outlives the process.

A learner of this kind has some parameters, which a task trains with augmented images and its own
optimizer, and a head over the classes that have come so far. The trainer saves all of that after every epoch,
so that an interrupted task resumes from there, with the same result.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from layup import storage
from layup.backbones import BATCH, EAGER
from layup.benchmark.methods.head import UNIFORM, GrowingHead
from layup.benchmark.methods.learner import ONLY, Learner, Method, Report, Setup
from layup.errors import BadImageError, DamagedFileError, DivergedError, InputError, MismatchError
from layup.features import survey
from layup.images import ImageSource, require_one_label_each
from layup.progress import progress_bar
from layup.seeds import seeded
from layup.tuning import (
    Batch,
    Checkpoint,
    Groups,
    Pictures,
    Recipe,
    Trainable,
    Trainer,
    as_arrays,
    as_tensors,
    augmented,
    grouped,
    load_optimizer_state,
    optimizer_state,
    require_augmentation,
    split_off,
)

KIND, SCRATCH = "learner", "task"  # of files
HEAD, OPTIMIZER = "head", "optimizer."


@dataclass(frozen=True)
class GradientMethod(Method):
    """What methods that train share; each has its own defaults for how long and how fast.

    epochs: passes over the images of a task.
    learning_rate: of the head, in the first epoch; other parameters may have a fixed share of it.
    batch_size: images per step.
    augmentation: of the training images, for those that read images: a name of `AUGMENTATIONS`.
    """

    learner: ClassVar[type[GradientLearner]]
    initial: ClassVar[str] = UNIFORM
    """How its authors initialise the rows of a head."""
    cosine: ClassVar[bool] = False
    """Whether the head's scores are cosines."""
    optimizer: ClassVar[str] = "sgd"
    weight_decay: ClassVar[float] = 0.0
    clip: ClassVar[float | None] = None
    """The largest norm of all gradients together, if there is one."""
    released: ClassVar[str | None] = "ranpac"  # their images are prepared in the same way
    settings: ClassVar[tuple[str, ...]] = ("cil", "dil")
    may_be_zero: ClassVar[tuple[str, ...]] = ()
    """The options that may be zero; all others are numbers above zero."""
    exempt: ClassVar[Mapping[str, str]] = {
        "order": "every step starts from where the last one led",
        "batches": "every task is trained by itself, for all its epochs",
    }

    epochs: int
    learning_rate: float
    batch_size: int

    def resolved(self, setup: Setup) -> Self:
        """The method itself; raises if it cannot work with this setup."""
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name == "augmentation":
                require_augmentation(value)
                continue
            whole, zero = option.type == "int", option.name in self.may_be_zero
            number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
            if not number or not 0 <= value < math.inf or (value == 0 and not zero):
                allowed = "a whole number ≥ 1" if whole else "a number ≥ 0" if zero else "a number > 0"
                raise InputError(
                    f"{self.name!r} with {option.name} = {value!r} is impossible. Use {allowed}."
                )
        if setup.backbone.engine != EAGER:
            raise InputError(
                f"{self.name!r} trains through the network, and the engine {setup.backbone.engine!r} "
                "can only compute it. Leave the engine out.",
                about="engine",
            )
        if setup.session is not None:
            raise InputError(
                f"{self.name!r} trains on every task, and so has no first session. Leave the adapter out.",
                about="adapter",
            )
        if setup.setting not in self.settings:
            raise InputError(
                f"{self.name!r} cannot run in the setting {setup.setting!r}: it passes several times over a "
                f"task, and a stream has only one pass. Use {' or '.join(map(repr, self.settings))}."
            )
        return self

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        return self.learning_rate

    def begin(self, setup: Setup) -> Learner:
        """A learner that knows nothing yet."""
        return self.learner(self.resolved(setup), setup)

    def resume(self, setup: Setup, path: Path) -> Learner:
        """The learner that was saved."""
        learner = self.learner(self.resolved(setup), setup)
        learner.load(path)
        return learner


class GradientLearner(Learner, ABC):
    """A learner that trains on every task, with a head that grows."""

    def __init__(self, method: Any, setup: Setup) -> None:
        self.method, self.setup = method, setup
        self.backbone = setup.backbone
        width, device = self.backbone.embedding_width, self.backbone.device
        self.head = GrowingHead(width, device, method.initial, cosine=method.cosine)
        self.tasks: list[list[str]] = []  # the classes of each
        self.losses: list[float] = []  # of the epochs of the last one
        self._optimizer: torch.optim.Optimizer | None = None
        self._remembered: dict[str, Tensor] = {}  # of the optimiser, by a learner from a file

    # ---- what the kinds of learner differ in

    @abstractmethod
    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """What a step minimises; the targets are indices of the head's classes."""

    @abstractmethod
    def scores(self, inputs: Tensor) -> Tensor:
        """(B, classes): one score for each of the head's classes, for each image by itself."""

    @abstractmethod
    def groups(self) -> Groups:
        """What the current task trains."""

    def require_room(self) -> None:
        """Refuse one more task, before anything is begun."""

    def start(self) -> None:
        """Make room for a new task, `tasks[-1]`, whose classes the head already has."""

    def finish(self, images: Sequence[ImageSource], targets: NDArray[np.int64]) -> None:
        """Do what comes after the epochs of a task."""

    def state(self) -> dict[str, Tensor]:
        """All that was learned, besides the head."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave, after as many tasks as this learner has."""

    def training_batches(
        self, images: Sequence[ImageSource], targets: NDArray[np.int64], epoch: int
    ) -> Iterator[Batch]:
        """An epoch of augmented images, in a random order."""
        seeds = (self.setup.seed, len(self.tasks), epoch)
        transform = augmented(self.backbone.preprocessing, self.method.augmentation)
        pictures = Pictures(images, targets, transform, seeds)
        workers = self.setup.reading.get("workers")
        return pictures.shuffled(np.arange(len(images)), self.method.batch_size, workers)

    def plain_batches(self, images: Sequence[ImageSource], targets: NDArray[np.int64]) -> Iterator[Batch]:
        """The images as they are, in order."""
        pictures = Pictures(images, targets, self.backbone.preprocessing.transform)
        return pictures.batches(range(len(images)), BATCH, self.setup.reading.get("workers"))

    # ---- the verbs

    @torch.inference_mode(False)  # whatever the caller does
    @torch.enable_grad()
    @torch.random.fork_rng(devices=[])  # other code that draws numbers is not disturbed
    def learn(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Train on a task. A learner that was interrupted cannot be used: resume a saved one."""
        require_one_label_each(images, labels)
        self.require_room()
        reading = self.setup.reading
        seen = survey(images, reading.get("workers"), False if self._streams else reading.get("progress"))
        if seen.bad:
            raise BadImageError(seen.bad[0].reason)
        if not labels:
            raise InputError("There is no image in this task. Give at least one.")
        self.tasks.append(sorted(set(labels)))
        with seeded(self.setup.seed, len(self.tasks), "start", device=self.backbone.device):
            self.head.grow(self.tasks[-1])
            self.start()
        indices = {name: index for index, name in enumerate(self.head.classes)}
        targets = np.array([indices[label] for label in labels], np.int64)
        self._train(_Task(self, images, targets), seen.digests)
        with seeded(self.setup.seed, len(self.tasks), "finish", device=self.backbone.device):
            self.finish(images, targets)

    def predict(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """The label of every image."""
        found: list[str] = []
        classes = self.head.classes
        if not classes:
            raise InputError("This learner knows no class. Teach it first.")
        nothing = np.zeros(len(images), np.int64)
        with torch.inference_mode(), progress_bar(self.setup.reading.get("progress")) as bar:
            task = bar.add_task("Predicting", total=len(images), note="")
            for inputs, _ in self.plain_batches(images, nothing):
                scores = self.scores(inputs)
                if not scores.isfinite().all():  # the very last step may have been too long
                    raise self.diverged("the scores are")
                found += [classes[best] for best in scores.argmax(dim=1).tolist()]
                bar.advance(task, len(inputs))
        return {ONLY: found}

    def reports(self) -> dict[str, Report]:
        """The mean loss of every epoch of the last task, and the size of all that is kept."""
        size = sum(tensor.numel() * tensor.element_size() for tensor in self._tensors().values())
        return {ONLY: Report({"losses": self.losses}, size)}

    # ---- files

    def save(self, path: Path) -> None:
        """Write everything that is needed to go on."""
        header = {**self._about(), "classes": self.head.classes, "losses": self.losses}
        tensors = self._tensors()
        if self._streams:
            remembered = self._remembered if self._optimizer is None else optimizer_state(self._optimizer)
            tensors |= {OPTIMIZER + name: value for name, value in remembered.items()}
        storage.write(path, KIND, header, as_arrays(tensors))
        if self.setup.scratch is not None and self.setup.scratch.exists():
            storage.delete(self.setup.scratch)  # the task is in the file now

    def load(self, path: Path) -> None:
        """Become the learner that was saved."""
        header, arrays = storage.read(path, KIND)
        with storage.believed(path):
            for name, mine in self._about().items():
                if name != "learned" and header[name] != mine:
                    raise MismatchError(
                        f"'{path}' holds a learner with {name} {header[name]!r}, and not {mine!r}."
                    )
            self.tasks, self.losses = header["learned"], header["losses"]
            tensors = as_tensors(arrays)
            self._remembered = split_off(OPTIMIZER, tensors)
            self._take(tensors, header["classes"])

    def _about(self) -> dict[str, Any]:
        return {
            "method": self.method.name,
            "options": self.method.options(),
            "backbone": self.backbone.fingerprint,
            "setting": self.setup.setting,
            "seed": self.setup.seed,
            "learned": self.tasks,
        }

    def _tensors(self) -> dict[str, Tensor]:
        return {**self.state(), HEAD: self.head.values()}

    def _take(self, tensors: dict[str, Tensor], classes: list[str]) -> None:
        self.head.take(classes, tensors.pop(HEAD))
        self.restore(tensors)

    # ---- training

    @property
    def _streams(self) -> bool:
        """Whether batches are steps of one pass, and the optimiser carries on from one to the next."""
        return self.setup.setting == "ocl"

    @property
    def recipe(self) -> Recipe:
        """How the current task is trained: on a stream by one Adam, in one pass."""
        method = self.method
        return Recipe(
            "adam" if self._streams else method.optimizer,
            1 if self._streams else method.epochs,
            method.rate,
            weight_decay=method.weight_decay,
            clip=method.clip,
            seeds=(self.setup.seed, len(self.tasks)),
        )

    def _train(self, task: _Task, digests: Sequence[bytes]) -> None:
        if self._streams:
            self._optimizer = self._going_on()
        trainer = Trainer(task, self.recipe, optimizer=self._optimizer)
        checkpoint = None
        if not self._streams and self.setup.scratch is not None:
            decides = repr([self._about(), task.targets.tolist()]).encode() + b"".join(digests)
            key = blake2b(decides, digest_size=16).hexdigest()
            hint = "Delete it, and the task begins anew."
            checkpoint = Checkpoint(self.setup.scratch, SCRATCH, key, "a task", hint)
        shown = False if self._streams else self.setup.reading.get("progress")
        trainer.run("Training", progress=shown, checkpoint=checkpoint)
        self.losses = [epoch.loss for epoch in trainer.epochs]

    def diverged(self, what: str) -> DivergedError:
        """The error that says so."""
        return DivergedError(
            f"{self.method.name!r} diverged in task {len(self.tasks)}: {what} not finite any more. Use a "
            f"learning rate below {self.method.learning_rate:g}.",
            about="learning_rate",
        )

    def _going_on(self) -> torch.optim.Optimizer:
        """The optimizer of a stream: that of the batch before, with what is new."""
        groups, optimizer = self.groups(), self._optimizer
        if optimizer is None:
            optimizer = self.recipe.optimizer_of(groups)
            try:
                load_optimizer_state(optimizer, self._remembered)
            except ValueError as error:
                raise DamagedFileError(f"The unfinished run cannot go on: {error}. Begin it anew.") from error
            self._remembered = {}
        else:
            for group in grouped(groups[len(optimizer.param_groups) :]):
                optimizer.add_param_group(group)
        return optimizer


class _Task(Trainable):
    """A learner on the images of a task."""

    def __init__(
        self, learner: GradientLearner, images: Sequence[ImageSource], targets: NDArray[np.int64]
    ) -> None:
        self.learner, self.images, self.targets = learner, images, targets
        self.device = learner.backbone.device
        self.steps = math.ceil(len(images) / learner.method.batch_size)

    def groups(self) -> Groups:
        """What the task trains."""
        return self.learner.groups()

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The learner's own."""
        return self.learner.loss(inputs, targets)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The images of the task."""
        return self.learner.training_batches(self.images, self.targets, epoch)

    def tensors(self, finished: bool) -> dict[str, Tensor]:
        """All that was learned."""
        return self.learner._tensors()

    def load(self, tensors: Mapping[str, Tensor], finished: bool) -> None:
        """Take it over."""
        self.learner._take(dict(tensors), self.learner.head.classes)

    def diverged(self, what: str, epoch: int) -> DivergedError:
        """The error that says so."""
        return self.learner.diverged(what)


def own_classes_loss(
    head: GrowingHead,
    embedding: Tensor,
    targets: Tensor,
    classes: Sequence[str],
    *,
    scale: float = 1.0,
    margin: float = 0.0,
) -> Tensor:
    """Cross-entropy of scale · (scores − margin for the right one) over the task's classes alone.

    These are some of the head's. The same as over all classes with the scores of the others at −∞.
    """
    index = {name: i for i, name in enumerate(head.classes)}
    own = torch.full((len(index),), -1, device=targets.device)
    own[[index[name] for name in classes]] = torch.arange(len(classes), device=targets.device)
    scores, right = head(embedding, classes), own[targets]
    if margin:
        scores = scores - margin * functional.one_hot(right, len(classes))
    return functional.cross_entropy(scale * scores, right)
