"""Does the first session help? CIFAR-100 in ten tasks with vit-nano, with no adapter and with each one.

    python -m benchmarks.adaptation [--data ../shared/data] [--seeds 0 1 2] [--adapters none ssf …]
                                    [--first 10] [--learning-rate …] [--epochs …]

Needs `cifar100-subset.tar` in the data folder; unpacks it into .bench/. Ten classes a task (or more in the
first, and the others in nine), in an order that a seed decides; another seed, of the same number, decides the
first values and everything else that is random. The adapter sees the training images of the first task, 100 a
class, and nothing else; test images are only asked after. Accuracy is that on all test images after the last
task, which with equal tasks is the mean over them; λ by the paper's search on each task. Finished sessions
are kept in .bench/sessions, so that a second run only prints.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.choices import HERE, Split, read, unpack
from layup.adaptation import adapt
from layup.backbones import Backbone, load_backbone
from layup.cache import FeatureCache
from layup.classifier import RidgeClassifier
from layup.features import Extractor
from layup.first_session import FirstSession

TASKS = 10
DEPTHS = (1, 6)
NONE = "none"
ADAPTERS = (NONE, "adaptformer", "ssf", "vpt", "lora", "full")


@dataclass(frozen=True)
class Measured:
    """Of one session: held-out accuracy at the kept epoch, and accuracy after the last task by k."""

    tuned: int
    kept: str
    held_out: float
    accuracy: dict[int, float]


def first_task_only(split: Split, classes: list[str]) -> tuple[list[Path], list[str]]:
    paths, labels = split
    kept = np.flatnonzero(np.isin(labels, classes))
    return [paths[i] for i in kept], [str(label) for label in labels[kept]]


def accuracies(
    backbone: Backbone, train: Split, test: Split, tasks: list[list[str]], cache: FeatureCache
) -> dict[int, float]:
    """Accuracy on all test images after the last task, by k."""
    found = {}
    for k in DEPTHS:
        extractor = Extractor(backbone, backbone.last(k), cache=cache)
        learned, asked = (extractor.extract(split[0]).rows for split in (train, test))
        classifier = RidgeClassifier("search")
        for classes in tasks:
            chosen = np.isin(train[1], classes)
            classifier.partial_fit(learned[chosen], train[1][chosen])
        found[k] = float((classifier.predict(asked) == test[1]).mean())
    return found


def measure(name: str, seed: int, first: int, changes: dict[str, Any], train: Split, test: Split) -> Measured:
    names = np.unique(train[1])
    # The generator that the field uses for class orders.
    order = np.random.RandomState(seed).permutation(names)
    tasks = [part.tolist() for part in (order[:first], *np.array_split(order[first:], TASKS - 1))]
    backbone = load_backbone("vit-nano")
    cache = FeatureCache(HERE / "cache")
    if name == NONE:
        return Measured(0, "", float("nan"), accuracies(backbone, train, test, tasks, cache))
    label, _, preset = name.partition(":")
    session = FirstSession(label, preset or "default", seed=seed, **changes)
    sessions = HERE / "sessions"
    sessions.mkdir(parents=True, exist_ok=True)
    texts = [name.replace(":", "-"), str(seed), *(f"{key}{value}" for key, value in changes.items())]
    texts += [f"first{first}"] if first != 10 else []
    done = adapt(
        backbone,
        *first_task_only(train, tasks[0]),
        session,
        checkpoint=sessions / "-".join(texts),
        progress=True,
    )
    epochs, kept = done.record["epochs"], done.record["kept"]
    held_out = epochs[kept - 1]["accuracy"]
    return Measured(
        done.tuned_values,
        f"{kept} of {len(epochs)}",
        float("nan") if held_out is None else held_out,
        accuracies(done, train, test, tasks, cache),
    )


def spread(values: list[float]) -> str:
    """Mean ± standard error."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--adapters", nargs="+", default=list(ADAPTERS), help="names, or NAME:PRESET, such as vpt:paper"
    )
    parser.add_argument("--first", type=int, default=10, help="classes in the first task")
    parser.add_argument("--learning-rate", type=float, help="instead of the preset's")
    parser.add_argument("--epochs", type=int, help="instead of the preset's")
    options = parser.parse_args()
    given = {"learning_rate": options.learning_rate, "epochs": options.epochs}
    changes = {key: value for key, value in given.items() if value is not None}
    folder = unpack(options.data, "cifar100-subset")
    train, test = read([folder / "train"]), read([folder / "test"])
    print(
        "| adapter | tuned values | epochs kept | held out | " + " | ".join(f"k = {k}" for k in DEPTHS) + " |"
    )
    print("|---|---|---|---|" + "---|" * len(DEPTHS))
    for name in options.adapters:
        runs = [measure(name, seed, options.first, changes, train, test) for seed in options.seeds]
        by_depth: dict[int, list[float]] = defaultdict(list)
        for run in runs:
            for k, value in run.accuracy.items():
                by_depth[k].append(value)
        row = [
            name,
            f"{runs[0].tuned:,}",
            "" if name == NONE else ", ".join(run.kept for run in runs),
            "" if name == NONE else spread([run.held_out for run in runs]),
            *(spread(values) for values in by_depth.values()),
        ]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
