"""What the parts of a slice and of a merge cost, each measured alone in a process with one thread."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.scaling_model import Speeds
from benchmarks.scaling_runs import Pool, Worker, best
from layup.algebra import AutoClassifier, GramStatistics
from layup.cli import console
from layup.features import in_batches
from layup.sharding import Shard

BATCH = 32
"""Rows that are added together, as a slice does it."""
READ = 320
"""Images whose reading and passing is timed."""


def reading_and_passing() -> tuple[float, float]:
    """Seconds to read an image of the plan, and to pass it through the network."""
    images = Worker.plan.photos(0).images[:READ]
    backbone, extractor = Worker.model.backbone_, Worker.model.extractor_
    both = best(lambda: [*extractor.stream(images, "Reading")]) / len(images)
    pixels = torch.zeros(BATCH, 3, *backbone.preprocessing.size)
    passing = best(lambda: backbone.steadily(pixels), 10) / BATCH
    return both - passing, passing


def rows_and_labels(width: int, count: int) -> tuple[Any, list[str]]:
    """Features of whole numbers of steps, and labels of ten classes."""
    rng = np.random.default_rng(0)
    rows = rng.integers(-999, 1000, (count, width)).astype(np.float32)
    return rows, [f"class {number % 10}" for number in range(count)]


def sums_of(width: int, count: int) -> GramStatistics:
    """Exact sums, added in batches as a slice does it."""
    sums = GramStatistics(width, steps={"features": 0})
    rows, labels = rows_and_labels(width, count)
    for batch in in_batches(range(count), BATCH):
        sums.update(rows[batch], [labels[i] for i in batch])
    _ = sums.diagonal, sums.state()  # all that wait are added
    return sums


def adding(width: int) -> float:
    """Seconds to add an image, per d²."""
    more = max(1024, width)
    longer = best(lambda: sums_of(width, 2 * more), 2) - best(lambda: sums_of(width, more), 2)
    return longer / more / width**2


def solving(width: int) -> float:
    """Seconds to solve the classifier, per d³."""
    sums = sums_of(width, 2 * width)

    def solve() -> None:
        classifier = AutoClassifier()
        classifier.adopt(sums)
        classifier.linear()

    return best(solve, 2) / width**3


def storing_merging_and_checking(width: int) -> tuple[float, float, float]:
    """Seconds to write a shard, and to read and add it, per byte; and to check it, per d³."""
    sums = sums_of(width, BATCH)
    rows, _ = rows_and_labels(width, BATCH)
    classes = np.arange(BATCH, dtype=np.int32) % 10
    shard = Shard([sums], np.zeros((BATCH, 16), np.uint8), classes, rows, classes, [], 0, BATCH)
    total = sums.copy()
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "shard.layup")
        storing = best(
            lambda: shard.write(path, Worker.plan, 0), clock=time.perf_counter
        )  # it waits for disks
        both = best(lambda: total.add(Shard.read(path, Worker.plan, 0).sums))
        size = path.stat().st_size
    state = sums.state()
    checking = best(lambda: GramStatistics.from_state(*state))
    return storing / size, (both - checking) / size, checking / width**3


def passing_of(name: str) -> float:
    """Seconds of an image in a network of this architecture, with random weights."""
    import timm

    network = timm.create_model(name, pretrained=False, num_classes=0).eval()
    pixels = torch.zeros(4, 3, 224, 224)
    with torch.inference_mode():
        return best(lambda: network(pixels), 2) / len(pixels)


def measured_speeds(pool: Pool, widths: Sequence[int]) -> tuple[Speeds, float]:
    """The constants, at the last of these widths; and the seconds of a pass."""
    reading, passing = pool.measured(reading_and_passing)
    for width in widths:
        add, solve = pool.measured(adding, width), pool.measured(solving, width)
        console.say(f"d = {width:,}: {add * 1e9:.3f} ns per d² and image, {solve * 1e9:.3f} ns per d³")
    storing, merging, checking = pool.measured(storing_merging_and_checking, widths[-1])
    return Speeds(reading, add, solve, storing, merging, checking, pool.starting), passing
