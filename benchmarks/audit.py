"""Does an audit find wrong labels, at what cost, and do suggestions save labels?

    python -m benchmarks.audit [--data ../shared/data] [--backbones bundled vit-nano] [--seeds 0]
                               [--cleanlab PYTHON]

Needs `cifar100-subset.tar`, `pacs-subset.tar` and `birds-subset.tar` in the data folder; unpacks them into
.bench/. Features are cached. Each seed draws at most 2,000 training images and gives 5 or 10 % of them
another label, at random. Then it is counted how many of these are among the first 5 or 10 % of a list: by
exact leave-one-out (`layup audit`, which ranks by probability; and by margin), by the margin of the same
classifier with every image learned (in-sample), and by self-confidence: the probability of the given label by
logistic regression on the deepest layer, trained without the fifth that the image is in. With --cleanlab, a
Python that has cleanlab, its ranking of the same probabilities is added. Seconds are those after features are
known.

For suggestions, two images per class have labels at first, then as many more as there are classes in each of
four rounds: chosen as `layup suggest` does, or at random.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.choices import HERE
from benchmarks.wide_grid import Samples, features, folders
from layup.algebra import AutoClassifier, GramStatistics, Prior, most_informative, plausibility
from layup.backbones import load_backbone
from layup.features import Extractor, FeatureCache
from layup.tables import Table, to_markdown

MOST = 2000
SHARES = (0.05, 0.10)
ROUNDS = 4
CLEANLAB = """
import sys, numpy, time
from cleanlab.rank import get_label_quality_scores
given = numpy.load(sys.argv[1])
start = time.perf_counter()
scores = get_label_quality_scores(given["labels"], given["probabilities"])
numpy.savez(sys.argv[1], scores=scores, seconds=time.perf_counter() - start)
"""
Ranking = tuple[NDArray[Any], float]
"""A number per image, the lowest for what is most probably wrong; and how many seconds it took."""


def learned(layers: dict[str, int], samples: Samples) -> AutoClassifier:
    """A classifier of these samples."""
    classifier, sums = AutoClassifier(), GramStatistics(layers)
    sums.update(*samples)
    classifier.adopt(sums)
    return classifier


def with_wrong_labels(y: NDArray[Any], share: float, rng: np.random.Generator) -> tuple[NDArray[Any], Any]:
    """Labels of which so many are wrong, and which."""
    names, index = np.unique(y, return_inverse=True)
    wrong = rng.permutation(len(y))[: round(share * len(y))]
    index[wrong] = (index[wrong] + rng.integers(1, len(names), len(wrong))) % len(names)
    return names[index], np.isin(np.arange(len(y)), wrong)


def margins(scores: NDArray[Any], index: NDArray[Any]) -> NDArray[Any]:
    """By how much the own class beats the best other one."""
    rows, others = np.arange(len(index)), scores.copy()
    others[rows, index] = -np.inf
    return np.asarray(scores[rows, index] - others.max(axis=1))


def by_layup(layers: dict[str, int], x: NDArray[Any], y: NDArray[Any]) -> Iterator[tuple[str, Ranking]]:
    """Leave-one-out, and in-sample; both include learning."""
    start = time.perf_counter()
    held = learned(layers, (x, y)).held_out(x, y)
    found = np.nan_to_num(plausibility(held), nan=np.inf)
    took = time.perf_counter() - start
    yield "audit: leave-one-out", (found, took)
    yield "leave-one-out, by margin", (np.nan_to_num(held.margin, nan=np.inf), took)
    start = time.perf_counter()
    classifier = learned(layers, (x, y))
    found = margins(classifier.scores_of(x), np.searchsorted(classifier.classes_, y))
    yield "in-sample", (found, time.perf_counter() - start)


def by_folds(deep: NDArray[Any], y: NDArray[Any], python: Path | None) -> Iterator[tuple[str, Ranking]]:
    """Self-confidence by five folds, and cleanlab's ranking of the same probabilities."""
    start = time.perf_counter()
    names, index = np.unique(y, return_inverse=True)
    probabilities = np.zeros((len(y), len(names)))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(deep, index):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=50)).fit(
            deep[train], index[train]
        )
        probabilities[np.ix_(test, model.classes_)] = model.predict_proba(deep[test])
    own = probabilities[np.arange(len(y)), index]
    took = time.perf_counter() - start
    yield "self-confidence, five folds", (own, took)
    if python is not None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "given.npz")
            np.savez(file, labels=index, probabilities=probabilities)
            subprocess.run([python, "-c", CLEANLAB, file], check=True)
            with np.load(file) as found:
                yield "cleanlab, the same folds", (found["scores"], took + float(found["seconds"]))


def found_in(ranking: NDArray[Any], wrong: NDArray[Any], share: float) -> tuple[float, float]:
    """Precision and recall of the first of a list."""
    first = np.argsort(ranking, kind="stable")[: round(share * len(ranking))]
    return float(wrong[first].mean()), float(wrong[first].sum() / wrong.sum())


def planted(
    name: str, layers: dict[str, int], train: Samples, seeds: list[int], python: Path | None
) -> Iterator[list[str]]:
    """A row per share of wrong labels and way to rank them."""
    width = [*layers.values()][-1]
    for share in SHARES:
        results: dict[str, list[list[float]]] = {}
        for seed in seeds:
            rng = np.random.default_rng(seed)
            rows = rng.permutation(len(train[1]))[:MOST]
            x, (y, wrong) = train[0][rows], with_wrong_labels(train[1][rows], share, rng)
            ways = [*by_layup(layers, x, y), *by_folds(x[:, -width:], y, python)]
            for way, (ranking, seconds) in ways:
                ends = [value for first in SHARES for value in found_in(ranking, wrong, first)]
                results.setdefault(way, []).append([*ends, seconds])
        for way, values in results.items():
            *ends, seconds = np.mean(values, axis=0)
            yield [name, f"{share:.0%}", way, *(f"{value:.2f}" for value in ends), f"{seconds:.1f}"]


def useful(layers: dict[str, int], train: Samples, has: NDArray[Any], count: int) -> NDArray[Any]:
    """What `layup suggest` takes, from images that differ."""
    sums, pool = (
        learned(layers, (train[0][has], train[1][has])).statistics_,
        np.delete(np.arange(len(train[1])), has),
    )
    centred = train[0][pool] - sums.prototypes.sum(axis=0) / sums.total
    return pool[most_informative(Prior.of(sums).whitening(sums).whitened(centred), count)]


def rounds(
    layers: dict[str, int],
    train: Samples,
    test: Samples,
    seed: int,
    take: Callable[[NDArray[Any], int, np.random.Generator], NDArray[Any]],
) -> list[float]:
    """The accuracy after each round."""
    rng, names = np.random.default_rng(seed), np.unique(train[1])
    has = np.concatenate([rng.permutation(np.flatnonzero(train[1] == name))[:2] for name in names])
    accuracies = []
    for number in range(ROUNDS + 1):
        accuracies.append(float(learned(layers, (train[0][has], train[1][has])).score(*test)))
        if number < ROUNDS:
            has = np.concatenate([has, take(has, len(names), rng)])
    return accuracies


def suggested(
    name: str, layers: dict[str, int], train: Samples, test: Samples, seeds: list[int]
) -> Iterator[list[str]]:
    """A row per way to choose."""

    def at_random(has: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
        return rng.permutation(np.delete(np.arange(len(train[1])), has))[:count]

    def by_use(has: NDArray[Any], count: int, _: np.random.Generator) -> NDArray[Any]:
        return useful(layers, train, has, count)

    for way, take in (("at random", at_random), ("suggested", by_use)):
        values = np.mean([rounds(layers, train, test, seed, take) for seed in seeds], axis=0)
        yield [name, way, *(f"{value:.3f}" for value in values)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--backbones", nargs="+", default=["bundled", "vit-nano"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cleanlab", type=Path)
    options = parser.parse_args()
    cache = FeatureCache(HERE / "cache")
    wrong: list[list[str]] = []
    labels: list[list[str]] = []
    for backbone in map(load_backbone, options.backbones):
        extractor = Extractor(backbone, backbone.last(backbone.default_k), cache=cache, progress=True)
        for name, parts in folders(options.data).items():
            train, test = (features(extractor, part) for part in parts)
            both = f"{name}, {backbone.name}"
            for row in planted(both, extractor.layers, train, options.seeds, options.cleanlab):
                wrong.append(row)
                print(" | ".join(row), flush=True)
            for row in suggested(both, extractor.layers, train, test, options.seeds):
                labels.append(row)
                print(" | ".join(row), flush=True)
    ends = [f"{what}, first {share:.0%}" for share in SHARES for what in ("precision", "recall")]
    print(f"\n{to_markdown(Table.of(['images', 'wrong', 'ranked by', *ends, 'seconds'], wrong))}")
    heads = ["images", "chosen", "2 per class", *(f"+ {n} per class" for n in range(1, ROUNDS + 1))]
    print(f"\n{to_markdown(Table.of(heads, labels))}", flush=True)


if __name__ == "__main__":
    main()
