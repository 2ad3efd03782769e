"""What it costs that a model knows its photos: bytes and seconds, with a million of them.

    python -m benchmarks.known_photos [--photos 1000000] [--files 20000]

Digests are random, as those of photos are. The folder to plan holds all known photos and five new ones; the
models to merge share half of theirs. `--files` small files are really written, and looked at twice: the first
time they are read, the second time only their states are compared with the cache.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from layup import storage
from layup.cli import console
from layup.features import FeatureCache, cache as cache_module, digests_of
from layup.formats import seconds, size_of
from layup.model import KnownPhotos
from layup.model.merging import overlap
from layup.model.plan import plan

CLASSES = 1000
NEW = 5
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and how long it took."""
    began = time.perf_counter()
    found = work()
    return found, time.perf_counter() - began


def labels_for(count: int) -> list[str]:
    """A thousand classes in turn."""
    return [f"class {number % CLASSES:03}" for number in range(count)]


def measured(count: int, folder: Path) -> list[tuple[str, str]]:
    """What photos take in a file and in memory, and how long everything takes."""
    rng = np.random.default_rng(0)
    digests = [rng.bytes(32) for _ in range(count + NEW)]
    labels, path = labels_for(count + NEW), folder / "photos.layup"
    made = KnownPhotos().with_photos(digests[:count], labels[:count], batch=0)
    names = sorted({*labels})

    def save() -> None:
        header, arrays = made.state(names)
        storage.write(path, "model", header, arrays)

    def load() -> KnownPhotos:
        header, arrays = storage.read(path, "model")
        return KnownPhotos.from_state(header, arrays, names)

    _, saving = timed(save)
    loaded, loading = timed(load)
    rows = loaded.rows
    held = rows.digests.nbytes + rows.classes.nbytes + rows.batches.nbytes
    found, first = timed(lambda: plan(loaded, digests, labels))
    if (len(found.new), found.known) != (NEW, count):
        raise AssertionError("the plan is wrong")
    _, again = timed(lambda: plan(loaded, digests, labels))
    order, halves = loaded._sorted
    half = count // 2
    others = [*digests[half:count], *(rng.bytes(32) for _ in range(half))]
    other = KnownPhotos().with_photos(others, labels_for(len(others)), batch=0)

    def merge() -> KnownPhotos:
        both = overlap(made, other)
        return made.without(both.gone).merged(other, [1], both.twice)

    merged, merging = timed(merge)
    if len(merged) != count + half:
        raise AssertionError("the merge is wrong")
    return [
        ("in the file", f"{path.stat().st_size / count:.1f} bytes per photo"),
        ("in memory", f"{held / count:.1f} bytes per photo"),
        ("in memory, once looked up", f"{(held + order.nbytes + halves.nbytes) / count:.1f} bytes per photo"),
        ("save", seconds(saving)),
        ("load", seconds(loading)),
        (f"plan a folder of as many, {NEW} new", seconds(first)),
        ("the same again", seconds(again)),
        ("merge with as many, half of them shared", seconds(merging)),
    ]


def looked_at(count: int, folder: Path) -> list[tuple[str, str]]:
    """How long it takes to see that files are the same as before."""
    cache_module.SECONDS_TO_SETTLE = -3600  # these files are new, but nobody will change them
    paths = []
    for number in range(count):
        paths.append(folder / f"class {number % 100:02}" / f"{number}.jpg")
        paths[-1].parent.mkdir(exist_ok=True)
        paths[-1].write_bytes(os.urandom(64))
    reading = {"cache": FeatureCache(folder / "cache"), "progress": False}
    first, reading_all = timed(lambda: digests_of(paths, reading))  # type: ignore[arg-type]
    second, comparing = timed(lambda: digests_of(paths, reading))  # type: ignore[arg-type]
    if first != second:
        raise AssertionError("digests are wrong")
    size = (folder / "cache" / "features.sqlite").stat().st_size
    return [
        (f"read {count:,} small files, and keep their digests", seconds(reading_all)),
        ("see that they have not changed", seconds(comparing)),
        ("their digests in the cache", f"{size_of(size)}, {size / count:.0f} bytes per file"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--photos", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=20_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["LAYUP_KEYS"] = f"{home}/keys"
        rows = [*measured(chosen.photos, Path(home)), *looked_at(chosen.files, Path(home))]
    console.say(f"{chosen.photos:,} known photos of {CLASSES:,} classes")
    console.table(["what", "costs"], [list(row) for row in rows])


if __name__ == "__main__":
    main()
