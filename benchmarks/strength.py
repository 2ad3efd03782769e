"""Does it help that a batch may change the strength of λ, and does it harm?

    python -m benchmarks.strength [--data ../shared/data] [--backbones bundled vit-nano]

The default classifier with strength 1, so that λ follows from the sums alone, and with the strength that the
batch says ("search"): on photos (CIFAR-100, PACS, birds; 10 and 30 training images per class, two draws), and
on handwritten digits, which are unlike photos, in one batch and in five tasks of two digits.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.choices import HERE
from benchmarks.wide_grid import Samples, features, folders
from layup.algebra import AutoClassifier, RidgeClassifier, SumsClassifier
from layup.backbones import load_backbone
from layup.cli.digits import digits_tasks
from layup.features import Extractor, FeatureCache
from layup.tables import Table, to_markdown


def measured(extractor: Extractor, batches: Sequence[Samples], test: Samples) -> list[str]:
    """Accuracy with strength 1 and with the searched one, that strength, and the paper's accuracy."""
    cells = []
    for classifier in (AutoClassifier(strength=1), AutoClassifier(), RidgeClassifier(balance=True)):
        learned: SumsClassifier = classifier
        learned.adopt(learned.empty(extractor.layers))
        for x, y in batches:
            learned.learn_rows(x, y)
        right = learned.classes_[learned.scores_of(test[0]).argmax(axis=1)] == test[1]
        cells.append(f"{right.mean():.3f}")
        if learned.chosen().get("strength", 1.0) != 1.0:
            cells[-1] += f" ({learned.chosen()['strength']:.2g})"
    return cells


def drawn(train: Samples, per_class: int, seed: int) -> Samples:
    """So many training images of each class."""
    rng = np.random.default_rng(seed)
    names = np.unique(train[1])
    rows = np.concatenate([rng.permutation(np.flatnonzero(train[1] == name))[:per_class] for name in names])
    return train[0][rows], train[1][rows]


def digits(extractor: Extractor) -> tuple[list[Samples], Samples]:
    """The five tasks, and all test images."""
    tasks = digits_tasks()
    train = [(extractor.extract(task.train[0]).rows, np.array(task.train[1])) for task in tasks]
    test = [(extractor.extract(task.test[0]).rows, np.array(task.test[1])) for task in tasks]
    return train, _joined(test)


def _joined(parts: Sequence[Samples]) -> Samples:
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--backbones", nargs="+", default=["bundled", "vit-nano"])
    options = parser.parse_args()
    cache, rows = FeatureCache(HERE / "cache"), []
    for backbone in map(load_backbone, options.backbones):
        extractor = Extractor(backbone, backbone.last(backbone.default_k), cache=cache, progress=True)
        tasks, test = digits(extractor)
        everything = _joined(tasks)
        cases = [("digits", "all", [everything], test), ("digits", "all, five tasks", tasks, test)]
        cases += [("digits", str(n), [drawn(everything, n, 0)], test) for n in (10, 30)]
        for name, (train, others) in folders(options.data).items():
            known, new = features(extractor, train), features(extractor, others)
            cases += [(name, str(n), [drawn(known, n, seed)], new) for n in (10, 30) for seed in (0, 1)]
        for name, count, batches, asked in cases:
            rows.append([name, backbone.name, count, *measured(extractor, batches, asked)])
            print(" | ".join(rows[-1]), flush=True)
    heads = ["images", "network", "per class", "strength 1", "searched (its strength)", "paper's search"]
    print(f"\n{to_markdown(Table.of(heads, rows))}", flush=True)


if __name__ == "__main__":
    main()
