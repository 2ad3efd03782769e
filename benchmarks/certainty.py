"""How good are confidence, sets of labels, and the word "unknown"?

    python -m benchmarks.certainty [--data ../shared/data] [--backbones bundled vit-nano] [--splits 100]

Needs `cifar100-subset.tar`, `pacs-subset.tar` and `birds-subset.tar` in the data folder; unpacks them into
.bench/. Features are cached. Each split draws training images of each class; test images are never learned,
and never used for calibration, which judges at most 2,000 learned images, each without itself.

1. Expected calibration error (15 bins): of the plain scores, by rule of thumb, and calibrated.
2. Coverage of sets that should hold the truth in 95 of 100 cases; by class; with a calibration from before
   half of the classes arrived; and, for PACS, learned from photos and asked about other domains.
3. Unknown: half of the classes are learned (or only a few), all test images are asked. The area under the ROC
   curve of several measures, and how many unknown images pass where 95 % of the known ones do.
   benchmarks.unknown has what the model makes of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.choices import HERE
from benchmarks.wide_grid import Samples, features, folders
from layup.algebra import AutoClassifier, Calibration, Floats, GramStatistics, Novelty, softmax
from layup.backbones import load_backbone
from layup.features import EMBEDDING, Extractor, FeatureCache
from layup.tables import Table, to_markdown

JUDGED = 2000
BINS = 15
COVERAGE = 0.95
COUNTS = (2, 5, 10, 30)
NEIGHBOURS = 5


@dataclass(frozen=True)
class Data:
    """Features of training and test images, with the widths of the layers; the embedding comes last."""

    train: Samples
    test: Samples
    layers: dict[str, int]

    @cached_property
    def width(self) -> int:
        """Columns of the layers, without the embedding."""
        return sum(self.layers.values())

    def drawn(self, per_class: int, rng: np.random.Generator, classes: NDArray[Any] | None = None) -> Samples:
        """So many training images of each class."""
        names = np.unique(self.train[1]) if classes is None else classes
        rows = [rng.permutation(np.flatnonzero(self.train[1] == name))[:per_class] for name in names]
        kept = np.concatenate(rows)
        return self.train[0][kept], self.train[1][kept]

    def learned(self, *batches: Samples) -> AutoClassifier:
        """A classifier that has learned these."""
        sums = GramStatistics(self.layers)
        for x, y in batches:
            sums.update(x[:, : self.width], y)
        classifier = AutoClassifier()
        classifier.adopt(sums)
        return classifier

    def calibrated(self, classifier: AutoClassifier, learned: Samples, seed: int = 0) -> Calibration:
        """What learned images say, each judged without itself."""
        rows = np.random.default_rng(seed).permutation(len(learned[1]))[:JUDGED]
        found = Calibration.of(classifier.held_out(learned[0][rows, : self.width], learned[1][rows]))
        assert found is not None
        return found


def calibration_error(probabilities: Floats, right: NDArray[np.bool_]) -> float:
    """The mean difference of confidence and accuracy, over bins of equal width."""
    confidence = probabilities.max(axis=1)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return sum(
        float((bins == each).mean() * abs(confidence[bins == each].mean() - right[bins == each].mean()))
        for each in np.unique(bins)
    )


def errors(data: Data, per_class: int, splits: int) -> Iterator[str]:
    """Accuracy, confidence, and the calibration errors."""
    found = []
    for seed in range(splits):
        learned = data.drawn(per_class, np.random.default_rng(seed))
        classifier = data.learned(learned)
        calibration = data.calibrated(classifier, learned)
        scores = classifier.scores_of(data.test[0][:, : data.width])
        right = classifier.classes_[scores.argmax(axis=1)] == data.test[1]
        ways = [softmax(beta * scores) for beta in (1.0, classifier.steepness, calibration.steepness)]
        sure = float(ways[-1].max(axis=1).mean())
        found.append([float(right.mean()), sure, *(calibration_error(way, right) for way in ways)])
    return (f"{each:.3f}" for each in np.mean(found, axis=0))


def held(
    probabilities: Floats, classes: NDArray[Any], truth: NDArray[Any], least: float
) -> NDArray[np.bool_]:
    """Whose set of labels holds the truth."""
    own = probabilities[np.arange(len(truth)), np.searchsorted(classes, truth)]
    return np.asarray((own >= least) | (probabilities.argmax(axis=1) == np.searchsorted(classes, truth)))


def coverages(data: Data, per_class: int, splits: int) -> Iterator[str]:
    """Coverage now, by class, and with the calibration from before half of the classes arrived."""
    x, y = data.test[0][:, : data.width], data.test[1]
    now, sizes, before, by_class = [], [], [], []
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        names = rng.permutation(np.unique(y))
        first, second = (data.drawn(per_class, rng, part) for part in np.array_split(names, 2))
        early = data.calibrated(data.learned(first), first)
        classifier = data.learned(first, second)
        both = np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
        late = data.calibrated(classifier, both)
        scores = classifier.scores_of(x)
        sure = late.probabilities(scores)
        within = held(sure, classifier.classes_, y, late.set_threshold(COVERAGE))
        now.append(float(within.mean()))
        sizes.append(float(np.maximum((sure >= late.set_threshold(COVERAGE)).sum(axis=1), 1).mean()))
        by_class.append([float(within[y == name].mean()) for name in np.unique(y)])
        stale = early.probabilities(scores)
        before.append(float(held(stale, classifier.classes_, y, early.set_threshold(COVERAGE)).mean()))
    classes = np.mean(by_class, axis=0)
    yield f"{np.mean(now):.3f} ({np.min(now):.3f} to {np.max(now):.3f})"
    yield f"{np.mean(sizes):.1f}"
    yield f"{np.quantile(classes, 0.1):.2f} to {np.quantile(classes, 0.9):.2f}"
    yield f"{np.mean(before):.3f}"


def measures(data: Data, classifier: AutoClassifier, learned: Samples) -> dict[str, Floats]:
    """How known each test image looks, by several measures: more is more known."""
    x, embedded = data.test[0][:, : data.width].astype(np.float64), data.test[0][:, data.width :]
    votes = classifier.votes
    scores, means = classifier.scores_of(x), votes.whitening.between
    towards_means, lengths = votes.whitening.of(x)
    centre = np.full(len(means), votes.prior.centre / len(means))
    towards = means @ centre
    between = means - towards[:, None] - towards + centre @ towards
    cross = towards_means - (towards_means @ centre)[:, None] - towards + centre @ towards
    own = lengths - 2 * towards_means @ centre + centre @ towards
    discriminants = cross - np.diagonal(between) / 2
    inverse = np.linalg.inv(np.eye(len(between)) / votes.prior.size + between)
    explained = np.einsum("nc,cd,nd->n", cross, inverse, cross)
    unit = [
        rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (embedded, learned[0][:, data.width :])
    ]
    nearest = np.sort(unit[0] @ unit[1].T, axis=1)
    leverage = own - explained
    return {
        "familiarity": classifier.familiarity(x),
        "relative Mahalanobis": discriminants.max(axis=1) - explained / 2,
        "Mahalanobis": (discriminants - own[:, None] / 2).max(axis=1),
        "leverage": -leverage,
        "score / √leverage": scores.max(axis=1) / np.sqrt(leverage),
        "largest score": scores.max(axis=1),
        "energy": np.logaddexp.reduce(classifier.steepness * scores, axis=1),
        "kNN": nearest[:, -min(NEIGHBOURS, len(learned[1])) :].mean(axis=1),
        "logistic regression": logistic(unit[1], learned[1], unit[0]),
    }


def logistic(x: Floats, y: NDArray[Any], asked: Floats) -> Floats:
    """The largest probability by logistic regression on unit embeddings; of one class there is none."""
    if len(np.unique(y)) == 1:
        return np.zeros(len(asked))
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=100.0, max_iter=200).fit(x, y)
    return np.asarray(fitted.predict_proba(asked).max(axis=1))


def unknown(
    data: Data, classes: Callable[[int], int], per_class: int, splits: int
) -> dict[str, tuple[float, float]]:
    """Area and passing unknown images of every measure."""
    from sklearn.metrics import roc_auc_score

    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        names = rng.permutation(np.unique(data.test[1]))
        learned = data.drawn(per_class, rng, names[: classes(len(names))])
        classifier = data.learned(learned)
        known = np.isin(data.test[1], learned[1])
        for name, value in measures(data, classifier, learned).items():
            passing = float((value[~known] >= np.quantile(value[known], 0.05)).mean())
            found.setdefault(name, []).append((float(roc_auc_score(known, value)), passing))
    return {name: tuple(np.mean(values, axis=0).tolist()) for name, values in found.items()}


def rejected(classifier: AutoClassifier, calibration: Calibration, x: Floats) -> NDArray[np.bool_]:
    """Which images the model calls unknown."""
    novelty = Novelty.of(len(classifier.classes_), calibration)
    return np.asarray(novelty.probabilities(classifier.familiarity(x)) > 0.5)


def shifted(extractor: Extractor, pacs: list[Path], width: int, layers: dict[str, int]) -> list[list[str]]:
    """PACS: learned from photos, asked about each domain."""
    train, test = ([features(extractor, [domain / part]) for domain in pacs] for part in ("train", "test"))
    photo = [domain.name for domain in pacs].index("photo")
    data = Data(train[photo], test[photo], layers)
    classifier = data.learned(data.train)
    calibration = data.calibrated(classifier, data.train)
    rows = []
    for domain, (x, y) in zip(pacs, test, strict=True):
        scores = classifier.scores_of(x[:, :width])
        sure = calibration.probabilities(scores)
        right = classifier.classes_[scores.argmax(axis=1)] == y
        within = held(sure, classifier.classes_, y, calibration.set_threshold(COVERAGE))
        strange = rejected(classifier, calibration, x[:, :width])
        cells = (right.mean(), sure.max(axis=1).mean(), within.mean(), strange.mean())
        rows.append([domain.name, *(f"{each:.3f}" for each in cells)])
    return rows


def printed(title: str, heads: list[str], rows: list[list[str]]) -> None:
    print(f"\n{title}\n\n{to_markdown(Table.of(heads, rows))}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--backbones", nargs="+", default=["bundled", "vit-nano"])
    parser.add_argument("--splits", type=int, default=100)
    options = parser.parse_args()
    few = min(options.splits, 3)
    cache = FeatureCache(HERE / "cache")
    tables: dict[str, list[list[str]]] = {"errors": [], "sets": [], "unknown": [], "shift": []}
    for backbone in map(load_backbone, options.backbones):
        layers = backbone.last(backbone.default_k)
        extractor = Extractor(backbone, (*layers, EMBEDDING), cache=cache, progress=True)
        widths = {name: width for name, width in extractor.layers.items() if name != EMBEDDING}
        for name, parts in folders(options.data).items():
            data = Data(features(extractor, parts[0]), features(extractor, parts[1]), widths)
            about = [name, backbone.name]
            for count in COUNTS:
                tables["errors"].append([*about, str(count), *errors(data, count, few)])
            tables["sets"].append([*about, "10", *coverages(data, 10, options.splits)])
            for words, classes in (("half", lambda n: n // 2), ("1", lambda n: 1), ("5", lambda n: 5)):
                found = unknown(data, classes, 10, few)
                tables["unknown"].append([*about, words, *(f"{a:.3f}, {b:.2f}" for a, b in found.values())])
            print(f"done: {name}, {backbone.name}", flush=True)
        domains = sorted((HERE / "pacs-subset").iterdir())
        tables["shift"] += [[backbone.name, *row] for row in shifted(extractor, domains, data.width, widths)]
    about = ["images", "network"]
    printed(
        "Expected calibration error",
        [*about, "per class", "accuracy", "confidence", "plain scores", "rule of thumb", "calibrated"],
        tables["errors"],
    )
    printed(
        f"Sets with a coverage of {COVERAGE}",
        [
            *about,
            "per class",
            "coverage (splits)",
            "labels per set",
            "by class",
            "calibrated before half arrived",
        ],
        tables["sets"],
    )
    printed("Unknown: area, unknown that pass", [*about, "classes", *found], tables["unknown"])
    printed(
        "PACS, learned from photos",
        ["network", "asked", "accuracy", "confidence", "coverage", "called unknown"],
        tables["shift"],
    )


if __name__ == "__main__":
    main()
