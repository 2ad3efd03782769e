"""What exact sums cost: accuracy by the step that features are rounded to, time, and where bits still differ.

    python -m benchmarks.exact_sums [--data ../shared/data] [--weights ../shared/data/vit-tiny.safetensors]
                                    [--networks bundled vit-nano vit-tiny] [--per-class 5 50] [--seeds 0 1 2]

Needs `cifar100-subset.tar`, `pacs-subset.tar` and `birds-subset.tar` in the data folder; unpacks them into
.bench/. Features are cached.

1. Accuracy on all test images, of the default classifier and of the paper's, with features as they are and
   with steps of 2⁻⁴ to 2⁻⁹ of the size of a layer's values: in points, against features that are not rounded.
   Images per class are drawn by the seeds.
2. The time of learning with steps against that without, side by side.
3. How many images have other features when they are read in batches of another size, by another number of
   threads or by another engine, before and after rounding.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.heads import NETWORKS, Split, datasets, load, ridge
from benchmarks.wide_grid import folders
from layup.algebra import AutoClassifier, GramStatistics, Steps
from layup.backbones import ENGINES, Backbone
from layup.errors import LayupError
from layup.features import Extractor, NoCache
from layup.features.rounding import FINENESS, measured_steps
from layup.images import find_images, open_image
from layup.performance import compare
from layup.tables import Table, to_markdown

DEPTH = 6
FINER = (4, 5, 6, 7, 8, 9)
COMPARED = 256
"""Images that are read in several ways."""


def rounded(split: Split, exponents: dict[str, int]) -> Split:
    """The same samples, rounded to steps."""
    steps = Steps(split.layers, exponents)
    return replace(split, x=steps.nearest(split.x), asked=steps.nearest(split.asked))


def by_default(split: Split) -> float:
    """The accuracy of the default classifier."""
    classifier = AutoClassifier()
    classifier.adopt(GramStatistics(split.layers))
    classifier.learn_rows(split.x, split.y)
    return split.accuracy(classifier.predict(split.asked))


CLASSIFIERS: dict[str, Callable[[Split], float]] = {
    "default": by_default,
    "paper's": lambda split: ridge(split, "search"),
}


@dataclass(frozen=True)
class Row:
    """Accuracies of a classifier: as it is, and by fineness."""

    where: list[str]
    tests: int
    plain: float
    by_fineness: dict[int, float]

    def cells(self) -> list[str]:
        """A row of the table."""
        error = 100 * np.sqrt(self.plain * (1 - self.plain) / self.tests)
        changes = [f"{100 * (each - self.plain):+.2f}" for each in self.by_fineness.values()]
        return [*self.where, f"{100 * self.plain:.2f}", f"{error:.2f}", *changes]


def accuracies(
    network: str, backbone: Backbone, data: Path, per_class: Sequence[int], seeds: Sequence[int]
) -> Iterator[Row]:
    """A row for each dataset, number of images per class, and classifier."""
    for name, whole in datasets(backbone, data, DEPTH):
        split = whole.last(DEPTH)
        source = Extractor(backbone, [*split.layers], cache=NoCache())
        usual = measured_steps(source, backbone)
        most = int(np.unique(split.y, return_counts=True)[1].max())
        for count in [each for each in per_class if each <= most]:
            drawn = [split.drawn(count, seed) for seed in seeds]
            for label, accuracy in CLASSIFIERS.items():
                found = {
                    fineness: float(
                        np.mean([accuracy(rounded(each, _finer(usual, fineness))) for each in drawn])
                    )
                    for fineness in FINER
                }
                plain = float(np.mean([accuracy(each) for each in drawn]))
                row = Row([network, name, str(count), label], len(split.truth), plain, found)
                print(" ".join(row.cells()), flush=True)
                yield row


def _finer(usual: dict[str, int], fineness: int) -> dict[str, int]:
    return {name: exponent + FINENESS - fineness for name, exponent in usual.items()}


def learning(split: Split, exponents: dict[str, int]) -> str:
    """How long learning takes with steps, as a multiple of the time without."""
    samples = rounded(split, exponents)

    def learn(steps: dict[str, int] | None) -> None:
        GramStatistics(split.layers, steps=steps).update(samples.x, samples.y)

    return str(compare(lambda: learn(None), lambda: learn(exponents), pairs=12))


def ways(backbone: Backbone, images: Sequence[Path]) -> Iterator[tuple[str, NDArray[Any]]]:
    """The features of the last layers, read in several ways; the first is the usual one."""
    pixels = torch.stack([backbone.preprocess(open_image(image)) for image in images])

    def read(by: Backbone, size: int | None) -> NDArray[Any]:
        if size is None:
            seen = [by.steadily(pixels)]
        else:
            seen = [by(pixels[start : start + size]) for start in range(0, len(pixels), size)]
        return np.concatenate([torch.cat(each.layers[-DEPTH:], dim=1).numpy() for each in seen])

    threads = torch.get_num_threads()
    yield "as layup learns", read(backbone, None)
    for size in (1, 8, 32):
        yield f"batches of {size}", read(backbone, size)
    for count in (1, 2, 4):
        torch.set_num_threads(count)
        yield f"as layup learns, {count} thread{'s' if count > 1 else ''}", read(backbone, None)
    torch.set_num_threads(threads)
    for engine in ENGINES:
        if engine == backbone.engine:
            continue
        try:
            yield f"engine {engine}", read(backbone.with_engine(engine), None)
        except LayupError as error:
            print(error)


def differences(backbone: Backbone, images: Sequence[Path]) -> Iterator[list[str]]:
    """For every way of reading, how many images have other features than in the usual one."""
    layers = {layer.name: layer.width for layer in backbone.layers[-DEPTH:]}
    steps = Steps(layers, measured_steps(Extractor(backbone, [*layers], cache=NoCache()), backbone))
    (_, usual), *others = ways(backbone, images)
    for name, rows in others:
        bits = (rows != usual).any(axis=1).mean()
        units = steps.nearest(rows) != steps.nearest(usual)
        yield [backbone.name, name, f"{bits:.1%}", f"{units.any(axis=1).mean():.1%}", f"{units.mean():.1e}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--weights", type=Path, default=Path("../shared/data/vit-tiny.safetensors"))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--per-class", nargs="+", type=int, default=[5, 50])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    chosen = parser.parse_args()
    rows, other = [], []
    for network in chosen.networks:
        backbone = load(network, chosen.weights)
        if backbone is None:
            continue
        rows += [*accuracies(network, backbone, chosen.data, chosen.per_class, chosen.seeds)]
        photos = find_images(folders(chosen.data)["birds"][1][0])[:COMPARED]
        other += [*differences(backbone, photos)]
    heads = ["network", "images", "per class", "classifier", "not rounded", "± (one image draw)"]
    print(to_markdown(Table.of([*heads, *(f"2^-{each}" for each in FINER)], [row.cells() for row in rows])))
    for fineness in FINER:
        changes = [100 * (row.by_fineness[fineness] - row.plain) for row in rows]
        print(f"2^-{fineness}: mean {np.mean(changes):+.3f}, from {min(changes):+.2f} to {max(changes):+.2f}")
    titles = ["network", "read", "images with other bits", "after rounding", "values after rounding"]
    print(to_markdown(Table.of(titles, other)))
    made = np.random.default_rng(0).standard_normal((3000, 2368)).astype(np.float32)
    split = Split({"features": 2368}, made, np.arange(3000) % 50, made[:1], np.zeros(1))
    print(f"Learning with steps: {learning(split, {'features': -7})} times as fast as without.")


if __name__ == "__main__":
    main()
