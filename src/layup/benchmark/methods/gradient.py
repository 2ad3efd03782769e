"""What methods that train share: epochs over a task, a head that grows, a state that outlives the process.

A learner of this kind has some parameters, which a task trains with augmented images and an optimiser of its
own, and a head over the classes that have come so far. After every epoch all of that is put away, so that the
same task goes on from there after a break, with the same result.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from layup import storage
from layup.backbones import BATCH, EAGER
from layup.benchmark.methods.head import GrowingHead
from layup.benchmark.methods.learner import ONLY, Learner, Method, Report, Setup
from layup.errors import BadImageError, DamagedFileError, DivergedError, InputError, MismatchError
from layup.features import survey
from layup.images import ImageSource, require_one_label_each
from layup.progress import progress_bar
from layup.seeds import seed_of, seeded
from layup.tuning import Batch, Pictures, load_optimizer_state, optimizer_state

Groups: TypeAlias = list[tuple[float, list[nn.Parameter]]]
"""Parameters with the multiple of the learning rate at which they learn."""

KIND, SCRATCH = "learner", "lesson"  # of files
HEAD, OPTIMIZER = "head", "optimizer."


@dataclass(frozen=True)
class GradientMethod(Method):
    """What methods that train share; each has its own defaults for how long and how fast.

    epochs: passes over the images of a task.
    learning_rate: of the head, in the first epoch; what else is trained may have a fixed share of it.
    batch_size: images a step.
    """

    learner: ClassVar[type[GradientLearner]]
    optimizer: ClassVar[str] = "sgd"
    weight_decay: ClassVar[float] = 0.0
    clip: ClassVar[float | None] = None
    """The largest norm of all gradients together, if there is one."""
    settings: ClassVar[tuple[str, ...]] = ("cil", "dil")
    may_be_zero: ClassVar[tuple[str, ...]] = ()
    """The options that can be switched off so; all others are numbers above zero."""
    exempt: ClassVar[Mapping[str, str]] = {
        "the order of lessons and images does not matter": "every step starts from where the last one led",
        "one lesson or many are the same": "every lesson is trained by itself, for all its epochs",
    }

    epochs: int
    learning_rate: float
    batch_size: int

    def settled(self, setup: Setup) -> Self:
        """The method itself, if it can work so."""
        for option in fields(self):
            value = getattr(self, option.name)
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
                f"task, and a stream has but one pass. Use {' or '.join(map(repr, self.settings))}."
            )
        return self

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        return self.learning_rate

    def begin(self, setup: Setup) -> Learner:
        """A learner that knows nothing yet."""
        return self.learner(self.settled(setup), setup)

    def resume(self, setup: Setup, path: Path) -> Learner:
        """The learner that was saved."""
        learner = self.learner(self.settled(setup), setup)
        learner.load(path)
        return learner


class GradientLearner(Learner, ABC):
    """A learner that trains on every task, with a head that grows."""

    def __init__(self, method: Any, setup: Setup) -> None:
        self.method, self.setup = method, setup
        self.backbone = setup.backbone
        self.head = GrowingHead(self.backbone.embedding_width, self.backbone.device)
        self.lessons: list[list[str]] = []  # the classes of each
        self.losses: list[float] = []  # of the epochs of the last one
        self._optimizer: torch.optim.Optimizer | None = None
        self._remembered: dict[str, Tensor] = {}  # of the optimiser, by a learner from a file

    # ---- what the kinds of learner differ in

    @abstractmethod
    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """What a step makes smaller; the targets are places among the head's classes."""

    @abstractmethod
    def scores(self, inputs: Tensor) -> Tensor:
        """(B, classes): one score for each of the head's classes, for each image by itself."""

    @abstractmethod
    def groups(self) -> Groups:
        """What the current lesson trains."""

    def require_room(self) -> None:
        """Refuse one lesson more, before anything of it is begun."""

    def start(self) -> None:
        """Make room for a new lesson, `lessons[-1]`, whose classes the head has already."""

    def finish(self, images: Sequence[ImageSource], targets: NDArray[np.int64]) -> None:
        """Do what comes after the epochs of a lesson."""

    def state(self) -> dict[str, Tensor]:
        """All that was learned, besides the head."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave, after as many lessons as this learner has."""

    def training_batches(
        self, images: Sequence[ImageSource], targets: NDArray[np.int64], epoch: int
    ) -> Iterator[Batch]:
        """An epoch, at random, augmented."""
        seeds = (self.setup.seed, len(self.lessons), epoch)
        order = np.random.default_rng(seed_of(*seeds, "order")).permutation(len(images))
        pictures = Pictures(images, targets, self.backbone.preprocessing.augmentation, seeds)
        return pictures.batches(order, self.method.batch_size, self.setup.reading.get("workers"))

    def plain_batches(self, images: Sequence[ImageSource], targets: NDArray[np.int64]) -> Iterator[Batch]:
        """The images as they are, in order."""
        pictures = Pictures(images, targets, self.backbone.preprocessing.transform)
        return pictures.batches(range(len(images)), BATCH, self.setup.reading.get("workers"))

    # ---- the verbs

    @torch.inference_mode(False)  # whatever the caller does
    @torch.enable_grad()
    @torch.random.fork_rng(devices=[])  # whoever else draws numbers is not disturbed
    def learn(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Train on a lesson. A learner that was interrupted in it is of no use: resume a saved one."""
        require_one_label_each(images, labels)
        self.require_room()
        reading = self.setup.reading
        seen = survey(images, reading.get("workers"), False if self._streams else reading.get("progress"))
        if seen.bad:
            raise BadImageError(seen.bad[0].reason)
        if not labels:
            raise InputError("There is no image in this lesson. Give at least one.")
        self.lessons.append(sorted(set(labels)))
        with seeded(self.setup.seed, len(self.lessons), "start", device=self.backbone.device):
            self.head.grow(self.lessons[-1])
            self.start()
        places = {name: place for place, name in enumerate(self.head.classes)}
        targets = np.array([places[label] for label in labels], np.int64)
        key = blake2b(repr([self._about(), list(labels)]).encode() + b"".join(seen.digests)).hexdigest()
        self._train(images, targets, key)
        with seeded(self.setup.seed, len(self.lessons), "finish", device=self.backbone.device):
            self.finish(images, targets)

    def answers(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """The label of every image."""
        found: list[str] = []
        classes = self.head.classes
        if not classes:
            raise InputError("This learner knows no class. Teach it first.")
        nothing = np.zeros(len(images), np.int64)
        with torch.inference_mode(), progress_bar(self.setup.reading.get("progress")) as bar:
            task = bar.add_task("Looking", total=len(images), note="")
            for inputs, _ in self.plain_batches(images, nothing):
                scores = self.scores(inputs)
                if not scores.isfinite().all():  # the very last step may have been too long
                    raise self.diverged("the scores are")
                found += [classes[best] for best in scores.argmax(dim=1).tolist()]
                bar.advance(task, len(inputs))
        return {ONLY: found}

    def reports(self) -> dict[str, Report]:
        """The mean loss of every epoch of the last lesson, and the size of all that is kept."""
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
        storage.write(path, KIND, header, _as_arrays(tensors))
        if self.setup.scratch is not None and self.setup.scratch.exists():
            storage.delete(self.setup.scratch)  # the lesson is in the file now

    def load(self, path: Path) -> None:
        """Become the learner that was saved."""
        header, arrays = storage.read(path, KIND)
        with storage.believed(path):
            for name, mine in self._about().items():
                if name != "lessons" and header[name] != mine:
                    raise MismatchError(
                        f"'{path}' holds a learner with {name} {header[name]!r}, and not {mine!r}."
                    )
            self.lessons, self.losses = header["lessons"], header["losses"]
            self._take(_as_tensors(arrays), header["classes"])

    def _about(self) -> dict[str, Any]:
        return {
            "method": self.method.name,
            "options": self.method.options(),
            "backbone": self.backbone.fingerprint,
            "setting": self.setup.setting,
            "seed": self.setup.seed,
            "lessons": self.lessons,
        }

    def _tensors(self) -> dict[str, Tensor]:
        return {**self.state(), HEAD: self.head.values()}

    def _take(self, tensors: dict[str, Tensor], classes: list[str]) -> None:
        self.head.take(classes, tensors.pop(HEAD))
        self._remembered = {
            name.removeprefix(OPTIMIZER): tensors.pop(name)
            for name in list(tensors)
            if name.startswith(OPTIMIZER)
        }
        self.restore(tensors)

    # ---- training

    @property
    def _streams(self) -> bool:
        """Whether lessons are steps of one pass, and the optimiser goes on from one to the next."""
        return self.setup.setting == "ocl"

    def _train(self, images: Sequence[ImageSource], targets: NDArray[np.int64], key: str) -> None:
        scratch = None if self._streams else self.setup.scratch
        self.losses = []
        if scratch is not None and scratch.exists():
            try:
                header, arrays = storage.read(scratch, SCRATCH)
                with storage.believed(scratch):
                    if header["key"] == key:
                        self.losses = header["losses"]
                        self._take(_as_tensors(arrays), header["classes"])
            except DamagedFileError as error:
                raise DamagedFileError(
                    f"'{scratch}' holds no lesson to go on with, or is damaged. Delete it, and the lesson "
                    "begins anew."
                ) from error
        optimizer = self._going_on()
        epochs = 1 if self._streams else self.method.epochs
        steps = math.ceil(len(images) / self.method.batch_size)
        shown = False if self._streams else self.setup.reading.get("progress")
        with progress_bar(shown, "steps") as bar:
            task = bar.add_task(
                "Training", total=steps * epochs, completed=steps * len(self.losses), note=self._note()
            )
            while len(self.losses) < epochs:
                epoch = len(self.losses)
                for group in optimizer.param_groups:
                    group["lr"] = group["pace"] * self.method.rate(epoch)
                total = 0.0
                with seeded(self.setup.seed, len(self.lessons), epoch, "steps", device=self.backbone.device):
                    for inputs, aims in self.training_batches(images, targets, epoch):
                        total += self._step(optimizer, inputs, aims.to(self.backbone.device)) * len(aims)
                        bar.advance(task)
                self.losses.append(total / len(images))
                bar.update(task, note=self._note())
                if scratch is not None:
                    tensors = self._tensors()
                    tensors |= {OPTIMIZER + name: t for name, t in optimizer_state(optimizer).items()}
                    header = {"key": key, "classes": self.head.classes, "losses": self.losses}
                    storage.write(scratch, SCRATCH, header, _as_arrays(tensors))
        optimizer.zero_grad()  # gradients are as large as what is trained
        self._optimizer = optimizer if self._streams else None

    def _step(self, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> float:
        loss = self.loss(inputs, targets)
        if not math.isfinite(value := loss.item()):
            raise self.diverged("the loss is")
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if self.method.clip is not None:
            every = [value for group in optimizer.param_groups for value in group["params"]]
            nn.utils.clip_grad_norm_(every, self.method.clip)
        optimizer.step()
        return value

    def diverged(self, what: str) -> DivergedError:
        """The error that says so."""
        return DivergedError(
            f"{self.method.name!r} diverged in lesson {len(self.lessons)}: {what} not finite any more. Use a "
            f"learning rate below {self.method.learning_rate:g}.",
            about="learning_rate",
        )

    def _going_on(self) -> torch.optim.Optimizer:
        """The optimiser of this lesson: a new one, but on a stream the old one with what is new."""
        groups = [{"params": params, "pace": pace} for pace, params in self.groups()]
        optimizer = self._optimizer
        if optimizer is None:
            rate, decay = self.method.learning_rate, self.method.weight_decay
            if self.method.optimizer == "adam" or self._streams:
                optimizer = torch.optim.Adam(groups, lr=rate, weight_decay=decay)
            else:
                optimizer = torch.optim.SGD(groups, lr=rate, momentum=0.9, weight_decay=decay)
            if self._remembered:
                try:
                    load_optimizer_state(optimizer, self._remembered)
                except ValueError as error:
                    raise DamagedFileError(
                        f"The unfinished run cannot go on: {error}. Begin it anew."
                    ) from error
                self._remembered = {}
        else:
            for group in groups[len(optimizer.param_groups) :]:
                optimizer.add_param_group(group)
        return optimizer

    def _note(self) -> str:
        return f"epoch {len(self.losses)} · loss {self.losses[-1]:.3f}" if self.losses else ""


def own_classes_loss(head: GrowingHead, embedding: Tensor, targets: Tensor, classes: Sequence[str]) -> Tensor:
    """Cross-entropy over some of the head's classes alone, those of the lesson.

    The same as over all classes with the scores of the others at −∞.
    """
    place = {name: i for i, name in enumerate(head.classes)}
    own = torch.full((len(place),), -1, device=targets.device)
    own[[place[name] for name in classes]] = torch.arange(len(classes), device=targets.device)
    return functional.cross_entropy(head(embedding, classes), own[targets])


def _as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def _as_tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
