"""Does a search for λ beyond the paper's grid help, does it harm, and does the expected accuracy hold?

    python -m benchmarks.wide_grid [--data ../shared/data] [--backbones bundled vit-nano] [--seeds 0 1 2 3 4]

Needs `cifar100-subset.tar`, `pacs-subset.tar` and `birds-subset.tar` in the data folder; unpacks them into
.bench/. Features are cached. Each seed draws 2, 5 or 30 training images per class (birds have 12), of all
classes, of five or of two, which are learned in one batch by `LayUP`'s classifier (balanced). λ is searched
once, with the wide grid: the paper's choice is the best of those that are in its grid. All test images of the
classes are predicted with both; the expected accuracy is that of the wide grid, by `held_out_tally`.
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
from layup.algebra import (
    FIRST_LAMBDA,
    LAMBDAS,
    Expected,
    GramStatistics,
    RidgeClassifier,
    held_out_tally,
    search_lambda,
)
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
    expected: Expected


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
    found = search_lambda(GramStatistics(x.shape[1]), x, y, balance=True, widen=True)
    if found is None:
        return FIRST_LAMBDA, FIRST_LAMBDA
    paper = max(LAMBDAS, key=lambda lam: (found.accuracies[lam], lam))
    return paper, found.best


def measured(train: Samples, test: Samples, per_class: int, classes: int | None, seed: int) -> Result:
    """One split."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.unique(test[1]))[:classes]
    rows = np.concatenate([rng.permutation(np.flatnonzero(train[1] == name))[:per_class] for name in names])
    x, y = train[0][rows], train[1][rows]
    paper, wide = lambdas(x, y)
    asked = np.isin(test[1], names)
    classifier = RidgeClassifier(wide, balance=True).fit(x, y)
    expected = Expected.of(held_out_tally(classifier, x, y), classifier.statistics_.count_by_label())
    assert expected is not None
    before, after = (
        classifier.with_parameters(lam=lam).score(test[0][asked], test[1][asked]) for lam in (paper, wide)
    )
    return Result(paper, wide, before, after, expected)


def row(results: list[Result]) -> Iterator[str]:
    """The cells of one row, from all its splits."""
    for name in ("paper", "wide"):
        counts = Counter(getattr(result, name) for result in results)
        yield ", ".join(f"{lam:.3g}" + (f" ({n})" if n > 1 else "") for lam, n in sorted(counts.items()))
    paper, wide, expected = (
        np.array([getattr(result, name) for result in results])
        for name in ("paper_accuracy", "wide_accuracy", "expected")
    )
    yield f"{paper.mean():.3f}"
    yield f"{wide.mean():.3f}"
    better, worse = (wide > paper).sum(), (wide < paper).sum()
    yield f"{better}, {worse}"
    yield f"{np.mean([each.accuracy for each in expected]):.3f}"
    within = sum(each.low <= truth <= each.high for each, truth in zip(expected, wide, strict=True))
    yield f"{within} of {len(results)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--backbones", nargs="+", default=["bundled", "vit-nano"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    options = parser.parse_args()
    cache, rows = FeatureCache(HERE / "cache"), []
    heads = [
        *("images", "network", "classes × images", "λ, paper's grid", "λ, wide", "accuracy, paper's grid"),
        *("wide", "splits better, worse", "expected (wide)", "accuracy within its interval"),
    ]
    for backbone in map(load_backbone, options.backbones):
        extractor = Extractor(backbone, backbone.last(backbone.default_k), cache=cache, progress=True)
        for name, parts in folders(options.data).items():
            train, test = (features(extractor, part) for part in parts)
            classes = np.unique(test[1])
            cases = [(count, None) for count in PER_CLASS] + [(30, few) for few in FEW_CLASSES]
            for count, few in cases:
                results = [measured(train, test, count, few, seed) for seed in options.seeds]
                have = min(count, *(int((train[1] == each).sum()) for each in classes))
                shape = f"{few or len(classes)} × {have}"
                rows.append([name, backbone.name, shape, *row(results)])
                print(" | ".join(rows[-1]), flush=True)
    print(f"\n{to_markdown(Table.of(heads, rows))}", flush=True)


if __name__ == "__main__":
    main()
