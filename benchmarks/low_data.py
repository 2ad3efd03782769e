"""Is LayUP strong with little data? CIFAR-100, all classes in one batch, with 1 to 100 images per class.

    python -m benchmarks.low_data [--data ../shared/data] [--seeds 1993 1994 1995] [--backbone bundled]
                                  [--picture FILE]

Needs `cifar100-subset.tar` in the data folder; unpacks it into .bench/. The first table has equal classes:
the nearest means, and ridge with k = 1 and k = 6, λ by the search (which needs four images per class; with
fewer λ is 1) and by gcv. In the second, half of the classes have a tenth of the images of the others, with
and without balance. Accuracies are means over seeds, which choose the images (and the small classes), ±
their standard error. Records are kept in .bench/low-data, so that a second run only prints.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.choices import HERE, unpack
from layup.backbones import Backbone, load_backbone
from layup.benchmark import Experiment, Record, class_incremental, plots
from layup.benchmark.datasets import Dataset, Part, load_dataset
from layup.benchmark.methods import DepthsMethod, Method, method_from
from layup.benchmark.metrics import band
from layup.features import FeatureCache, Reading
from layup.tables import Table, to_markdown

COUNTS = (1, 5, 10, 20, 60, 100)
LARGE = (10, 20, 60, 100)
DEPTHS = (1, 6)
RULES = ("search", "gcv")


def records(
    dataset: Dataset, method: Method, backbone: Backbone, seed: int, per_class: int | None = None
) -> dict[str, Record]:
    scenario = class_incremental(dataset, 1, seed, per_class=per_class)
    reading: Reading = {"cache": FeatureCache(HERE / "cache")}
    experiment = Experiment(scenario, method, backbone, HERE / "low-data", reading=reading)
    *_, done = experiment.go()
    return done


def accuracy(record: Record) -> float:
    value = record.summary["average_accuracy"]
    assert value is not None
    return value


def equal_classes(dataset: Dataset, backbone: Backbone, seed: int, count: int) -> Iterator[tuple[str, float]]:
    for name in ("nmc", "laynmc"):
        for record in records(dataset, method_from(name, {}), backbone, seed, count).values():
            yield name, accuracy(record)
    for rule in RULES:
        for k, record in records(dataset, DepthsMethod(DEPTHS, rule), backbone, seed, count).items():
            yield f"k = {k}, {rule}", accuracy(record)


def with_small_classes(dataset: Dataset, count: int, seed: int) -> tuple[Dataset, list[str]]:
    """Half of the classes with `count` training images, the others with a tenth; and which are small."""
    rng = np.random.default_rng(seed)
    small = rng.permutation(dataset.classes)[len(dataset.classes) // 2 :].tolist()
    labels = np.array(dataset.train.labels)
    indices = np.sort(
        np.concatenate(
            [
                rng.permutation(np.flatnonzero(labels == name))[: count // 10 if name in small else count]
                for name in dataset.classes
            ]
        )
    )
    part = Part([dataset.train.images[i] for i in indices], labels[indices].tolist())
    return replace(dataset, train=part), small


def unequal_classes(
    dataset: Dataset, backbone: Backbone, seed: int, count: int
) -> Iterator[tuple[str, float]]:
    uneven, small = with_small_classes(dataset, count, seed)
    for rule in RULES:
        for balance in (False, True):
            done = records(uneven, DepthsMethod(DEPTHS, rule, balance), backbone, seed)
            for k, record in done.items():
                name = f"k = {k}, {rule}{', balance' if balance else ''}"
                yield name, accuracy(record)
                yield f"{name}: small", float(np.mean([record.steps[-1].per_class[each] for each in small]))


def table(title: str, rows: dict[str, dict[int, list[float]]]) -> None:
    counts = list(next(iter(rows.values())))
    shown = []
    for name, values in rows.items():
        bands = [band([[value] for value in values[count]]) for count in counts]
        # With all images there is nothing for a seed to choose.
        errors = [f" ± {each.error[0]:.3f}" if each.error[0] > 1e-12 else "" for each in bands]
        cells = [f"{each.mean[0]:.3f}{error}" for each, error in zip(bands, errors, strict=True)]
        shown.append([name, *cells])
    print(f"\n{title}\n\n{to_markdown(Table.of(['', *map(str, counts)], shown))}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1993, 1994, 1995])
    parser.add_argument("--backbone", default="bundled")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    dataset = load_dataset(f"folder:{unpack(options.data, 'cifar100-subset')}")
    backbone = load_backbone(options.backbone)
    for title, counts, measure in (
        ("Images per class, equal classes", COUNTS, equal_classes),
        ("Images of a large class; small ones have a tenth", LARGE, unequal_classes),
    ):
        rows: dict[str, dict[int, list[float]]] = {}
        for count in counts:
            for seed in options.seeds:
                for name, value in measure(dataset, backbone, seed, count):
                    rows.setdefault(name, {}).setdefault(count, []).append(value)
            print(f"done: {title}, {count}", flush=True)
        table(title, rows)
        if options.picture and measure is equal_classes:
            plots.lines(
                options.picture,
                counts,
                {name: band(list(zip(*values.values(), strict=True))) for name, values in rows.items()},
                "training images per class",
                "accuracy, all 100 classes",
            )


if __name__ == "__main__":
    main()
