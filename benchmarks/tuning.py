"""Which learning rate suits a method that trains? Asked of a part of the first task that is held out.

    python -m benchmarks.tuning l2p 0.001 0.003 0.01 [--option epochs=5 ...] [--data ../shared/data]
                                [--backbone vit-nano] [--seed 1993] [--tasks 10]

The first task of the CIFAR-100 subset is split as a first session does it: a fifth of every class is
held out. The method learns the rest with each rate, and is asked what was held out. Prints accuracy, the loss
of the last epoch, and seconds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.choices import HERE, unpack
from layup.backbones import load_backbone
from layup.benchmark import class_incremental
from layup.benchmark.datasets import load_dataset
from layup.benchmark.methods import ONLY, Setup, method_class
from layup.cli import console
from layup.cli.options import option_values
from layup.errors import DivergedError
from layup.features import FeatureCache
from layup.tuning import split


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("method")
    parser.add_argument("rates", nargs="+", type=float)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--backbone", default="vit-nano")
    parser.add_argument("--seed", type=int, default=1993)
    parser.add_argument("--tasks", type=int, default=10, help="1 for methods that learn all at once")
    chosen = parser.parse_args()
    dataset = load_dataset(f"folder:{unpack(chosen.data, 'cifar100-subset')}")
    scenario = class_incremental(dataset, chosen.tasks, chosen.seed)
    backbone = load_backbone(chosen.backbone)
    places = scenario.tasks[0].train
    images, labels = (np.array(part, object)[places] for part in (dataset.train.images, dataset.train.labels))
    training, held_out = split(np.unique(labels.tolist(), return_inverse=True)[1], 0.2, chosen.seed)
    rows = []
    for rate in chosen.rates:
        setup = Setup(
            backbone,
            "cil",
            reading={"cache": FeatureCache(HERE / "cache")},
            seed=chosen.seed,
            tasks=chosen.tasks,
        )
        kind = method_class(chosen.method)
        options = {**option_values(chosen.option), "learning_rate": rate}
        learner = kind.with_options(options).begin(setup)
        began = time.perf_counter()
        try:
            learner.learn(images[training].tolist(), labels[training].tolist())
            right = np.array(learner.predict(images[held_out].tolist())[ONLY]) == labels[held_out]
            told = [f"{right.mean():.3f}", f"{learner.reports()[ONLY].chosen['losses'][-1]:.3f}"]
        except DivergedError:
            told = ["diverged", ""]
        rows.append([f"{rate:g}", *told, f"{time.perf_counter() - began:.0f}"])
        console.remark(f"{chosen.method}, rate {rate:g}: {told[0]}")
    console.say(f"{chosen.method}: {len(training)} images of the first task, {len(held_out)} held out")
    console.table(["learning rate", "held-out accuracy", "loss", "seconds"], rows)


if __name__ == "__main__":
    main()
