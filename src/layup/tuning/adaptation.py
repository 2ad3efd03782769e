"""First-session adaptation (the paper's phase A): tune an adapter on the first task, then freeze it.

A head over the task's classes is put on the network's final embedding; adapter and head learn together
with cross-entropy on augmented images, and the head is thrown away. Held-out images of the task, never other
data, decide which epoch is kept and when to stop. It takes epochs × images forward and backward passes, and
the tuned values are held five times (gradient, two moments, and the best so far).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from hashlib import blake2b
from json import dumps
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from layup.adapters import AdaptedBackbone
from layup.backbones import Backbone
from layup.errors import BadImageError, DivergedError, InputError, LayupError
from layup.features import Survey, survey
from layup.images import ImageSource, require_one_label_each
from layup.seeds import seeded
from layup.tuning.augmentation import augmented
from layup.tuning.config import FirstSession, split
from layup.tuning.optimizers import Groups, annealed
from layup.tuning.pictures import Batch, Pictures
from layup.tuning.trainer import Checkpoint, Recipe, Trainable, Trainer, all_finite

KIND = "first-session"
COSINE_SCALE = 30.0


@torch.inference_mode(False)  # even if the caller turned it on
@torch.enable_grad()
@torch.random.fork_rng(devices=[])  # the caller's random numbers stay the same
def adapt(
    backbone: Backbone,
    images: Sequence[ImageSource],
    labels: Sequence[str],
    session: FirstSession | None = None,
    *,
    strict: bool = False,
    checkpoint: str | Path | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> AdaptedBackbone:
    """Tune an adapter of the backbone on images with their labels; the backbone itself stays as it is.

    The `record` of the result says how it went: the session's values, every epoch, and which was kept.
    Images that cannot be used are left out; with `strict` the first one raises an error. With a `checkpoint`,
    the state after every epoch is written to that file, and a run of the same session on the same images
    continues from there; if it had finished, its result is returned immediately.

    >>> from layup.backbones import load_backbone
    >>> from layup.cli.digits import digits_tasks
    >>> images, labels = digits_tasks()[0].train
    >>> adapted = adapt(load_backbone("vit-nano"), images[:40], labels[:40], FirstSession("vpt", epochs=2))
    >>> len(adapted.record["epochs"]), adapted.tuned_values
    (2, 7680)
    """
    session = FirstSession() if session is None else session
    require_one_label_each(images, labels)
    _require_several(labels)
    adapted = session.attach(backbone)
    session = replace(session, adapter=adapted.adapter)
    seen = survey(images, workers, progress)
    if seen.bad and (strict or not seen.kept):
        raise BadImageError(seen.bad[0].reason)
    data = _TaskData(images, labels, seen, session)
    tuning = _Tuning(adapted, session, data, workers)
    trainer = tuning.trainer()
    saved = None
    if checkpoint is not None:
        key = _key(session, backbone, data.labels, seen.digests)
        hint = "Delete it, or name another file."
        saved = Checkpoint(Path(checkpoint), KIND, key, "a first session", hint)
    trainer.run("Adapting", progress=progress, checkpoint=saved)
    return tuning.result(trainer)


def parts(
    images: Sequence[ImageSource],
    labels: Sequence[str],
    session: FirstSession,
    workers: int | None = None,
    progress: bool | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which images a session trains on, and which it holds out; what it cannot use is in neither.

    >>> from layup.cli.digits import digits_tasks
    >>> images, labels = digits_tasks()[0].train
    >>> training, held_out = parts(images[:40], labels[:40], FirstSession("vpt"))
    >>> len(training), len(held_out)
    (32, 8)
    """
    seen = survey(images, workers, progress)
    data = _TaskData(images, labels, seen, session)
    kept = np.array(seen.kept)
    return kept[data.training], kept[data.held_out]


class _TaskData:
    """The images that can be used, their labels, and which of them to train on and which to hold out."""

    def __init__(
        self, images: Sequence[ImageSource], labels: Sequence[str], seen: Survey, session: FirstSession
    ) -> None:
        self.images = [images[index] for index in seen.kept]
        self.labels = [labels[index] for index in seen.kept]
        self.classes = _require_several(self.labels)
        self.targets = np.searchsorted(self.classes, self.labels)
        self.training, self.held_out = np.arange(len(self.images)), np.arange(0)
        if session.patience is not None:
            self.training, held_out = split(self.targets, session.held_out, session.seed)
            known = {seen.digests[index] for index in self.training}
            self.held_out = held_out[[seen.digests[index] not in known for index in held_out]]
            if not len(self.held_out):
                raise InputError(
                    "All images that could be held out are copies of others. Learn more distinct images in "
                    "the first session, or learn without an adapter."
                )
        # Where nothing is held out, a few images still show whether the network's scores are finite.
        self.scored = self.held_out if len(self.held_out) else self.training[: session.batch_size]


def _require_several(labels: Sequence[str]) -> list[str]:
    """The classes, sorted, if there are at least two."""
    classes = sorted(set(labels))
    if len(classes) < 2:
        only = f"a single class ({classes[0]!r})" if classes else "no images"
        raise InputError(
            f"A backbone cannot be adapted to {only}. Learn at least two classes in the first session, or "
            "learn without an adapter."
        )
    return classes


class _Tuning(Trainable):
    """The adapter and a head, in training."""

    def __init__(
        self, adapted: AdaptedBackbone, session: FirstSession, data: _TaskData, workers: int | None = None
    ) -> None:
        self.adapted, self.session, self.data, self.workers = adapted, session, data, workers
        self.device = adapted.device
        self.steps = sum(math.ceil(len(part) / session.batch_size) for part in (data.training, data.scored))
        with seeded(session.seed, "head"):
            self.head = HEADS[session.head](adapted.embedding_width, len(data.classes)).to(self.device)
        self.tuned = adapted.state()
        self.best: dict[str, Tensor] = {}
        # Half precision pays off on a GPU only. Without bfloat16, small gradients must be scaled up.
        self.half = torch.bfloat16
        if self.on_gpu and not _has_bfloat16(self.device):
            self.half = torch.float16

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def trainer(self) -> Trainer:
        """What trains it."""
        session = self.session
        recipe = Recipe(
            session.optimizer,
            session.epochs,
            lambda epoch: annealed(session.learning_rate, epoch, session.epochs),
            weight_decay=session.weight_decay,
            patience=session.patience,
            seeds=(session.seed,),
        )
        return Trainer(self, recipe, scaled=self.on_gpu and self.half is torch.float16)

    def groups(self) -> Groups:
        """The values that the adapter added, and the head."""
        tuned, head = list(self.tuned.values()), list(self.head.parameters())
        return [(self.adapted.adapter.lr_multiplier, tuned), (1.0, head)]

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The training images, shuffled and augmented."""
        seeds = (self.session.seed, epoch)
        transform = augmented(self.adapted.preprocessing, self.session.augmentation)
        pictures = Pictures(self.data.images, self.data.targets, transform, seeds)
        return self._read(pictures.shuffled(self.data.training, self.session.batch_size, self.workers))

    def held_out(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Scores of the held-out images, not augmented."""
        transform = self.adapted.preprocessing.transform
        pictures = Pictures(self.data.images, self.data.targets, transform)
        plain = pictures.batches(self.data.scored, self.session.batch_size, self.workers)
        for pixels, targets in self._read(plain):
            with torch.inference_mode():
                scores = self.head(self.adapted.embed(pixels))
            yield scores, targets

    def _read(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        try:
            yield from batches
        except BadImageError as error:
            raise LayupError(f"An image changed while the backbone was adapted to it: {error}") from None

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy over the task's classes."""
        with torch.autocast(self.device.type, dtype=self.half, enabled=self.on_gpu):
            embedding = self.adapted.embed(inputs)
        return functional.cross_entropy(self.head(embedding), targets)

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Let the adapter's values learn, then freeze them again."""
        self.adapted.train()
        try:
            yield
        finally:
            self.adapted.train(False)

    def keep(self) -> None:
        """Copy the tuned values; without patience the last epoch is kept, without a copy."""
        going_on = self.session.patience is not None
        self.best = {
            name: value.detach().clone() if going_on else value for name, value in self.tuned.items()
        }

    def tensors(self, finished: bool) -> dict[str, Tensor]:
        """The best epoch and, to continue, the last one with its head."""
        found = {f"best.{name}": value for name, value in self.best.items()}
        if not finished:
            found |= {f"tuned.{name}": value for name, value in self.tuned.items()}
            found |= {f"head.{name}": value for name, value in self.head.state_dict().items()}
        return found

    def load(self, tensors: Mapping[str, Tensor], finished: bool) -> None:
        """Load them."""
        groups: dict[str, dict[str, Tensor]] = (
            {"best": {}} if finished else {"best": {}, "tuned": {}, "head": {}}
        )
        for name, tensor in tensors.items():
            group, _, rest = name.partition(".")
            groups[group][rest] = tensor
        self.best = groups["best"]
        self.adapted.load_state(self.best)  # this refuses what does not fit
        # After loading: in a smaller type a number may become infinite.
        if not all_finite(self.tuned.values()):
            raise ValueError("its best epoch holds NaN or infinity")
        if not finished:
            self.adapted.load_state(groups["tuned"])
            self.head.load_state_dict(groups["head"])

    def result(self, trainer: Trainer) -> AdaptedBackbone:
        """The best epoch, frozen."""
        self.adapted.load_state(self.best)
        self.adapted.record = {
            "session": self.session.to_dict(),
            "epochs": [asdict(epoch) for epoch in trainer.epochs],
            "kept": trainer.kept,
        }
        return self.adapted

    def diverged(self, what: str, epoch: int) -> DivergedError:
        """The error that says so."""
        return DivergedError(
            f"Adapting diverged in epoch {epoch}: {what} no longer finite. Nothing was learned, and the "
            f"backbone is unchanged. Use a learning rate below {self.session.learning_rate:g}, "
            "or learn without an adapter.",
            about="learning_rate",
        )


class CosineHead(nn.Module):
    """One direction per class; the score is the cosine to it, times a scale: 30, or learned from 1 on."""

    def __init__(self, width: int, classes: int, *, learned: bool = False) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(classes, width).uniform_(-bound, bound))
        self.scale: float | nn.Parameter = nn.Parameter(torch.ones(())) if learned else COSINE_SCALE

    def forward(self, embedding: Tensor) -> Tensor:
        """(B, width) → (B, classes)."""
        return self.scale * functional.linear(
            functional.normalize(embedding, dim=1), functional.normalize(self.weight, dim=1)
        )


HEADS: dict[str, Callable[[int, int], nn.Module]] = {
    "cosine": CosineHead,
    "learned cosine": partial(CosineHead, learned=True),
    "linear": nn.Linear,
}


def _has_bfloat16(device: torch.device) -> bool:
    with torch.cuda.device(device):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def _key(session: FirstSession, backbone: Backbone, labels: Sequence[str], digests: Sequence[bytes]) -> str:
    """A hash of everything that decides how a session goes."""
    text = dumps([session.training(), backbone.fingerprint, list(labels)], sort_keys=True)
    return blake2b(text.encode() + b"".join(digests), digest_size=16).hexdigest()
