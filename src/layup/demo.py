"""The main job on built-in data: five tasks of handwritten digits, three methods, one saved model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from layup.backbones import load_backbone
from layup.image_model import ImageModel
from layup.metrics import accuracy, average_accuracy
from layup.model import NMC, LayUP

TASKS = 5
TRAIN_SHARE = 0.6


@dataclass(frozen=True)
class DigitsTask:
    """Two digits that the model has not seen before: training and test images with their labels."""

    classes: list[str]
    train: tuple[list[NDArray[np.uint8]], list[str]]
    test: tuple[list[NDArray[np.uint8]], list[str]]


def digits_tasks(seed: int = 0) -> list[DigitsTask]:
    """Scikit-learn's 1,797 digits, 60 % for training, as five tasks: 0 and 1, then 2 and 3, and so on.

    >>> [task.classes for task in digits_tasks()][:2]
    [['0', '1'], ['2', '3']]
    """
    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)  # 8 × 8 pixels of 17 greys
    parts = train_test_split(
        images, digits.target, train_size=TRAIN_SHARE, stratify=digits.target, random_state=seed
    )
    train, test, train_labels, test_labels = parts
    tasks = []
    for classes in np.arange(10).reshape(TASKS, -1):
        halves = []
        for half, labels in ((train, train_labels), (test, test_labels)):
            chosen = np.isin(labels, classes)
            halves.append((list(half[chosen]), [str(label) for label in labels[chosen]]))
        tasks.append(DigitsTask([str(label) for label in classes], halves[0], halves[1]))
    return tasks


def demo_models() -> dict[str, ImageModel]:
    """The three methods: nearest mean, ridge on the last layer, and LayUP."""
    backbone = load_backbone()
    return {
        "nearest mean": NMC(backbone, progress=False),
        "last layer, k = 1": LayUP(backbone, k=1, progress=False),
        f"LayUP, k = {backbone.default_k}": LayUP(backbone, progress=False),
    }


def run_demo(models: dict[str, ImageModel], tasks: list[DigitsTask]) -> Iterator[tuple[str, float]]:
    """Learn task after task; each time, every method's name and average accuracy on all tasks so far."""
    for t, task in enumerate(tasks, start=1):
        for name, model in models.items():
            model.learn(*task.train)
            yield (
                name,
                average_accuracy([accuracy(seen.test[1], model.predict(seen.test[0])) for seen in tasks[:t]]),
            )


def save_examples(folder: Path, task: DigitsTask, count: int = 3) -> list[Path]:
    """A few test images as files, to try `layup predict` on."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for i, (image, label) in enumerate(zip(task.test[0][:count], task.test[1][:count], strict=True)):
        path = folder / f"a-{label}-{i + 1}.png"
        Image.fromarray(image).save(path)
        paths.append(path)
    return paths
