"""First-session adaptation (the paper's phase A): tune an adapter on the first lesson, then freeze it.

A head over the lesson's classes is put on the network's final embedding; adapter and head learn together
with cross-entropy on augmented images, and the head is thrown away. Which epoch is kept, and when to stop,
a part of the lesson decides that is held out: never other data. It takes epochs × images forward and
backward passes, and the tuned values are held five times (gradient, two moments, and the best so far).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from layup import schema, storage
from layup.adapters import AdaptedBackbone
from layup.backbones import Backbone
from layup.errors import (
    BadImageError,
    DamagedFileError,
    DivergedError,
    InputError,
    LayupError,
    MismatchError,
)
from layup.features import Survey, survey
from layup.images import ImageSource, require_one_label_each
from layup.progress import progress_bar
from layup.seeds import seed_of, seeded
from layup.tuning.config import FirstSession, split
from layup.tuning.trainer import Batch, Pictures, annealed, load_optimizer_state, optimizer_state

KIND = "first-session"
COSINE_SCALE = 30.0
CHECKPOINT: schema.Shape = {
    "key": schema.HASH,
    "epochs": [{"loss": schema.NUMBER, "accuracy": schema.AMOUNT.or_none()}],
    "kept": schema.whole(1),
    "scaler": schema.FIELDS,
}


@dataclass(frozen=True)
class Epoch:
    """How training went: mean loss over its images, and accuracy on those held out, if any are."""

    loss: float
    accuracy: float | None


@torch.inference_mode(False)  # whatever the caller does
@torch.enable_grad()
@torch.random.fork_rng(devices=[])  # whoever else draws numbers is not disturbed
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

    The `record` of what comes back says how it went: the session's values, every epoch, and which was kept.
    Images that cannot be used are left out; with `strict` the first one ends it. With a `checkpoint`, the
    state after every epoch is written to that file, and a run of the very same session on the same images
    goes on from there; one that had finished gives its result at once.

    >>> from layup.backbones import load_backbone
    >>> from layup.cli.demo import digits_tasks
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
    lesson = _Lesson(images, labels, seen, session)
    run = _Run(adapted, session, len(lesson.classes))
    saved = None
    if checkpoint is not None:
        saved = _Checkpoint(Path(checkpoint), _key(session, backbone, lesson.labels, seen.digests))
        saved.resume(run)
    steps = sum(math.ceil(len(part) / session.batch_size) for part in (lesson.training, lesson.asked))
    with progress_bar(progress, "steps") as bar:
        task = bar.add_task(
            "Adapting", total=steps * session.epochs, completed=steps * len(run.epochs), note=run.summary()
        )

        def read(pictures: Pictures, places: NDArray[np.int64]) -> Iterator[Batch]:
            try:
                for batch in pictures.batches(places, session.batch_size, workers):
                    yield batch
                    bar.advance(task)
            except BadImageError as error:
                raise LayupError(f"An image changed while the backbone was adapted to it: {error}") from None

        while not run.finished:
            try:
                run.go_on(lesson, read)
            except DivergedError:
                if saved is not None:
                    storage.delete(saved.path)  # it could only diverge again
                raise
            if saved is not None:
                saved.save(run)
            bar.update(task, completed=steps * len(run.epochs), note=run.summary())
    return run.result()


class _Lesson:
    """The images that can be used, their labels, and which of them to train on and which to hold out."""

    def __init__(
        self, images: Sequence[ImageSource], labels: Sequence[str], seen: Survey, session: FirstSession
    ) -> None:
        self.images = [images[place] for place in seen.kept]
        self.labels = [labels[place] for place in seen.kept]
        self.classes = _require_several(self.labels)
        self.targets = np.searchsorted(self.classes, self.labels)
        self.training, self.held_out = np.arange(len(self.images)), np.arange(0)
        if session.patience is not None:
            self.training, held_out = split(self.targets, session.held_out, session.seed)
            known = {seen.digests[place] for place in self.training}
            self.held_out = held_out[[seen.digests[place] not in known for place in held_out]]
            if not len(self.held_out):
                raise InputError(
                    "All images that could be held out are copies of others. Learn more different images in "
                    "the first session, or learn without an adapter."
                )
        # Where nothing is held out, a few images still show whether the network gives numbers.
        self.asked = self.held_out if len(self.held_out) else self.training[: session.batch_size]


def _require_several(labels: Sequence[str]) -> list[str]:
    """The classes, sorted, if they are several."""
    classes = sorted(set(labels))
    if len(classes) < 2:
        only = f"one class alone ({classes[0]!r})" if classes else "no image at all"
        raise InputError(
            f"A backbone cannot be adapted to {only}: there is nothing to tell apart. Learn at least two "
            "classes in the first session, or learn without an adapter."
        )
    return classes


class _Run:
    """Training, an epoch at a time."""

    def __init__(self, adapted: AdaptedBackbone, session: FirstSession, classes: int) -> None:
        self.adapted, self.session = adapted, session
        device = adapted.device
        with seeded(session.seed, "head"):
            self.head = HEADS[session.head](adapted.embedding_width, classes).to(device)
        self.tuned = adapted.state()
        optimizer = torch.optim.Adam if session.optimizer == "adam" else torch.optim.AdamW
        self.optimizer: torch.optim.Optimizer = optimizer(
            [
                {"params": list(self.tuned.values()), "pace": adapted.adapter.pace},
                {"params": list(self.head.parameters()), "pace": 1.0},
            ],
            lr=session.learning_rate,
            weight_decay=session.weight_decay,
        )
        # Half precision pays on a GPU only. Where it has no bfloat16, small gradients must be scaled up.
        on_gpu = device.type == "cuda"
        half = torch.bfloat16 if on_gpu and _has_bfloat16(device) else torch.float16
        self.precision = partial(torch.autocast, device.type, dtype=half, enabled=on_gpu)
        self.scaler = torch.amp.GradScaler(device.type, enabled=on_gpu and half is torch.float16)
        self.epochs: list[Epoch] = []
        self.kept = 0
        self.best: dict[str, Tensor] = {}

    @property
    def finished(self) -> bool:
        done, patience = len(self.epochs), self.session.patience
        return done >= self.session.epochs or (patience is not None and done - self.kept >= patience)

    def go_on(self, lesson: _Lesson, read: Callable[[Pictures, NDArray[np.int64]], Iterator[Batch]]) -> None:
        """One more epoch."""
        seeds = (self.session.seed, len(self.epochs))
        order = np.random.default_rng(seed_of(*seeds, "order")).permutation(lesson.training)
        preprocessing = self.adapted.preprocessing
        varied = Pictures(lesson.images, lesson.targets, preprocessing.augmentation, seeds)
        loss = self.train(read(varied, order), len(order))
        plain = read(Pictures(lesson.images, lesson.targets, preprocessing.transform), lesson.asked)
        accuracy = self.measure(plain, len(lesson.asked))
        self.note(Epoch(loss, accuracy if len(lesson.held_out) else None))

    def train(self, batches: Iterator[Batch], count: int) -> float:
        """One epoch; the mean loss."""
        epoch = len(self.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = group["pace"] * annealed(self.session.learning_rate, epoch, self.session.epochs)
        total = 0.0
        self.adapted.train()
        try:
            with seeded(self.session.seed, epoch, "dropout", device=self.adapted.device):
                for pixels, targets in batches:
                    with self.precision():
                        embedding = self.adapted.embed(pixels)
                    scores = self.head(embedding)
                    loss = functional.cross_entropy(scores, targets.to(scores.device))
                    if not math.isfinite(value := loss.item()):
                        raise self._diverged()
                    self.optimizer.zero_grad()
                    self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    total += value * len(targets)
        finally:
            self.adapted.train(False)
        if not self.finite:
            raise self._diverged()
        return total / count

    @property
    def finite(self) -> bool:
        """Whether all that is trained, and all that the optimiser remembers, are finite numbers."""
        remembered = optimizer_state(self.optimizer)
        values = (*self.tuned.values(), *self.head.parameters(), *remembered.values())
        return all(bool(value.isfinite().all()) for value in values)

    def measure(self, batches: Iterator[Batch], count: int) -> float:
        """The share of images that the head gets right."""
        right = 0
        with torch.inference_mode():
            for pixels, targets in batches:
                scores = self.head(self.adapted.embed(pixels)).cpu()
                if not scores.isfinite().all():
                    raise self._diverged()
                right += int((scores.argmax(dim=1) == targets).sum())
        return right / count

    def note(self, epoch: Epoch) -> None:
        """Enter an epoch, and keep a copy of its values if none before was as good."""
        accuracies = [before.accuracy or 0.0 for before in self.epochs]
        self.epochs.append(epoch)
        if epoch.accuracy is None or epoch.accuracy > max(accuracies, default=-1.0):
            self.kept = len(self.epochs)
            going_on = epoch.accuracy is not None  # without accuracies the last epoch is kept, as it is
            self.best = {
                name: value.detach().clone() if going_on else value for name, value in self.tuned.items()
            }

    def summary(self) -> str:
        """How many epochs are done, and how the last one went."""
        if not self.epochs:
            return ""
        last = self.epochs[-1]
        held_out = "" if last.accuracy is None else f" · held-out {last.accuracy:.3f}"
        return f"epoch {len(self.epochs)} · loss {last.loss:.3f}{held_out}"

    def result(self) -> AdaptedBackbone:
        """The best epoch, frozen."""
        self.adapted.load_state(self.best)
        self.optimizer.zero_grad()  # gradients are as large as what was tuned
        self.adapted.record = {"session": self.session.to_dict(), **self.course()}
        return self.adapted

    def course(self) -> dict[str, Any]:
        """How training went, as JSON: every epoch, and which is kept, counted from 1."""
        return {"epochs": [asdict(epoch) for epoch in self.epochs], "kept": self.kept}

    def _diverged(self) -> DivergedError:
        return DivergedError(
            f"Adapting diverged in epoch {len(self.epochs) + 1}: the loss is no longer a number. Nothing was "
            "learned, and the backbone is as it was. Use a learning rate below "
            f"{self.session.learning_rate:g} (--learning-rate), or learn without an adapter."
        )


class _Checkpoint:
    """A file with the state of a run after its last epoch."""

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key

    def save(self, run: _Run) -> None:
        """Write all that is needed to go on; of a finished run, only what its result needs."""
        tensors = {f"best.{name}": value for name, value in run.best.items()}
        if not run.finished:
            tensors |= {f"tuned.{name}": value for name, value in run.tuned.items()}
            tensors |= {f"head.{name}": value for name, value in run.head.state_dict().items()}
            tensors |= {f"optimizer.{name}": value for name, value in optimizer_state(run.optimizer).items()}
        header = {
            "key": self.key,
            **run.course(),
            "scaler": run.scaler.state_dict(),
        }
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
        storage.write(self.path, KIND, header, arrays)

    def resume(self, run: _Run) -> None:
        """Bring a run to where this very run was, if the file holds it."""
        if not self.path.exists():
            return
        try:
            header, arrays = storage.read(self.path, KIND)
            with storage.believed(self.path):
                self._take(run, header, arrays)
        except (DamagedFileError, MismatchError) as error:
            raise DamagedFileError(
                f"'{self.path}' is no checkpoint of a first session, or is damaged. "
                "Delete it, or name another file."
            ) from error

    def _take(self, run: _Run, header: dict[str, Any], arrays: storage.Arrays) -> None:
        """Bring a run to what the file holds, if it is of this very run."""
        schema.require(header, CHECKPOINT, "header")
        if header["key"] != self.key:
            return
        groups: dict[str, dict[str, Tensor]] = {"best": {}, "tuned": {}, "head": {}, "optimizer": {}}
        for name, array in arrays.items():
            group, _, rest = name.partition(".")
            groups[group][rest] = torch.from_numpy(array)
        run.epochs = [Epoch(**epoch) for epoch in header["epochs"]]
        run.kept, run.best = header["kept"], groups["best"]
        if not (len(run.epochs) <= run.session.epochs and 1 <= run.kept <= len(run.epochs)):
            raise ValueError("its epochs are not those of the session")
        run.adapted.load_state(run.best)  # which refuses what does not fit
        _require_finite(run)
        if run.finished:
            if {name.partition(".")[0] for name in arrays} != {"best"}:
                raise ValueError("it holds something else than the result of the session")
            return
        run.adapted.load_state(groups["tuned"])
        run.head.load_state_dict(groups["head"])
        load_optimizer_state(run.optimizer, groups["optimizer"])
        _require_finite(run)
        if header["scaler"] and run.scaler.is_enabled():  # it may have begun on another device
            run.scaler.load_state_dict(header["scaler"])


def _require_finite(run: _Run) -> None:
    """Refuse what a run took from a file, after it was taken: in a smaller type a number may be infinite."""
    if not run.finite:
        raise ValueError("it holds NaN or infinity")


class CosineHead(nn.Module):
    """One direction a class; the score is the cosine to it, times a fixed scale."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(classes, width).uniform_(-bound, bound))

    def forward(self, embedding: Tensor) -> Tensor:
        """(B, width) → (B, classes)."""
        return COSINE_SCALE * functional.linear(
            functional.normalize(embedding, dim=1), functional.normalize(self.weight, dim=1)
        )


HEADS: dict[str, type[nn.Module]] = {"cosine": CosineHead, "linear": nn.Linear}


def _has_bfloat16(device: torch.device) -> bool:
    with torch.cuda.device(device):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def _key(session: FirstSession, backbone: Backbone, labels: Sequence[str], digests: Sequence[bytes]) -> str:
    """All that decides how a session goes."""
    text = dumps([session.to_dict(), backbone.fingerprint, list(labels)], sort_keys=True)
    return blake2b(text.encode() + b"".join(digests), digest_size=16).hexdigest()
