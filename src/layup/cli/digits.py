"""The demo on built-in data: five tasks of handwritten digits, three methods, one saved model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layup.backbones import load_backbone
from layup.benchmark import Scenario, class_incremental, run_tasks
from layup.benchmark.datasets import load_dataset
from layup.benchmark.methods import ONLY, ModelLearner
from layup.benchmark.metrics import average_accuracy
from layup.model import NMC, ImageModel, LayUP


@dataclass(frozen=True)
class DigitsTask:
    """Two digits that the model has not seen before: training and test images with their labels."""

    classes: list[str]
    train: tuple[list[NDArray[np.uint8]], list[str]]
    test: tuple[list[NDArray[np.uint8]], list[str]]


def digits_scenario() -> Scenario:
    """Scikit-learn's 1,797 digits, 60 % for training, as five tasks: 0 and 1, then 2 and 3, and so on."""
    return class_incremental(load_dataset("digits"), shuffled=False)


def digits_tasks() -> list[DigitsTask]:
    """The tasks of `digits_scenario` as plain lists.

    >>> [task.classes for task in digits_tasks()][:2]
    [['0', '1'], ['2', '3']]
    """
    scenario = digits_scenario()
    tasks = []
    for task in scenario.tasks:
        halves: list[Any] = [
            ([part.images[index] for index in indices], [part.labels[index] for index in indices])
            for part, indices in ((scenario.dataset.train, task.train), (scenario.dataset.test, task.test))
        ]
        tasks.append(DigitsTask(list(task.classes), *halves))
    return tasks


def demo_models() -> dict[str, ImageModel]:
    """The three methods: nearest mean, ridge on the last layer, and LayUP."""
    backbone = load_backbone()
    return {
        "nearest mean": NMC(backbone, progress=False),
        "last layer, k = 1": LayUP(backbone, k=1, progress=False),
        f"LayUP, k = {backbone.default_k}": LayUP(backbone, progress=False),
    }


def run_demo(models: dict[str, ImageModel], scenario: Scenario) -> Iterator[tuple[str, float]]:
    """Learn task after task; each time, every method's name and average accuracy on all tasks so far."""
    loops = {name: run_tasks(ModelLearner(model), scenario) for name, model in models.items()}
    for _ in scenario.tasks:
        for name, loop in loops.items():
            accuracies = next(loop).steps[ONLY].accuracies
            yield name, average_accuracy([value for value in accuracies if value is not None])


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
