"""Predictions of many photos by a pool of workers: each has loaded the model and its network once."""

from __future__ import annotations

import hashlib
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layup import storage
from layup.cluster import Cluster, in_order
from layup.errors import InputError, LayupError
from layup.features import in_a_pool
from layup.images import ImageSource, missing_files, require_gone
from layup.model.named import load
from layup.model.predictions import Predictions
from layup.progress import progress_bar

TOGETHER = 256
"""Photos per task: whole batches, so that they are the same as without a pool."""


@dataclass(frozen=True)
class Answer:
    """What a worker predicts for some photos, and which files it does not see."""

    predictions: Predictions
    machine: str
    unseen: frozenset[str]


class Predictor:
    """Predicts photos; runs in a process of Ray's.

    content: the model file, for a worker that does not see it.
    """

    def __init__(self, path: str, content: bytes, loading: Mapping[str, Any]) -> None:
        self._own: tempfile.TemporaryDirectory[str] | None = None
        if not _holds(path, content):
            self._own = tempfile.TemporaryDirectory()
            path = str(Path(self._own.name, Path(path).name))
            storage.write_bytes(path, content)
        self.model = load(path, **loading)
        _ = self.model.backbone_  # what is wrong with it is noticed now

    def __call__(self, images: Sequence[ImageSource]) -> Answer:
        """Predict them."""
        return Answer(self.model.predictions(images), platform.node(), missing_files(images))


def spread_predictions(
    path: str | Path, images: Sequence[ImageSource], cluster: Cluster, **loading: Any
) -> Predictions:
    """What the model in a file predicts for images, as `ImageModel.predictions` does, by many workers.

    loading: options of `load`. Holds the scores of all images, as one process would.
    """
    parts = [images[start : start + TOGETHER] for start in range(0, len(images), TOGETHER)]
    if not parts:
        raise InputError("There are no images to predict.")
    content = Path(path).read_bytes()
    found: list[Predictions] = []
    with (
        cluster.pool(Predictor, str(path), content, in_a_pool(loading)) as pool,
        progress_bar(loading.get("progress")) as bar,
    ):
        task = bar.add_task("Predicting", total=len(images), note="")
        for part, answer in zip(parts, in_order(pool.run(parts)), strict=True):
            found.append(_believed(answer, len(found) * TOGETHER, len(part)))
            bar.advance(task, len(part))
    return Predictions.joined(found, TOGETHER)


def _believed(answer: Answer | LayupError, start: int, count: int) -> Predictions:
    """The predictions, unless they failed, or a worker did not see photos that are here."""
    if isinstance(answer, LayupError):
        raise type(answer)(f"Photos {start + 1:,} to {start + count:,}: {answer}", about=answer.about)
    require_gone(answer.unseen, answer.machine)
    return answer.predictions


def _holds(path: str, content: bytes) -> bool:
    """Whether a file has this content."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest() == hashlib.sha256(content).digest()
    except OSError:
        return False
