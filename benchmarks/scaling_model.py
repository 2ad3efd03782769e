"""How long it takes to learn N images on W workers: what each part costs, and how the parts add up.

Workers are processes with one thread and a processor of its own. Each computes slices, one after another:

    slice    s · (read + pass + a · d²) + w · bytes
    bytes    8 (d (d + 1) / 2 + C d) + 20 s + 4 d min(s, 1000)
    worker   start + ⌈slices / W⌉ · slice
    merge    slices · (m · bytes + c · d³) + 4 · b · d³  by one machine, after all workers

d is k times the width of the network, C the number of classes; the constants are `Speeds`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil

from layup.algebra import JUDGED

SLICES_EACH = 4
"""How many slices a worker computes, where the sizes below allow it: a worker that dies loses one."""
SMALLEST, LARGEST = 1_000, 1_000_000
"""Photos of a slice."""
SOLVES = 4
"""About three to choose the strength of λ, and one to predict."""
DIGEST, CLASS = 16, 4
"""Bytes of a photo in a shard, besides its sums."""


@dataclass(frozen=True)
class Speeds:
    """Seconds that things take one processor.

    reading: an image: open, decode, resize. adding: an image to the sums, per d². solving: once, per d³.
    storing: a shard, per byte. merging: reading and adding a shard, per byte. checking: whether images can
    have the sums of a shard, per d³. starting: a worker.
    """

    reading: float
    adding: float
    solving: float
    storing: float
    merging: float
    checking: float
    starting: float


@dataclass(frozen=True)
class Job:
    """What is to be learned: `width` is d, and `passing` the seconds of one image in the network.

    >>> Job(images=10**6, classes=1000, width=768, passing=0.2).shard_bytes(1000)
    11598368
    """

    images: int
    classes: int
    width: int
    passing: float

    def shard_bytes(self, photos: int) -> int:
        """Bytes of the shard of so many photos: sums, digests and classes, and the samples that are drawn."""
        d = self.width
        return (
            8 * (d * (d + 1) // 2 + self.classes * d)
            + (DIGEST + CLASS) * photos
            + 4 * d * min(photos, JUDGED)
        )


@dataclass(frozen=True)
class Times:
    """Seconds from the first start of a worker to the model. Workers run side by side; the rest does not."""

    starting: float
    reading: float
    passing: float
    adding: float
    storing: float
    merging: float
    solving: float

    @property
    def total(self) -> float:
        """All of them."""
        return float(sum(asdict(self).values()))

    @property
    def longest(self) -> str:
        """The name of the part that takes longest.

        >>> Times(1, 2, 30, 4, 5, 6, 7).longest
        'passing'
        """
        parts: dict[str, float] = asdict(self)
        return max(parts, key=parts.__getitem__)


def slice_size(images: int, workers: int) -> int:
    """Photos per slice: as many as leave every worker some slices, so that few shards are merged.

    >>> slice_size(10**6, 100), slice_size(10**6, 1000), slice_size(10**9, 10)
    (2500, 1000, 1000000)
    """
    return min(max(ceil(images / (SLICES_EACH * workers)), SMALLEST), LARGEST)


def predicted(job: Job, workers: int, speeds: Speeds, size: int | None = None) -> Times:
    """The time of a job; `size` is the number of photos per slice.

    >>> job, speeds = Job(10**6, 1000, 768, 0.2), Speeds(0.01, 1e-10, 1e-10, 1e-9, 1e-9, 0, 5)
    >>> [round(predicted(job, workers, speeds).total) for workers in (1, 10, 100)]
    [210064, 21012, 2110]
    """
    size = min(size or slice_size(job.images, workers), job.images)
    slices = ceil(job.images / size)
    turns = ceil(slices / workers)
    photos = min(turns * size, job.images)  # of the worker that has most
    d, shard = job.width, job.shard_bytes(size)
    return Times(
        starting=speeds.starting,
        reading=photos * speeds.reading,
        passing=photos * job.passing,
        adding=photos * speeds.adding * d**2,
        storing=turns * shard * speeds.storing,
        merging=slices * (shard * speeds.merging + speeds.checking * d**3),
        solving=SOLVES * speeds.solving * d**3,
    )


def most_useful(job: Job, speeds: Speeds) -> int:
    """The number of workers, of 1, 2, 5, 10, 20 … a million, with which a job is done first."""
    tried: list[int] = [digit * 10**power for power in range(6) for digit in (1, 2, 5)] + [10**6]
    return min((predicted(job, workers, speeds).total, workers) for workers in tried)[1]
