"""What exported models lose and gain: accuracy, agreement, size and speed; and what they reveal.

    python -m benchmarks.export [--data ../shared/data] [--weights ../shared/data/vit-tiny.safetensors]
                                [--networks bundled vit-nano vit-tiny] [--asked 300]

Needs `pacs-subset.tar` and `birds-subset.tar` in the data folder; unpacks them into .bench/. Of PACS, only
photos are taken.

1. By network, photos and form (the whole model with PyTorch, predict-only, ONNX float32, ONNX int8): size,
   accuracy, labels equal to those of the whole model, the largest difference of scores, the share of photos
   whose scores differ by at most 1e-4, and the largest difference of "none of these". ONNX is given decoded
   photos: resizing is part of it. int8 measures ranges on 64 of the learned photos.
2. Photos per second, decoding left out, one photo at a time, one thread: medians of rounds in turn. And how
   long ONNX takes for one photo of 12 megapixels.
3. What the files reveal. Of models of one photo per class: the cosine between what a file holds for a class
   and the feature vector of its photo, both in units of the spread of each layer. Of all photos: the area
   under the ROC curve of learned against new photos, by familiarity.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from benchmarks.certainty import printed
from benchmarks.choices import HERE, read, unpack
from benchmarks.heads import NETWORKS, VIT_TINY
from layup import LayUP, load_backbone
from layup.backbones import Backbone
from layup.export import OnnxModel, in_int8, onnx_graph
from layup.export.onnx_model import pixels
from layup.formats import size_of
from layup.images import open_image
from layup.model import ImageModel, Predictions, PredictOnly

CLOSE = 1e-4
"""Scores that differ by less are called equal."""
TIMED, ROUNDS = 10, 7
THREADS = 1
LARGE = (3000, 4000)


@dataclass(frozen=True)
class Photos:
    """Photos to learn and to ask about, with their labels."""

    name: str
    train: tuple[list[Path], list[str]]
    test: tuple[list[Path], list[str]]


def photos(data: Path) -> list[Photos]:
    """PACS's photos, and birds."""
    found = []
    for name, folder in (
        ("PACS, photos", unpack(data, "pacs-subset") / "photo"),
        ("birds", unpack(data, "birds-subset")),
    ):
        train, test = ((list(x), list(y)) for x, y in (read([folder / part]) for part in ("train", "test")))
        found.append(Photos(name, train, test))
    return found


def backbone_of(network: str, weights: Path) -> Backbone:
    """The network, at its usual size."""
    return load_backbone(VIT_TINY, weights=weights) if network == "vit-tiny" else load_backbone(network)


def agreement(
    form: str, size: int, found: Predictions, whole: Predictions, truth: Sequence[str]
) -> list[str]:
    """A row of the first table."""
    off = np.abs(found.scores - whole.scores).max(axis=1)
    assert found.none_of_these is not None and whole.none_of_these is not None  # noqa: PT018
    none = np.abs(found.none_of_these - whole.none_of_these).max()
    equal = sum(a == b for a, b in zip(found.labels, whole.labels, strict=True))
    right = np.mean([a == b for a, b in zip(found.labels, truth, strict=True)])
    close = float((off <= CLOSE).mean())
    return [
        form,
        size_of(size),
        f"{right:.3f}",
        f"{equal:,} of {len(truth):,}",
        f"{off.max():.1g}",
        f"{close:.3f}",
        f"{none:.2g}",
    ]


def seconds(ways: dict[str, Callable[[Any], object]], given: Sequence[Any]) -> dict[str, float]:
    """The median seconds per photo of each way, in rounds that take turns."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            for each in given:
                way(each)
            if turn:  # the first one warms up
                taken[name].append((time.perf_counter() - start) / len(given))
    return {name: median(times) for name, times in taken.items()}


def asked(model: ImageModel, photo: Any) -> object:
    """What the whole model does with a decoded photo, without the cache."""
    backbone, source = model.backbone_, model.extractor_
    rows = source.rows_of(backbone.preprocess(photo)[None])
    return model.classifier_.scores_of(rows), model.classifier_.familiarity(rows)


def large_photo(run: OnnxModel) -> float:
    """Seconds for a photo of 12 megapixels, the shortest of three: most of them are for resizing it."""
    image = np.random.default_rng(0).integers(0, 256, (1, *LARGE, 3), dtype=np.uint8)
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        run.scored(image)
        taken.append(time.perf_counter() - start)
    return min(taken)


def spread_of(model: ImageModel) -> Any:
    """The scale of each value of a feature vector, as the default classifier has it."""
    return model.classifier_.votes.prior.scale  # type: ignore[attr-defined]


def likeness(backbone: Backbone, given: Photos) -> list[float]:
    """Of one photo per class: the mean cosine of its vector and what files hold for the class."""
    images, labels = given.train
    first = {label: image for image, label in reversed(list(zip(images, labels, strict=True)))}
    model = LayUP(backbone, progress=False)
    model.learn(list(first.values()), list(first))
    scale, small = spread_of(model), model.predict_only().readout
    means = model.statistics_.means / scale
    around = means - means.mean(axis=0)
    assert small.nearness is not None
    held = {
        "sums": model.statistics_.prototypes / scale - means.mean(axis=0),
        "weights": (small.weights * scale[:, None]).T,
        "directions": (small.nearness.directions * scale[:, None]).T,
    }
    found = []
    for rows in held.values():
        rows = rows - rows.mean(axis=0)
        norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(around, axis=1)
        found.append(float(((rows * around).sum(axis=1) / norms).mean()))
    return found


def membership(
    model: ImageModel, small: PredictOnly, learned: Sequence[Path], others: Sequence[Path]
) -> list[float]:
    """Learned against new photos, by how familiar they are."""
    found = []
    for each in (model, small):
        known, new = (each.predictions(x).familiarity for x in (learned, others))
        assert known is not None and new is not None  # noqa: PT018
        truth = np.repeat([1, 0], [len(known), len(new)])
        found.append(float(roc_auc_score(truth, np.concatenate([known, new]))))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--weights", type=Path, default=Path("../shared/data/vit-tiny.safetensors"))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--asked", type=int, default=300, help="how many test photos, at most, evenly taken")
    chosen = parser.parse_args()
    torch.set_num_threads(THREADS)
    forms: list[list[str]] = []
    speeds: list[list[str]] = []
    reveals: list[list[str]] = []
    folder = HERE / "export"
    folder.mkdir(parents=True, exist_ok=True)
    for network in chosen.networks:
        backbone = backbone_of(network, chosen.weights)
        for given in photos(chosen.data):
            model = LayUP(backbone, progress=False)
            model.learn(*given.train)
            model.expect()
            small = model.predict_only()
            model.save(folder / "m.layup")
            small.save(folder / "small.layup")
            graph = onnx_graph(small)
            (folder / "m.onnx").write_bytes(graph)
            (folder / "int8.onnx").write_bytes(in_int8(graph, given.train[0]))
            step = -(-len(given.test[0]) // chosen.asked)
            images, truth = given.test[0][::step], given.test[1][::step]
            whole = model.predictions(images)
            runs = {name: OnnxModel(folder / name, threads=THREADS) for name in ("m.onnx", "int8.onnx")}
            for form, name, found in (
                ("whole, PyTorch", "m.layup", whole),
                ("predict-only, PyTorch", "small.layup", small.predictions(images)),
                ("ONNX, float32", "m.onnx", runs["m.onnx"].predictions(images)),
                ("ONNX, int8", "int8.onnx", runs["int8.onnx"].predictions(images)),
            ):
                size = (folder / name).stat().st_size
                forms.append([network, given.name, *agreement(form, size, found, whole, truth)])
            few = images[:: len(images) // TIMED][:TIMED]
            both = [(open_image(each), pixels(each)) for each in few]
            taken = seconds(
                {
                    "PyTorch": lambda each, model=model: asked(model, each[0]),  # type: ignore[misc]
                    **{
                        name: lambda each, run=run: run.scored(each[1])  # type: ignore[misc]
                        for name, run in runs.items()
                    },
                },
                both,
            )
            rates = [f"{1 / each:.0f}" for each in taken.values()]
            speeds.append([network, given.name, *rates, f"{large_photo(runs['m.onnx']):.2f} s"])
            held = (*likeness(backbone, given), *membership(model, small, given.train[0], images))
            reveals.append([network, given.name, *(f"{each:.2f}" for each in held)])
            print(*forms[-4:], speeds[-1], reveals[-1], sep="\n", flush=True)
    heads = ["form", "file", "accuracy", "labels equal", "scores off", "within 1e-4", "none of these off"]
    printed("What is lost", ["network", "photos", *heads], forms)
    columns = ["PyTorch", "ONNX, float32", "ONNX, int8", "12 megapixels"]
    printed("Photos per second", ["network", "photos", *columns], speeds)
    columns = ["class sums", "weights", "directions", "learned or new, whole", "learned or new, predict-only"]
    printed("What files reveal", ["network", "photos", *columns], reveals)


if __name__ == "__main__":
    main()
