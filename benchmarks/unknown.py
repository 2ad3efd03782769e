"""How well does a model say "none of these", from the first photo on?

    python -m benchmarks.unknown [--data ../shared/data] [--weights ../shared/data/vit-tiny.safetensors]
                                 [--networks bundled vit-nano vit-tiny] [--seeds 5]

Needs `cifar100-subset.tar`, `pacs-subset.tar` and `birds-subset.tar` in the data folder; unpacks them into
.bench/. Features are cached. Each seed draws some classes, and some training images of each; asked are test
images of these classes (known) and of the others (unseen). In "PACS, styles", photos are learned; unseen are
pictures of the same classes in other styles. The ViT-Tiny reads images at 112 pixels.

1. By classes learned and images per class: the area under the ROC curve of known against unseen, the share of
   known images called none of these, and the share of unseen ones that are.
2. The same shares by how many images were judged, and by the rule of before: less familiar than 95 %.
3. Of images by their probability to be none of these: the share that is unseen, if one in four asked is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.certainty import Data, printed
from benchmarks.choices import HERE
from benchmarks.heads import NETWORKS, VIT_TINY
from benchmarks.wide_grid import Samples, features, folders
from layup.algebra import Calibration, Floats, Novelty
from layup.algebra.calibration import LEVELS
from layup.backbones import Backbone, load_backbone
from layup.features import EMBEDDING, Extractor, FeatureCache

CLASSES = (1, 2, 5, 20)
PER_CLASS = (1, 2, 3, 5, 10, 20, 50)
ASKED = 300
"""The most known images, and the most unseen ones, of a draw."""
SHARE = 0.25
"""The share of unseen images for which the probability is meant."""
BINS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
JUDGED = ((1, 9), (10, 19), (20, 99), (100, 10**9))
PIXELS = 112


@dataclass(frozen=True)
class Pictures:
    """Images to learn and to ask about; `others` are of the same classes, but count as unseen."""

    name: str
    data: Data
    others: Samples | None = None

    def unseen(self, names: NDArray[Any]) -> NDArray[Any]:
        """The features of what a model of these classes does not know."""
        x, y = self.data.test if self.others is None else self.others
        return np.asarray(x[np.isin(y, names) == (self.others is not None)])


@dataclass(frozen=True)
class Draw:
    """What a model of some images says of others: how probable these are none of its classes.

    judged: how many of its images were. before: the shares of known and unseen images that the rule of before
    rejects, if enough were judged for it.
    """

    network: str
    images: str
    classes: int
    per_class: int
    known: Floats
    unseen: Floats
    judged: int
    before: tuple[float, float] | None

    @property
    def now(self) -> tuple[float, float]:
        """The shares of known and unseen images that are called none of these."""
        return float((self.known > 0.5).mean()), float((self.unseen > 0.5).mean())

    @property
    def area(self) -> float:
        """Under the ROC curve."""
        from sklearn.metrics import roc_auc_score

        truth = np.repeat([0, 1], [len(self.known), len(self.unseen)])
        return float(roc_auc_score(truth, np.concatenate([self.known, self.unseen])))


def draw(network: str, pictures: Pictures, classes: int, per_class: int, seed: int) -> Draw:
    """A model of so many classes and images, and what it says of test images."""
    data, rng = pictures.data, np.random.default_rng(seed)
    names = rng.permutation(np.unique(data.train[1]))[:classes]
    x, y = data.drawn(per_class, rng, names)
    model = data.learned((x, y))
    calibration = Calibration.of(model.held_out(x[:, : data.width], y))
    known = data.test[0][np.isin(data.test[1], names)]
    asked = [rng.permutation(rows)[:ASKED, : data.width] for rows in (known, pictures.unseen(names))]
    familiar = [model.familiarity(rows) for rows in asked]
    novelty, before = Novelty.of(classes, calibration), None
    if calibration is not None and calibration.enough and calibration.familiar is not None:
        least = np.interp(0.05, LEVELS, calibration.familiar)
        before = float((familiar[0] < least).mean()), float((familiar[1] < least).mean())
    none = [novelty.probabilities(each) for each in familiar]
    judged = 0 if calibration is None else calibration.tested
    return Draw(network, pictures.name, classes, per_class, none[0], none[1], judged, before)


def draws(network: str, pictures: Pictures, seeds: int) -> Iterator[Draw]:
    """All draws of these images; where there are too few of them, none."""
    names, counts = np.unique(pictures.data.train[1], return_counts=True)
    most = len(names) - (pictures.others is None)
    for classes in CLASSES:
        for per_class in PER_CLASS:
            if classes <= most and per_class <= counts.min():
                for seed in range(seeds):
                    yield draw(network, pictures, classes, per_class, seed)


def load(network: str, weights: Path) -> Backbone:
    """The network; the ViT-Tiny for smaller images than usual, since it is slow."""
    if network == "vit-tiny":
        return load_backbone(VIT_TINY, weights=weights, input_size=PIXELS)
    return load_backbone(network)


def sets(backbone: Backbone, data: Path) -> Iterator[Pictures]:
    """All images, as features of a network."""
    layers = (*backbone.last(backbone.default_k), EMBEDDING)
    extractor = Extractor(backbone, layers, cache=FeatureCache(HERE / "cache"), progress=True)
    widths = {name: width for name, width in extractor.layers.items() if name != EMBEDDING}
    for name, (train, test) in folders(data).items():
        learned, asked = features(extractor, train), features(extractor, test)
        yield Pictures(name, Data(learned, asked, widths))
        if name == "PACS":
            photo = [part.parent.name for part in train].index("photo")
            others = [features(extractor, [part]) for at, part in enumerate(test) if at != photo]
            own = [features(extractor, [parts[photo]]) for parts in (train, test)]
            drawn = np.concatenate([x for x, _ in others]), np.concatenate([y for _, y in others])
            yield Pictures("PACS, styles", Data(own[0], own[1], widths), drawn)


def grouped(found: Iterable[Draw], key: Callable[[Draw], Any]) -> dict[Any, list[Draw]]:
    """Draws by what they have in common, in the order in which that comes first."""
    groups: dict[Any, list[Draw]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    return groups


def shares(pairs: Sequence[tuple[float, float]]) -> str:
    """The means of both numbers."""
    known, unseen = np.mean(pairs, axis=0)
    return f"{known:.2f}, {unseen:.2f}"


def by_images(found: list[Draw], classes: int) -> list[list[str]]:
    """A row per kind of images and network, a cell per number of images per class."""
    rows = []
    for about, some in grouped(found, lambda each: (each.images, each.network)).items():
        cells = grouped(some, lambda each: (each.classes, each.per_class))
        if (classes, PER_CLASS[0]) in cells:
            rows.append([*about, *(cell(cells.get((classes, count), [])) for count in PER_CLASS)])
    return rows


def cell(some: list[Draw]) -> str:
    """The area, and the shares of known and of unseen images that are called none of these."""
    if not some:
        return ""
    return f"{np.mean([each.area for each in some]):.2f}: {shares([each.now for each in some])}"


def by_judged(found: list[Draw]) -> list[list[str]]:
    """A row per network and number of judged images: both shares, now and before."""
    rows = []
    for network, some in grouped(found, lambda each: each.network).items():
        for least, most in JUDGED:
            within = [each for each in some if least <= each.judged <= most]
            before = [each.before for each in within if each.before is not None]
            number = f"{least} to {most}" if most < JUDGED[-1][1] else f"{least} or more"
            cells = shares([each.now for each in within]), shares(before) if before else "never"
            rows.append([network, number, *cells])
    return rows


def reliability(found: list[Draw]) -> list[list[str]]:
    """A row per network: of images whose probability is in each bin, the share that is unseen."""
    rows = []
    for network, some in grouped(found, lambda each: each.network).items():
        known, unseen = (
            np.mean([np.histogram(values, BINS)[0] / len(values) for values in of], axis=0)
            for of in ([each.known for each in some], [each.unseen for each in some])
        )
        asked = (1 - SHARE) * known + SHARE * unseen
        rows.append([network, *(f"{a:.2f}" for a in SHARE * unseen / asked)])
        rows.append(["of all asked", *(f"{a:.2f}" for a in asked)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--weights", type=Path, default=Path("../shared/data/vit-tiny.safetensors"))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    found: list[Draw] = []
    for network in chosen.networks:
        for pictures in sets(load(network, chosen.weights), chosen.data):
            found += draws(network, pictures, chosen.seeds)
            print(f"done: {pictures.name}, {network}", flush=True)
    for classes in CLASSES:
        title = f"{classes} classes learned, by images per class: area: known, unseen called none of these"
        printed(title, ["images", "network", *map(str, PER_CLASS)], by_images(found, classes))
    heads = ["network", "images judged", "known, unseen called none of these", "before"]
    printed("By how many images were judged", heads, by_judged(found))
    edges = [f"{a:g} to {b:g}" for a, b in pairwise(BINS)]
    printed(f"The share that is unseen, if {SHARE:g} of all is", ["network", *edges], reliability(found))


if __name__ == "__main__":
    main()
