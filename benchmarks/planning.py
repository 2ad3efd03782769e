"""What it takes to plan and to merge millions of photos: seconds, and bytes in memory.

    python -m benchmarks.planning [--lines 100000 1000000] [--size 10000]

A list of so many lines is planned, and then merged from shards with random digests and features, which are
written without a network. Time is measured first, and memory in a second pass (`tracemalloc`, which is slow).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from layup import LayUP
from layup.algebra import JUDGED
from layup.cli import console
from layup.formats import seconds, size_of
from layup.images import labelled_parts
from layup.model import ImageModel
from layup.sharding import Plan, Shard, union
from layup.sharding.shard import shard_path
from layup.sharding.slice_photos import DIGEST

CLASSES = 1000


def taken(work: Callable[[], object]) -> tuple[float, int]:
    """Seconds, and the most bytes that were in use at once."""
    began = time.perf_counter()
    work()
    spent = time.perf_counter() - began
    tracemalloc.start()
    work()
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return spent, highest


def write_list(path: Path, lines: int) -> None:
    """A list of photos of a thousand classes, which are not there."""
    with path.open("w") as file:
        file.write("path,label\n")
        for number in range(lines):
            file.write(f"/data/photos/n{number % CLASSES:08}/{number:09}.jpg,class {number % CLASSES:03}\n")


def write_shard(plan: Plan, number: int, model: ImageModel, rng: np.random.Generator) -> None:
    """A shard of random photos, in the order of classes of the list."""
    labels = plan.photos(number).labels
    sums = model.statistics_.empty()
    assert sums.steps is not None
    rows = (rng.integers(-999, 1000, (len(labels), sums.dim)) * sums.steps.columns).astype(np.float32)
    sums.update(rows, labels)
    index = {label: position for position, label in enumerate(sums.labels)}
    classes = np.array([index[label] for label in labels], np.int32)
    digests = rng.integers(0, 256, (len(labels), DIGEST), np.uint8)
    few = slice(0, JUDGED)
    shard = Shard([sums], digests, classes, rows[few], classes[few], [], 0, len(labels))
    shard.write(shard_path(plan, number), plan, number)


def measured(home: Path, lines: int, size: int) -> list[str]:
    """Planning and merging so many photos."""
    manifest, model = home / f"{lines}.csv", LayUP("vit-nano", 1)
    write_list(manifest, lines)
    turns = iter(range(2))

    def plan() -> None:
        pairs = (pair for part in labelled_parts(manifest) for pair in part)
        Plan.write(home / f"plan-{lines}-{next(turns)}", pairs, model, size)

    planning, planning_bytes = taken(plan)
    planned, rng = Plan.read(home / f"plan-{lines}-0"), np.random.default_rng(0)
    for number in range(len(planned.slices)):
        write_shard(planned, number, model, rng)
    merging, merging_bytes = taken(lambda: union(planned))
    return [
        f"{lines:,}",
        f"{len(planned.slices):,}",
        seconds(planning),
        size_of(planning_bytes),
        seconds(merging),
        size_of(merging_bytes),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--size", type=int, default=10_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["LAYUP_KEYS"] = f"{home}/keys"
        rows = [measured(Path(home), lines, chosen.size) for lines in chosen.lines]
    columns = ["photos", "slices", "planning", "most memory", "merging", "most memory"]
    console.table(columns, rows)


if __name__ == "__main__":
    main()
