"""Memory before it is needed: what learning will take, what is free, and a sentence where that is too little.

A process that asks for more than there is gets killed by the system, in the middle of its work and without
a word. So what is about to be learned is weighed before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from layup.errors import MemoryShortage
from layup.statistics import CHUNK
from layup.triangle import Triangle

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

SPOOL = 512 * 2**20
"""Bytes of a lesson's features that are held in memory, where λ is searched on them; the rest is on disk."""
SOLVING = 6
"""Matrices of G's size that there are while it is solved: G, G + λI, LAPACK's copies, and what it gives."""


@dataclass(frozen=True)
class Forecast:
    """Bytes that something will take beside what the process holds already, by what they are for.

    instead: other ways to do it, in words, and what these would take.

    >>> print(Forecast({"G": 85_000_000, "λ search": 680_000_000}))
    about 765.0 MB (G 85.0 MB, λ search 680.0 MB)
    """

    parts: Mapping[str, int]
    instead: Mapping[str, Forecast] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Whether so much is free, as far as the system says."""
        free = available()
        return free is None or self.total <= free

    def __str__(self) -> str:
        shown = [
            f"{name} {size_of(count)}" for name, count in self.parts.items() if 100 * count >= self.total
        ]
        return f"about {size_of(self.total)} ({', '.join(shown)})"


def learning(
    dim: int,
    classes: int,
    samples: int,
    *,
    known: int = 0,
    searched: bool,
    precision: str = "float64",
    solved: int | None = None,
) -> Forecast:
    """What it takes to learn a lesson of `samples` with sums that hold `known` of them, and to answer then.

    dim: values of a feature vector, d.
    searched: whether λ is searched on the lesson.
    solved: values of the widest part that is solved by itself, if not all of them.

    Besides what stays there is what comes and goes: adding to the sums, searching λ and solving take turns,
    so only the largest of these counts.

    >>> print(learning(4608, classes=100, samples=5000, searched=True))
    about 1.5 GB (G 87.3 MB, samples 92.2 MB, λ search 1.3 GB)
    >>> print(learning(4608, classes=100, samples=5000, searched=False))
    about 1.1 GB (G 87.3 MB, solving 1.0 GB)
    """
    size, width = np.dtype(precision).itemsize, dim if solved is None else solved
    triangle = Triangle.nbytes_of(dim, precision)
    turns = {
        "adding": 2 * triangle + 3 * size * dim * min(samples, CHUNK),
        "solving": SOLVING * size * width**2 + size * width * classes,
        "λ search": size * searching(width, classes, samples, known) if searched else 0,
    }
    most = max(turns, key=lambda turn: turns[turn])
    stays = {
        "G": triangle,
        "class sums": size * dim * classes,
        "samples": min(4 * samples * dim, SPOOL) if searched else 0,
    }
    return Forecast({**stays, most: turns[most]})


def searching(width: int, classes: int, samples: int, known: int) -> int:
    """Values that the search of λ takes beside the sums and the samples, see `layup.lambda_search`."""
    from layup.lambda_search import FOLDS, LAMBDAS, LARGE_FOLD  # here, for it loads torch

    fold = samples / FOLDS
    if fold > LARGE_FOLD * width:  # the sums of every fold, G without one and its factors; W of every λ
        return 7 * width**2 + 2 * len(LAMBDAS) * classes * width
    everything = known + samples
    if everything - fold < width:  # G and its square root; all rows, and two copies; K and what it becomes
        return 2 * width**2 + 2 * everything * width + 3 * everything**2
    return 3 * width**2 + 2 * samples * width  # G, and what it becomes; samples, rotated and whitened


def class_sums(dim: int, classes: int, samples: int) -> Forecast:
    """What it takes to learn a lesson where only sums of classes are kept.

    >>> print(class_sums(768, classes=100, samples=5000))
    about 13.8 MB (class sums 1.2 MB, adding 12.6 MB)
    """
    return Forecast({"class sums": 16 * dim * classes, "adding": 16 * dim * min(samples, CHUNK)})


def require(forecast: Forecast, what: str) -> None:
    """Refuse what would not fit, before it begins; `what` is a noun or a verb, such as "This lesson"."""
    free = available()
    if free is None or forecast.total <= free:
        return
    largest = max(forecast.parts, key=lambda part: forecast.parts[part])
    fitting = [words for words, other in forecast.instead.items() if other.fits]
    advice = f"What would fit: {', or '.join(fitting)}" if fitting else "Use a machine that has more"
    raise MemoryShortage(
        f"{what} would take about {size_of(forecast.total)} of memory, {size_of(forecast.parts[largest])} of "
        f"it for {largest}, and {size_of(free)} are free. {advice}."
    )


def available() -> int | None:
    """Bytes that this process may still take before the system kills it; None where nobody knows.

    On Linux the least of what is free (with what the system would give up) and of what the limits of this
    process's control groups leave.
    """
    found = [*_free(), *_left_by_limits()]
    return max(0, min(found)) if found else None


def size_of(count: float) -> str:
    """Bytes as people say them.

    >>> size_of(22_500_000)
    '22.5 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def _free() -> Iterator[int]:
    """What the whole machine has left."""
    kilobytes = _table(PROC / "meminfo", ":").get("MemAvailable")
    if kilobytes is not None:
        yield 1024 * kilobytes


def _left_by_limits() -> Iterator[int]:
    """What each limit on this process leaves; version 2 of control groups has other names than version 1."""
    with suppress(OSError, ValueError):
        for line in (PROC / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from _left(CGROUPS, path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
                yield from _left(CGROUPS / "memory", path, *names)


def _left(root: Path, path: str, limit: str, usage: str, reclaimable: str) -> Iterator[int]:
    """What the limit of a group, and those of the groups that it is in, leave.

    Inside a container the path may be that outside of it; its own group is then the root.
    """
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        if folder == root.parent:
            return
        with suppress(OSError, ValueError):  # "max" is no limit
            most, used = (int((folder / name).read_text()) for name in (limit, usage))
            yield most - used + _table(folder / "memory.stat", " ").get(reclaimable, 0)


def _table(file: Path, separator: str) -> dict[str, int]:
    """Names and numbers, one pair a line; nothing if there is no such file."""
    found = {}
    with suppress(OSError):
        for line in file.read_text().splitlines():
            name, _, value = line.partition(separator)
            with suppress(ValueError, IndexError):
                found[name] = int(value.split()[0])
    return found
