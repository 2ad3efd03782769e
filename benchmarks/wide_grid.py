"""Does a search for λ beyond the paper's grid help, and does it harm?

    python -m benchmarks.wide_grid [--data ../shared/data] [--backbones bundled vit-nano] [--seeds 0 1 2 3 4]

Needs `cifar100-subset.tar`, `pacs-subset.tar` and `birds-subset.tar` in the data folder; unpacks them into
.bench/. Features are cached. Each seed draws 2, 5 or 30 training images per class (birds have 12), of all
classes, of five or of two, which are learned in one batch by `LayUP`'s classifier (balanced). λ is searched
once, with the wide grid: the paper's choice is the best of those that are in its grid. All test images of the
classes are predicted with both.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.choices import HERE, at_most, read, unpack
from layup.algebra import FIRST_LAMBDA, LAMBDAS, SEARCHES, GramStatistics, RidgeClassifier, search_lambda
from layup.backbones import load_backbone
from layup.features import Extractor, FeatureCache
from layup.tables import Table, to_markdown

PER_CLASS = (2, 5, 30)
FEW_CLASSES = (2, 5)
POOL = 60
"""Training images per class and folder that splits are drawn from."""
Samples = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Result:
    """Of one split: λ and the accuracy on test images, with the paper's grid and with the wide one."""

    paper: float
    wide: float
    paper_accuracy: float
    wide_accuracy: float


def folders(data: Path) -> dict[str, tuple[list[Path], list[Path]]]:
    """The folders of training and test images, by the name of the dataset."""
    cifar, birds, pacs = (unpack(data, f"{name}-subset") for name in ("cifar100", "birds", "pacs"))
    domains = sorted(pacs.iterdir())
    return {
        "birds": ([birds / "train"], [birds / "test"]),
        "PACS": ([domain / "train" for domain in domains], [domain / "test" for domain in domains]),
        "CIFAR-100": ([cifar / "train"], [cifar / "test"]),
    }


def features(extractor: Extractor, parts: list[Path]) -> Samples:
    """The features and labels of the first images of each class of these folders."""
    rows, labels = [], []
    for folder in parts:
        split = read([folder])
        split = at_most(split, dict.fromkeys(np.unique(split[1]).tolist(), POOL))
        rows.append(extractor.extract(split[0]).rows)
        labels.append(split[1])
    return np.concatenate(rows), np.concatenate(labels)


def lambdas(x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
    """The winners of the paper's grid and of the wide one."""
    found = search_lambda(GramStatistics(x.shape[1]), x, y, balance=True, grid=SEARCHES["wide"])
    if found is None:
        return FIRST_LAMBDA, FIRST_LAMBDA
    paper = max(LAMBDAS, key=lambda lam: (found.accuracies[lam], lam))
    return paper, found.best


def split(
    train: Samples, test: Samples, per_class: int, classes: int | None, seed: int
) -> tuple[Samples, Samples]:
    """So many training images of each of so many classes, and all test images of these classes."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.unique(test[1]))[:classes]
    rows = np.concatenate([rng.permutation(np.flatnonzero(train[1] == name))[:per_class] for name in names])
    asked = np.isin(test[1], names)
    return (train[0][rows], train[1][rows]), (test[0][asked], test[1][asked])


def measured(train: Samples, test: Samples) -> Result:
    """One split."""
    paper, wide = lambdas(*train)
    classifier = RidgeClassifier(wide, balance=True).fit(*train)
    before, after = (classifier.with_parameters(lam=lam).score(*test) for lam in (paper, wide))
    return Result(paper, wide, before, after)


def row(results: list[Result]) -> Iterator[str]:
    """The cells of one row, from all its splits."""
    for name in ("paper", "wide"):
        counts = Counter(getattr(result, name) for result in results)
        yield ", ".join(f"{lam:.3g}" + (f" ({n})" if n > 1 else "") for lam, n in sorted(counts.items()))
    paper, wide = (
        np.array([getattr(result, name) for result in results])
        for name in ("paper_accuracy", "wide_accuracy")
    )
    yield f"{paper.mean():.3f}"
    yield f"{wide.mean():.3f}"
    better, worse = (wide > paper).sum(), (wide < paper).sum()
    yield f"{better}, {worse}"


@dataclass(frozen=True)
class Case:
    """So many images of each of so many classes, drawn several times, as features of a network."""

    images: str
    network: str
    layers: dict[str, int]
    shape: str
    splits: list[tuple[Samples, Samples]]


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """All cases, network after network."""
    cache = FeatureCache(HERE / "cache")
    for backbone in map(load_backbone, options.backbones):
        extractor = Extractor(backbone, backbone.last(backbone.default_k), cache=cache, progress=True)
        for name, parts in folders(options.data).items():
            train, test = (features(extractor, part) for part in parts)
            classes = np.unique(test[1])
            for count, few in [(count, None) for count in PER_CLASS] + [(30, few) for few in FEW_CLASSES]:
                splits = [split(train, test, count, few, seed) for seed in options.seeds]
                have = min(count, *(int((train[1] == each).sum()) for each in classes))
                yield Case(name, backbone.name, extractor.layers, f"{few or len(classes)} × {have}", splits)


def arguments(description: str | None) -> argparse.Namespace:
    """What cases need."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--backbones", nargs="+", default=["bundled", "vit-nano"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    return parser.parse_args()


def main() -> None:
    heads = [
        *("images", "network", "classes × images", "λ, paper's grid", "λ, wide", "accuracy, paper's grid"),
        *("wide", "splits better, worse"),
    ]
    rows = []
    for case in cases(arguments(__doc__)):
        results = [measured(*each) for each in case.splits]
        rows.append([case.images, case.network, case.shape, *row(results)])
        print(" | ".join(rows[-1]), flush=True)
    print(f"\n{to_markdown(Table.of(heads, rows))}", flush=True)


if __name__ == "__main__":
    main()
