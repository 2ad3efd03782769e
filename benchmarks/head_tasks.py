"""Ten tasks: does the classifier depend on how its classes arrive?

    python -m benchmarks.head_tasks [--data ../shared/data] [--weights ../shared/data/vit-tiny.safetensors]
                                    [--networks bundled vit-tiny] [--seed 0]

Needs what benchmarks.heads needs. CIFAR-100, 30 images per class, in ten tasks of ten classes; accuracy on
the test images of all classes after the last task. The default classifier must then give the predictions that
it gives after one batch of all classes, and after the same tasks in the opposite order: this is asserted. The
paper's classifier searches λ on each task's own samples.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.heads import NETWORKS, Split, datasets, load
from layup.algebra import (
    AutoClassifier,
    GramStatistics,
    NearestMeanClassifier,
    RidgeClassifier,
    SumsClassifier,
)
from layup.features import EMBEDDING
from layup.tables import Table, to_markdown

TASKS = 10
PER_CLASS = 30


def learned(
    classifier: SumsClassifier, split: Split, tasks: Sequence[NDArray[Any]]
) -> tuple[NDArray[Any], list[float]]:
    """Predictions after all tasks, and λ after each of them, where there is one."""
    if isinstance(classifier, AutoClassifier):
        classifier.adopt(GramStatistics(split.layers))
    lambdas = []
    for classes in tasks:
        rows = np.isin(split.y, classes)
        classifier.partial_fit(split.x[rows], split.y[rows])
        if isinstance(classifier, RidgeClassifier):
            lambdas.append(classifier.lambda_)
    return classifier.predict(split.asked), lambdas


def compared(split: Split, seed: int) -> list[list[str]]:
    """One row per classifier."""
    names = np.random.default_rng(seed).permutation(np.unique(split.y))
    tasks, joint = np.array_split(names, TASKS), [names]
    six, embedding = split.last(6), split.only([EMBEDDING])
    rows = []
    for title, of, part in (
        ("default", AutoClassifier, six),
        ("paper's, λ searched in each task", lambda: RidgeClassifier("search", balance=True), six),
        ("NMC", NearestMeanClassifier, embedding),
    ):
        predictions, lambdas = learned(of(), part, tasks)
        together, best = learned(of(), part, joint)
        if of is AutoClassifier:
            assert (predictions == together).all()
            assert (predictions == learned(of(), part, tasks[::-1])[0]).all()
        shown = ", ".join(f"{lam:.3g}" for lam in lambdas) + "".join(f" (joint: {lam:.3g})" for lam in best)
        rows.append([title, shown, f"{part.accuracy(predictions):.3f}", f"{part.accuracy(together):.3f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--weights", type=Path, default=Path("../shared/data/vit-tiny.safetensors"))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=["bundled", "vit-tiny"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = []
    for network in options.networks:
        if (backbone := load(network, options.weights)) is None:
            continue
        split = dict(datasets(backbone, options.data))["CIFAR-100"].drawn(PER_CLASS, options.seed)
        rows += [[network, *row] for row in compared(split, options.seed)]
    heads = ["network", "classifier", "λ, task by task", "accuracy after ten tasks", "after one batch"]
    print(f"\n{to_markdown(Table.of(heads, rows))}", flush=True)


if __name__ == "__main__":
    main()
