"""What a merge spends on a shard: reading it, which checks it, against adding it. On one thread.

    python -m benchmarks.gathering [--backbone bundled vit-nano] [--tries 5]

Seconds of processor time, the least of several tries, and their ratio. Run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from layup import LayUP
from layup.cli import console
from layup.formats import seconds, size_of
from layup.sharding import Plan, compute
from layup.sharding.gathered import Gathered
from layup.sharding.shard import Shard, shard_path

PHOTOS, CLASSES = 32, 4


def least(work: Callable[[], object], tries: int) -> float:
    """The least processor time of several tries."""
    spent = []
    for _ in range(tries):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


def planned(home: Path, backbone: str) -> Plan:
    """Two slices of noise, computed."""
    rng = np.random.default_rng(0)
    photos = []
    for number in range(PHOTOS):
        path = home / f"{number}.png"
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), np.uint8)).save(path)
        photos.append((str(path), f"class {number % CLASSES}"))
    plan = Plan.write(home / f"plan-{backbone}", photos, LayUP(backbone, cache=False), PHOTOS // 2)
    for number in range(2):
        compute(plan, number, lambda: plan.start(cache=False))
    return plan


def measured(plan: Plan, backbone: str, tries: int) -> list[str]:
    """A row of the table."""

    def read(number: int) -> Shard:
        return Shard.read(shard_path(plan, number), plan, number)

    one, other = Gathered.of(read(0)), Gathered.of(read(1))
    reading, adding = least(lambda: read(0), tries), least(lambda: one.add(other), tries)
    size = size_of(shard_path(plan, 0).stat().st_size)
    return [backbone, size, seconds(reading), seconds(adding), f"{reading / adding:,.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backbone", nargs="+", default=["bundled", "vit-nano"])
    parser.add_argument("--tries", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home:
        rows = [measured(planned(Path(home), each), each, chosen.tries) for each in chosen.backbone]
    console.table(["network", "a shard", "reading", "adding", "ratio"], rows)


if __name__ == "__main__":
    main()
