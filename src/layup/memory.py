"""Check memory before it is needed: how much is free, and an error if that is too little.

A process that takes more than is free gets killed by the system, in the middle of its work and without a
message. So the memory of the next step is estimated first (`layup.algebra.forecasts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from layup.errors import NotEnoughMemoryError
from layup.formats import size_of

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

UNLIMITED = 2**60
"""Version 1 of control groups has no word for "no limit": it gives a number beyond all memories."""

SPOOL = 512 * 2**20
"""Up to this many bytes, a batch's features are held in memory while λ is searched on them; else on disk."""


@dataclass(frozen=True)
class Forecast:
    """Bytes that something will take in addition to what the process holds already, by purpose.

    instead: other ways to do it, in words, and what they would take.

    >>> print(Forecast({"G": 85_000_000, "λ search": 680_000_000}))
    about 765.0 MB (G 85.0 MB, λ search 680.0 MB)
    """

    parts: Mapping[str, int]
    instead: Mapping[str, Forecast] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Whether this much is free, as far as the system says."""
        return self.fits_in(available())

    def fits_in(self, free: int | None) -> bool:
        """Whether this is no more than so many bytes; None if nobody knows how many there are."""
        return free is None or self.total <= free

    def __str__(self) -> str:
        shown = [
            f"{name} {size_of(count)}" for name, count in self.parts.items() if 100 * count >= self.total
        ]
        return f"about {size_of(self.total)} ({', '.join(shown)})"


def require(forecast: Forecast, what: str) -> None:
    """Refuse what would not fit, before it begins; `what` names it, such as "This batch"."""
    free = available()
    if free is None or forecast.fits_in(free):
        return
    largest = max(forecast.parts, key=lambda part: forecast.parts[part])
    fitting = [words for words, other in forecast.instead.items() if other.fits_in(free)]
    advice = f"What would fit: {', or '.join(fitting)}" if fitting else "Use a machine with more memory"
    raise NotEnoughMemoryError(
        f"{what} would take about {size_of(forecast.total)} of memory, {size_of(forecast.parts[largest])} of "
        f"it for {largest}, and {size_of(free)} are free. {advice}."
    )


def available() -> int | None:
    """Bytes that this process may still take before the system kills it; None if unknown.

    On Linux the minimum of what is free (including what the system can reclaim) and of what the limits of
    this process's control groups leave.
    """
    found = [*_free(), *_left_by_limits()]
    return max(0, min(found)) if found else None


def _free() -> Iterator[int]:
    """What the whole machine has left."""
    kilobytes = _number(PROC / "meminfo", "MemAvailable:")
    if kilobytes is not None:
        yield 1024 * kilobytes


def _left_by_limits() -> Iterator[int]:
    """What each limit on this process leaves; the names differ between versions 1 and 2 of control groups."""
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

    Inside a container the path may be the one outside of it; its own group is then the root.
    """
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        if folder == root.parent:
            return
        with suppress(OSError, ValueError):  # "max" means no limit
            most = int((folder / limit).read_text())
            if most >= UNLIMITED:
                continue  # the other two files take longest
            used = int((folder / usage).read_text())
            yield most - used + (_number(folder / "memory.stat", f"{reclaimable} ") or 0)


def _number(file: Path, name: str) -> int | None:
    """The number in the line that begins with this name; None if there is none."""
    with suppress(OSError, ValueError, IndexError), file.open() as lines:
        for line in lines:
            if line.startswith(name):
                return int(line[len(name) :].split()[0])
    return None
