"""What do heads reach that are trained task by task on a frozen network? CIFAR-100, ten tasks.

    python -m benchmarks.task_heads [--data ../shared/data] [--backbone vit-nano] [--seed 0]

Prompt methods train a head for every task with cross-entropy over the task's own classes, and prompts. Here
is the same without any prompt, on the network's final embeddings: what such heads can tell apart at all.
Beside it the same heads trained with cross-entropy over all classes so far, as in sequential fine-tuning.
"within tasks" is the accuracy if it were told which task an image is of.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.choices import HERE, unpack
from layup.backbones import load_backbone
from layup.benchmark import Scenario, class_incremental
from layup.benchmark.datasets import load_dataset
from layup.benchmark.methods.gradient import own_classes_loss
from layup.benchmark.methods.head import GrowingHead
from layup.cli import console
from layup.features import EMBEDDING, Extractor, FeatureCache
from layup.seeds import seeded

TASKS = 10
BATCH = 16

Optimizer: TypeAlias = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Optimizer] = {
    "SGD 0.003": lambda rows: torch.optim.SGD(rows, 0.003, momentum=0.9),
    "Adam 0.001": lambda rows: torch.optim.Adam(rows, 0.001),
    "Adam 0.01": lambda rows: torch.optim.Adam(rows, 0.01),
}


def trained(rows: Tensor, scenario: Scenario, optimizer: Optimizer, epochs: int, own: bool) -> GrowingHead:
    """A head that has learned task after task, each over its own classes or over all so far."""
    head = GrowingHead(rows.shape[1])
    for task in scenario.tasks:
        head.grow(task.classes)
        places = {name: place for place, name in enumerate(head.classes)}
        targets = torch.tensor([places[scenario.dataset.train.labels[i]] for i in task.train])
        classes = list(task.classes) if own else head.classes
        steps = optimizer(head.rows(classes))
        for _ in range(epochs):
            for batch in torch.split(torch.randperm(len(targets)), BATCH):
                loss = own_classes_loss(head, rows[task.train[batch]], targets[batch], classes)
                steps.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                steps.step()
    return head


def accuracies(
    head: GrowingHead, rows: Tensor, truth: Sequence[str], scenario: Scenario
) -> tuple[float, float]:
    """The average accuracy over tasks, and that within them."""
    labels = np.array(truth)
    over_all: list[float] = []
    within: list[float] = []
    for task in scenario.tasks:
        own = rows[task.test]
        for found, classes in ((over_all, head.classes), (within, list(task.classes))):
            with torch.no_grad():
                predictions = np.array(classes)[head(own, classes).argmax(dim=1)]
            found.append((predictions == labels[task.test]).mean())
    return float(np.mean(over_all)), float(np.mean(within))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--backbone", default="vit-nano")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    dataset = load_dataset(f"folder:{unpack(chosen.data, 'cifar100-subset')}")
    scenario = class_incremental(dataset, TASKS, chosen.seed)
    extractor = Extractor(load_backbone(chosen.backbone), [EMBEDDING], cache=FeatureCache(HERE / "cache"))
    train, test = (
        torch.from_numpy(extractor.extract(part.images).rows) for part in (dataset.train, dataset.test)
    )
    shown = []
    for own in (True, False):
        for name, optimizer in OPTIMIZERS.items():
            for epochs in (5, 30):
                with seeded(chosen.seed):
                    head = trained(train, scenario, optimizer, epochs, own)
                numbers = accuracies(head, test, dataset.test.labels, scenario)
                shown.append(
                    ["the task's" if own else "all so far", name, str(epochs), *(f"{n:.3f}" for n in numbers)]
                )
    console.table(["classes in the loss", "optimiser", "epochs", "A_T", "within tasks"], shown, texts=2)


if __name__ == "__main__":
    main()
