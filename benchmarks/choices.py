"""The measurements behind the defaults: input size, k, the rule for λ, and balance.

    python -m benchmarks.choices [--data ../shared/data] [--sizes 96 128 160 224]

Needs `cifar100-subset.tar` and `pacs-subset.tar` in the data folder; unpacks them into .bench/. Features
are cached, so a second run takes a fraction of the time. benchmarks.extraction measures how fast each size
is. Every accuracy is on the test images, after learning all training images in one batch: the question is
which features to use, not how they do over several tasks.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layup.algebra import GramStatistics, NearestMeanClassifier, RidgeClassifier
from layup.backbones import load_backbone
from layup.features import EMBEDDING, Extractor, FeatureCache
from layup.images import class_folders
from layup.tables import Table, to_markdown

HERE = Path(".bench")
DEPTHS = (1, 2, 4, 6, 8, 11, 17)
Split = tuple[list[Path], NDArray[Any]]


def unpack(data: Path, name: str) -> Path:
    if not (HERE / name).is_dir():
        archive = data / f"{name}.tar"
        if not archive.is_file():
            sys.exit(f"There is no {archive}. Give the folder that holds it with --data.")
        with tarfile.open(archive) as tar:
            tar.extractall(HERE, filter="data")
    return HERE / name


def read(folders: Iterable[Path]) -> Split:
    paths: list[Path] = []
    labels: list[str] = []
    for folder in folders:
        more_paths, more_labels = class_folders(folder)
        paths += more_paths
        labels += more_labels
    return paths, np.array(labels)


def at_most(split: Split, per_class: dict[str, int]) -> Split:
    """The first images of each class, as many as `per_class` says."""
    paths, labels = split
    kept = np.concatenate([np.flatnonzero(labels == name)[:count] for name, count in per_class.items()])
    return [paths[i] for i in kept], labels[kept]


def sizes_and_depths(name: str, train: Split, test: Split, sizes: list[int], cache: FeatureCache) -> None:
    print(f"\n{name}: {len(train[0])} training and {len(test[0])} test images; accuracy, λ by gcv\n")
    rows = []
    for size in sizes:
        backbone = load_backbone("bundled", input_size=size)
        extractor = Extractor(backbone, cache=cache, progress=True)
        learned, tested = (extractor.extract(split[0]).rows for split in (train, test))
        sums = GramStatistics(extractor.layers)
        sums.update(learned, train[1])
        starts = dict(zip(extractor.layers, np.cumsum([0, *extractor.layers.values()]), strict=False))
        embedding = slice(starts[EMBEDDING], None)
        nearest = NearestMeanClassifier().fit(learned[:, embedding], train[1])
        row = [str(size), f"{nearest.score(tested[:, embedding], test[1]):.3f}"]
        for k in DEPTHS:
            layers = backbone.last(k)
            classifier = RidgeClassifier("gcv")
            classifier.adopt(sums.select(layers))
            row.append(f"{classifier.score(tested[:, starts[layers[0]] : starts[EMBEDDING]], test[1]):.3f}")
        rows.append(row)
    print(to_markdown(Table.of(["pixels", "NMC", *(f"k = {k}" for k in DEPTHS)], rows)), flush=True)


def rules_and_balance(train: Split, test: Split, cache: FeatureCache) -> None:
    backbone = load_backbone("bundled")
    extractor = Extractor(backbone, backbone.last(backbone.default_k), cache=cache, progress=True)
    tested = extractor.extract(test[0]).rows
    names = np.random.default_rng(0).permutation(np.unique(train[1]))
    large, small = names[: len(names) // 2], names[len(names) // 2 :]
    print(f"\nCIFAR-100, k = {backbone.default_k}, defaults: rules for λ, and balance\n")
    heads = [
        "images per class",
        "rule",
        "balance",
        "λ",
        "accuracy",
        "large classes",
        "small classes",
        "fit, s",
    ]
    rows = []
    for count in (60, 6):
        part = at_most(train, {**dict.fromkeys(large, 60), **dict.fromkeys(small, count)})
        order = np.random.default_rng(1).permutation(len(part[1]))
        features, labels = extractor.extract([part[0][i] for i in order]).rows, part[1][order]
        for rule in ("search", "gcv"):
            for balance in (False, True):
                started = time.perf_counter()
                classifier = RidgeClassifier(rule, balance=balance).fit(features, labels)
                right = classifier.predict(tested) == test[1]
                seconds = time.perf_counter() - started
                of_small = np.isin(test[1], small)
                row = [
                    "all 60" if count == 60 else "half 60, half 6",
                    rule,
                    "on" if balance else "off",
                    f"{classifier.lambda_:.3g}",
                    *(f"{part.mean():.3f}" for part in (right, right[~of_small], right[of_small])),
                    f"{seconds:.1f}",
                ]
                rows.append(row)
    print(to_markdown(Table.of(heads, rows)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sizes", type=int, nargs="+", default=[96, 128, 160, 224])
    options = parser.parse_args()
    cache = FeatureCache(HERE / "cache")
    cifar = unpack(options.data, "cifar100-subset")
    pacs = unpack(options.data, "pacs-subset")
    test = read([cifar / "test"])
    train = at_most(read([cifar / "train"]), dict.fromkeys(np.unique(test[1]).tolist(), 60))
    rules_and_balance(train, test, cache)
    domains = sorted(pacs.iterdir())
    sizes_and_depths("CIFAR-100", train, test, options.sizes, cache)
    sizes_and_depths(
        "PACS, all four domains",
        read([domain / "train" for domain in domains]),
        read([domain / "test" for domain in domains]),
        options.sizes,
        cache,
    )


if __name__ == "__main__":
    main()
