"""What reading all layers costs, how fast engines are, whether decoding overlaps, what larger inputs cost.

    python -m benchmarks.extraction                  everything
    python -m benchmarks.extraction engines overlap  these parts

layers: a batch through the plain network, and through `Backbone`, which also reads every layer; 1.000 means
no extra cost. engines: the same batch by every engine. dropped: by what was tried and rejected. overlap:
photos in files, decoded while the network computes and before it. sizes: the bundled network at several
sizes, each against 224 × 224.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

from layup.backbones import (
    BACKBONES,
    BATCH,
    EAGER,
    ENGINES,
    Backbone,
    Preprocessing,
    folded,
    load_backbone,
    timm_backbone,
)
from layup.features import Extractor, NoCache, in_batches, read_ahead
from layup.performance import compare

import layup.compat  # noqa: F401  # isort: skip  (before timm)
import timm  # isort: skip

PAIRS = 15
PHOTOS = 384
LARGE = "vit_base_patch16_224"
LARGE_BATCH = 4


def batch_for(backbone: Backbone) -> torch.Tensor:
    """Noise in the memory layout of the network: the layout is not what is compared."""
    images = LARGE_BATCH if backbone.name == LARGE else BATCH
    return torch.rand(images, 3, *backbone.preprocessing.size).to(memory_format=backbone.memory_format)


def backbones() -> Iterator[Backbone]:
    """The networks that come with layup, and the paper's with random weights, which are as fast."""
    for name in BACKBONES.built_in:
        yield load_backbone(name, device="cpu")
    network = timm.create_model(LARGE, num_classes=0)
    yield timm_backbone(
        network, Preprocessing((224, 224), (224, 224)), name=LARGE, spec={}, device=torch.device("cpu")
    )


def layers_against_plain(console: Console) -> None:
    table = Table("backbone", "pixels", "plain images/s", "all layers images/s", "ratio (95 % interval)")
    for backbone in backbones():
        batch = batch_for(backbone)
        pairs = PAIRS if backbone.name == LARGE else 2 * PAIRS
        ratio = compare(partial(plain_pass, backbone.network, batch), partial(backbone, batch), pairs=pairs)
        speeds = [f"{len(batch) / seconds:.1f}" for seconds in (ratio.first_seconds, ratio.second_seconds)]
        table.add_row(backbone.name, str(backbone.preprocessing.size[0]), *speeds, str(ratio))
    console.print(table)


def engines_against_eager(console: Console) -> None:
    def others(backbone: Backbone) -> dict[str, Callable[[], Any]]:
        return {
            name: partial(backbone.with_engine(name), batch_for(backbone))
            for name in ENGINES
            if name != EAGER
        }

    _against_eager(console, "engine", others)


def dropped_against_eager(console: Console) -> None:
    """Frozen graphs and torch.compile of the network with its norms folded; they do not even read layers."""

    def others(backbone: Backbone) -> dict[str, Callable[[], Any]]:
        batch = batch_for(backbone)
        network = folded(backbone.network, batch, [])
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # all of torch.jit is deprecated
            trace: Any = partial(torch.jit.trace, network, batch, check_trace=False)
            frozen = torch.jit.freeze(trace())
            better = torch.jit.optimize_for_inference(torch.jit.freeze(trace()))
        ways = {
            "torch.jit.freeze": frozen,
            "torch.jit.optimize_for_inference": better,
            "torch.compile": torch.compile(network),
        }
        return {name: partial(plain_pass, way, batch) for name, way in ways.items()}

    _against_eager(console, "tried", others)


def _against_eager(
    console: Console, what: str, others: Callable[[Backbone], Mapping[str, Callable[[], Any]]]
) -> None:
    table = Table(what, "backbone", "first batch s", "eager images/s", "images/s", "ratio (95 % interval)")
    for backbone in backbones():
        batch = batch_for(backbone)
        for name, other in others(backbone).items():
            began = time.perf_counter()
            other()
            first = time.perf_counter() - began
            ratio = compare(partial(backbone, batch), other, pairs=PAIRS)
            speeds = [f"{len(batch) / each:.1f}" for each in (ratio.first_seconds, ratio.second_seconds)]
            table.add_row(name, backbone.name, f"{first:.1f}", *speeds, str(ratio))
    console.print(table)


def overlap(console: Console) -> None:
    """Photos from files: decoding alone, computing alone, one after the other, and in parallel."""
    table = Table("seconds", *(f"{name}, {engine}" for name, engine in OVERLAPPED))
    with tempfile.TemporaryDirectory() as folder:
        paths = photos(Path(folder))
        columns = [
            _seconds(load_backbone(name, device="cpu", engine=engine), paths) for name, engine in OVERLAPPED
        ]
    for row in columns[0]:
        table.add_row(row, *(f"{column[row]:.2f}" for column in columns))
    console.print(table)


OVERLAPPED = [("bundled", EAGER), ("vit-nano", EAGER)]


def _seconds(backbone: Backbone, paths: list[Path]) -> dict[str, float]:
    """Medians of three, each way in turn."""
    batch = batch_for(backbone)

    def decode(workers: int | None) -> None:
        # The backbone computes nothing: the images are decoded and discarded.
        read = Extractor(backbone, cache=NoCache()).reader(paths)
        for _ in read_ahead(paths, read, in_batches(range(len(paths)), BATCH), workers):
            pass

    def compute() -> None:
        for _ in range(0, len(paths), BATCH):
            backbone(batch)

    def both(workers: int | None) -> None:
        Extractor(backbone, cache=NoCache(), workers=workers, progress=False).extract(paths)

    ways: dict[str, Callable[[], None]] = {
        "decoding alone": partial(decode, None),
        "computing alone": compute,
        "one after the other": partial(both, 0),
        "in parallel": partial(both, None),
    }
    backbone(batch)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(3):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(each) for name, each in times.items()}


def photos(folder: Path) -> list[Path]:
    """Smooth noise as JPEG files of 640 × 480, which decode as photos do."""
    rng = np.random.default_rng(0)
    paths = [folder / f"{number}.jpg" for number in range(PHOTOS)]
    for path in paths:
        small = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        small.resize((640, 480), Image.Resampling.BICUBIC).save(path, quality=90)
    return paths


def sizes_against_224(console: Console) -> None:
    table = Table("pixels", "images/s", "times as fast as 224 (95 % interval)")
    large = load_backbone("bundled", input_size=224, device="cpu")
    for size in (96, 128, 160, 192):
        small = load_backbone("bundled", input_size=size, device="cpu")
        ratio = compare(partial(large, batch_for(large)), partial(small, batch_for(small)), pairs=15)
        table.add_row(str(size), f"{BATCH / ratio.second_seconds:.0f}", str(ratio))
    console.print(table)


def plain_pass(network: Callable[[torch.Tensor], Any], batch: torch.Tensor) -> None:
    with torch.inference_mode():
        network(batch)


PARTS = {
    "layers": layers_against_plain,
    "engines": engines_against_eager,
    "dropped": dropped_against_eager,
    "overlap": overlap,
    "sizes": sizes_against_224,
}


def main(parts: Sequence[str] = tuple(PARTS)) -> None:
    console = Console(width=120)
    for part in parts:
        PARTS[part](console)


if __name__ == "__main__":
    main(sys.argv[1:] or tuple(PARTS))
