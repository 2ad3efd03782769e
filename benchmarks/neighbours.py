"""How good are the nearest stored images, as a vector database finds them, on the same frozen network?

    python -m benchmarks.neighbours [--data ../shared/data] [--networks bundled vit-nano]
                                    [--images birds PACS CIFAR-100] [--seeds 0 1 2] [--quick]

Needs `cifar100-subset.tar`, `pacs-subset.tar` and `birds-subset.tar` in the data folder; unpacks them into
.bench/. Features are cached. So many images per class are learned, drawn by the seed; accuracies on all test
images are means over seeds.

    k-NN    the k nearest of all learned images by cosine, found exactly; each votes with its cosine. Of the
            network's final embedding, as such a database usually keeps it; or by the mean cosine of the last
            six layers
    NMC     the nearest class mean by cosine, of the final embedding
    layup   the default classifier, of the last six layers

Bytes are what each keeps of the images, in float32 for vectors and float64 for sums (a triangle of G, and one
sum per class), without the network. --quick is one seed, with 5 images per class.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.heads import DATASETS, Split, auto, datasets, load, nearest_mean
from layup.features import EMBEDDING
from layup.formats import size_of
from layup.tables import Table, to_markdown

PER_CLASS = (1, 5, 30, None)
"""None: all."""
NEIGHBOURS = (1, 5, 20)
HEADS = [*(f"{k}-NN" for k in NEIGHBOURS), *(f"{k}-NN, six" for k in NEIGHBOURS), "NMC", "layup"]


def nearest(split: Split, k: int) -> float:
    """The accuracy of a vote of the k nearest, or of all if there are fewer."""
    names, index = np.unique(split.y, return_inverse=True)
    layers = [split.only([name]) for name in split.layers]
    similar = np.mean([_units(each.asked) @ _units(each.x).T for each in layers], axis=0)
    found = np.argsort(-similar, axis=1, kind="stable")[:, :k]
    votes = np.zeros((len(similar), len(names)))
    for column in found.T:
        rows = np.arange(len(similar))
        votes[rows, index[column]] += similar[rows, column]
    return split.accuracy(names[votes.argmax(axis=1)])


def _units(rows: NDArray[Any]) -> NDArray[Any]:
    units: NDArray[Any] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units


def accuracies(split: Split) -> list[float]:
    """One for each of `HEADS`."""
    embedding, six = split.only([EMBEDDING]), split.last(6)
    voted = [nearest(part, k) for part in (embedding, six) for k in NEIGHBOURS]
    return [*voted, nearest_mean(embedding), auto(six)]


def kept(split: Split) -> tuple[int, int]:
    """The bytes of all embeddings, and of the sums."""
    embedding, six = split.only([EMBEDDING]), split.last(6)
    d, classes = six.x.shape[1], len(np.unique(split.y))
    return 4 * embedding.x.size, 8 * (d * (d + 1) // 2 + classes * d)


def rows(name: str, split: Split, counts: Sequence[int | None], seeds: Sequence[int]) -> Iterator[list[str]]:
    """One per number of images per class."""
    most = int(np.unique(split.y, return_counts=True)[1].max())
    for count in counts:
        if count is not None and count >= most:
            continue
        drawn = [split.drawn(count, seed) for seed in (seeds if count else seeds[:1])]
        means = np.mean([accuracies(each) for each in drawn], axis=0)
        cells = [f"{mean:.3f}" for mean in means]
        yield [name, str(count or f"all {most}"), *cells, *map(size_of, kept(drawn[0]))]
        print(name, count, dict(zip(HEADS, cells, strict=True)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--networks", nargs="+", default=["bundled", "vit-nano"])
    parser.add_argument("--images", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    counts, seeds = ((5,), options.seeds[:1]) if options.quick else (PER_CLASS, options.seeds)
    for network in options.networks:
        if (backbone := load(network, Path())) is not None:
            found = [
                row
                for name, split in datasets(backbone, options.data, names=options.images)
                for row in rows(name, split, counts, seeds)
            ]
            heads = ["images", "per class", *HEADS, "all embeddings", "sums"]
            print(f"\n{network}\n\n{to_markdown(Table.of(heads, found))}\n", flush=True)


if __name__ == "__main__":
    main()
