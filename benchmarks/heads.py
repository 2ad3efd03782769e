"""How good is the default classifier, against others that could be put on the same frozen network?

    python -m benchmarks.heads [--data ../shared/data] [--weights ../shared/data/vit-tiny.safetensors]
                               [--networks bundled vit-nano vit-tiny] [--seeds 0 1 2] [--quick]

Needs `cifar100-subset.tar`, `pacs-subset.tar` and `birds-subset.tar` in the data folder; unpacks them into
.bench/. Features are cached. The ViT-Tiny is left out if its weights are not there.

1, 2, 5, 10, 30 and all images per class are learned in one batch; seeds draw them, and accuracies on all test
images are means over seeds. "Six layers" are the last ones of the network, whose outputs are put side by
side; "one" is the last. Compared are

    auto                 the default classifier, of six layers
    ridge                the paper's classifier (of six layers, by search), balanced; also by gcv, and of one
    NMC                  the nearest class mean by cosine, on the network's final embedding
    LDA                  linear discriminants, with the shrinkage that is best by exact leave-one-out
    logistic regression  on standardised values, its strength by cross-validation; not where that takes long

All but gcv and NMC look at samples again to choose; `auto` only for the strength of its λ, which photos
hardly ever change. The table compares `auto` with the one that is best on the test images, row by row: a
choice that nobody could have made. --quick is one seed, with 1 and 5 images per class.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.choices import HERE, read
from benchmarks.wide_grid import folders
from layup.algebra import AutoClassifier, GramStatistics, NearestMeanClassifier, RidgeClassifier
from layup.algebra.whitening import Whitening
from layup.backbones import Backbone, load_backbone
from layup.features import EMBEDDING, Extractor, FeatureCache
from layup.tables import Table, to_markdown

NETWORKS = ("bundled", "vit-nano", "vit-tiny")
VIT_TINY = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
PER_CLASS = (1, 2, 5, 10, 30, None)
"""None: all."""
SHRINKAGES = 10 ** np.arange(-3.5, 2.5, 0.5)
"""λ of LDA, in units of the mean eigenvalue of the scatter within classes."""
JUDGED = 2000
"""The most samples that are left out, one by one, to choose it."""
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""C of logistic regression, as scikit-learn counts it."""
UNTESTED = 2
"""Which of them is taken where no class has two images, so that nothing can be tested."""
STEPS = 30
"""Iterations of logistic regression per strength; each strength starts from the solution of the last one."""
LARGEST = 6e7
"""Products per pass over the samples beyond which logistic regression takes a minute or more."""


@dataclass(frozen=True)
class Split:
    """Samples to learn and samples to predict, and the layers that their columns belong to."""

    layers: dict[str, int]
    x: NDArray[Any]
    y: NDArray[Any]
    asked: NDArray[Any]
    truth: NDArray[Any]

    def only(self, names: Sequence[str]) -> Split:
        """With these layers."""
        ends = dict(zip(self.layers, np.cumsum([*self.layers.values()]), strict=True))
        columns = np.concatenate([np.arange(ends[name] - self.layers[name], ends[name]) for name in names])
        layers = {name: self.layers[name] for name in names}
        return replace(self, layers=layers, x=self.x[:, columns], asked=self.asked[:, columns])

    def last(self, k: int) -> Split:
        """With the last k layers, without the final embedding."""
        return self.only([name for name in self.layers if name != EMBEDDING][-k:])

    def drawn(self, per_class: int | None, seed: int) -> Split:
        """With so many samples to learn per class."""
        rng = np.random.default_rng(seed)
        rows = [rng.permutation(np.flatnonzero(self.y == name))[:per_class] for name in np.unique(self.y)]
        chosen = np.concatenate(rows)
        return replace(self, x=self.x[chosen], y=self.y[chosen])

    def in_span(self) -> Split:
        """With as many columns as there are samples to learn, if these are fewer: the same inner products."""
        if len(self.x) >= self.x.shape[1]:
            return self
        basis = np.linalg.qr(self.x.T.astype(np.float64))[0]
        return replace(self, layers={"span": len(self.x)}, x=self.x @ basis, asked=self.asked @ basis)

    def sums(self) -> GramStatistics:
        """The sums of the samples to learn."""
        sums = GramStatistics(self.layers)
        sums.update(self.x, self.y)
        return sums

    def accuracy(self, predictions: NDArray[Any]) -> float:
        """The share of right predictions."""
        return float((predictions == self.truth).mean())


Head: TypeAlias = Callable[[Split], float | None]


def auto(split: Split) -> float:
    classifier = AutoClassifier()
    classifier.adopt(GramStatistics(split.layers))
    classifier.learn_rows(split.x, split.y)
    return split.accuracy(classifier.predict(split.asked))


def ridge(split: Split, rule: str) -> float:
    return split.accuracy(RidgeClassifier(rule, balance=True).fit(split.x, split.y).predict(split.asked))


def nearest_mean(split: Split) -> float:
    return split.accuracy(NearestMeanClassifier().fit(split.x, split.y).predict(split.asked))


def discriminants(split: Split) -> float:
    """LDA with S_W + λI; ties go to the larger λ."""
    split = split.in_span()
    sums = split.sums()
    names, index = np.unique(split.y, return_inverse=True)
    tested = np.random.default_rng(0).permutation(np.flatnonzero(sums.counts[index] > 1))[:JUDGED]
    unit = float(np.trace(sums.within_class_scatter())) / sums.dim or 1.0

    def right(shrinkage: float) -> int:
        """How many samples are predicted right by all the others."""
        found = whitening(shrinkage).left_out(split.x[tested], index[tested])
        return int(((found.cross - found.diagonal() / 2).argmax(axis=1) == index[tested]).sum())

    def whitening(shrinkage: float) -> Whitening:
        return Whitening(sums, np.ones(sums.dim), shrinkage * unit)

    best = max(SHRINKAGES, key=lambda each: (right(each), each)) if len(tested) else 1.0
    solved = whitening(best)
    scores = split.asked @ solved.weights - np.diagonal(solved.between) / 2
    return split.accuracy(names[scores.argmax(axis=1)])


def logistic(split: Split) -> float | None:
    """Logistic regression; None where it would take long."""
    names, index = np.unique(split.y, return_inverse=True)
    if len(split.x) * min(split.x.shape) * len(names) > LARGEST:
        return None
    mean, deviation = split.x.mean(axis=0), split.x.std(axis=0) + 1e-6
    units = replace(split, x=(split.x - mean) / deviation, asked=(split.asked - mean) / deviation).in_span()
    x, asked = (
        torch.from_numpy(np.column_stack([each, np.ones(len(each))]).astype(np.float32))
        for each in (units.x, units.asked)
    )
    y, fold = torch.from_numpy(index), _folds(index)
    right = np.zeros(len(STRENGTHS))
    for each in range(int(fold.max()) + 1) if fold.any() else ():
        learned, held_out = torch.from_numpy(fold != each), torch.from_numpy(fold == each)
        for number, weights in enumerate(_regressions(x[learned], y[learned], len(names), STRENGTHS)):
            right[number] += int(((x[held_out] @ weights).argmax(dim=1) == y[held_out]).sum())
    best = int(right.argmax()) if fold.any() else UNTESTED
    *_, weights = _regressions(x, y, len(names), STRENGTHS[: best + 1])
    return split.accuracy(names[(asked @ weights).argmax(dim=1).numpy()])


def _folds(index: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fold of each sample: four, or as many as the smallest class has samples."""
    count, fold = min(4, int(np.bincount(index).min())), np.zeros(len(index), np.int64)
    for each in np.unique(index):
        fold[index == each] = np.arange((index == each).sum()) % count
    return fold


def _regressions(
    x: torch.Tensor, y: torch.Tensor, classes: int, strengths: Sequence[float]
) -> Iterator[torch.Tensor]:
    """The weights for each strength. The last column of x is 1; its weights are not punished."""
    weights = torch.zeros(x.shape[1], classes, requires_grad=True)
    for strength in strengths:
        steps = torch.optim.LBFGS(
            [weights], max_iter=STEPS, line_search_fn="strong_wolfe", tolerance_grad=1e-5
        )

        def loss(strength: float = strength, steps: torch.optim.LBFGS = steps) -> torch.Tensor:
            steps.zero_grad()
            error = torch.nn.functional.cross_entropy(x @ weights, y)
            total = error + (weights[:-1] ** 2).sum() / (2 * strength * len(x))
            total.backward()  # type: ignore[no-untyped-call]
            return total

        steps.step(loss)  # type: ignore[no-untyped-call]
        yield weights.detach().clone()


AUTO, PAPER, GCV = "auto", "ridge, six, search", "ridge, six, gcv"
HEADS: dict[str, Head] = {
    AUTO: lambda split: auto(split.last(6)),
    PAPER: lambda split: ridge(split.last(6), "search"),
    GCV: lambda split: ridge(split.last(6), "gcv"),
    "ridge, one, search": lambda split: ridge(split.last(1), "search"),
    "NMC": lambda split: nearest_mean(split.only([EMBEDDING])),
    "LDA, one": lambda split: discriminants(split.last(1)),
    "LDA, six": lambda split: discriminants(split.last(6)),
    "logistic, one": lambda split: logistic(split.last(1)),
    "logistic, six": lambda split: logistic(split.last(6)),
}


@dataclass(frozen=True)
class Row:
    """The accuracies of all heads, with so many images per class of a dataset."""

    images: str
    per_class: str
    accuracies: dict[str, float]

    @property
    def best(self) -> str:
        """The best head but the default."""
        others = {name: value for name, value in self.accuracies.items() if name != AUTO}
        return max(others, key=others.__getitem__)

    def points(self, head: str, other: str) -> float:
        """By how many percentage points a head is better than another one."""
        return 100 * (self.accuracies[head] - self.accuracies[other])


def load(network: str, weights: Path) -> Backbone | None:
    """The network; None, with a remark, if its weights are not there."""
    if network != "vit-tiny":
        return load_backbone(network)
    if not weights.is_file():
        print(f"There is no {weights}: the ViT-Tiny is left out.", flush=True)
        return None
    return load_backbone(VIT_TINY, weights=weights)


DATASETS = ("birds", "PACS", "CIFAR-100")


def datasets(
    backbone: Backbone, data: Path, k: int = 6, names: Sequence[str] = DATASETS
) -> Iterator[tuple[str, Split]]:
    """The datasets of these names, with the features of the last k layers and of the final embedding."""
    layers = (*backbone.last(k), EMBEDDING)
    extractor = Extractor(backbone, layers, cache=FeatureCache(HERE / "cache"), progress=True)
    found = folders(data)
    for name in names:
        (learned, y), (asked, truth) = (read(part) for part in found[name])
        x, test = (extractor.extract(paths).rows for paths in (learned, asked))
        yield name, Split(extractor.layers, x, y, test, truth)


def compared(name: str, split: Split, counts: Sequence[int | None], seeds: Sequence[int]) -> Iterator[Row]:
    """One row per number of images per class; a number that no class has is left out."""
    most = int(np.unique(split.y, return_counts=True)[1].max())
    for count in counts:
        if count is not None and count >= most:
            continue
        found: dict[str, list[float]] = {}
        for seed in seeds if count else seeds[:1]:
            drawn = split.drawn(count, seed)
            for head, of in HEADS.items():
                accuracy = of(drawn)
                if accuracy is not None:
                    found.setdefault(head, []).append(accuracy)
        row = Row(
            name, str(count or f"all {most}"), {head: float(np.mean(each)) for head, each in found.items()}
        )
        print(
            f"{name} {row.per_class}",
            {head: round(each, 3) for head, each in row.accuracies.items()},
            flush=True,
        )
        yield row


def table(rows: Sequence[Row]) -> str:
    """The default against the best of the others, and against the paper's."""
    heads = ["images", "per class", "best of the others", "", "auto", "points", "paper's", "points"]
    cells = [
        [
            *(row.images, row.per_class, f"{row.accuracies[row.best]:.3f}", row.best),
            *(f"{row.accuracies[AUTO]:.3f}", f"{row.points(AUTO, row.best):+.1f}"),
            *(f"{row.accuracies[PAPER]:.3f}", f"{row.points(AUTO, PAPER):+.1f}"),
        ]
        for row in rows
    ]
    return to_markdown(Table.of(heads, cells))


def all_heads(rows: Sequence[Row]) -> str:
    """The accuracy of every head."""
    cells = [
        [
            row.images,
            row.per_class,
            *(f"{row.accuracies[head]:.3f}" if head in row.accuracies else "—" for head in HEADS),
        ]
        for row in rows
    ]
    return to_markdown(Table.of(["images", "per class", *HEADS], cells))


def summary(rows: Sequence[Row]) -> str:
    """Over rows: every head against the best of all others, and what the sums choose against the search."""
    cells = []
    for head in HEADS:
        have = [row for row in rows if head in row.accuracies]
        behind = [min(row.points(head, other) for other in row.accuracies if other != head) for row in have]
        paper = [row.points(head, PAPER) for row in have]
        counts = [sum(value < limit for value in behind) for limit in (-1, -3)]
        cells.append(
            [
                head,
                f"{np.mean(behind):+.2f}",
                f"{np.min(behind):+.1f}",
                *(f"{each} of {len(have)}" for each in counts),
                f"{np.mean(paper):+.2f}",
            ]
        )
    heads = [
        "",
        "mean points to the best of the others",
        "worst",
        "rows below −1",
        "below −3",
        "mean points to the paper's",
    ]
    return (
        f"{to_markdown(Table.of(heads, cells))}\n\n{against_search(rows, GCV)}\n{against_search(rows, AUTO)}"
    )


def against_search(rows: Sequence[Row], head: str) -> str:
    """How often a head that chooses from the sums alone is worse than the search."""
    points = [row.points(head, PAPER) for row in rows]
    worse = sum(value < -1.5 for value in points)
    return (
        f"{head}: over 1.5 points below the search in {worse} of {len(rows)} rows; worst {min(points):+.1f}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--weights", type=Path, default=Path("../shared/data/vit-tiny.safetensors"))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    counts, seeds = ((1, 5), options.seeds[:1]) if options.quick else (PER_CLASS, options.seeds)
    everything: list[Row] = []
    for network in options.networks:
        if (backbone := load(network, options.weights)) is None:
            continue
        rows = [
            row
            for name, split in datasets(backbone, options.data)
            for row in compared(name, split, counts, seeds)
        ]
        everything += rows
        print(f"\n{network}\n\n{table(rows)}\n\n{all_heads(rows)}\n", flush=True)
    print(f"\nAll networks\n\n{summary(everything)}", flush=True)


if __name__ == "__main__":
    main()
