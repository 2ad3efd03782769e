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
        free = available()
        return free is None or self.total <= free

    def __str__(self) -> str:
        shown = [
            f"{name} {size_of(count)}" for name, count in self.parts.items() if 100 * count >= self.total
        ]
        return f"about {size_of(self.total)} ({', '.join(shown)})"


def require(forecast: Forecast, what: str) -> None:
    """Refuse what would not fit, before it begins; `what` names it, such as "This batch"."""
    free = available()
    if free is None or forecast.total <= free:
        return
    largest = max(forecast.parts, key=lambda part: forecast.parts[part])
    fitting = [words for words, other in forecast.instead.items() if other.fits]
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
    kilobytes = _table(PROC / "meminfo", ":").get("MemAvailable")
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
            most, used = (int((folder / name).read_text()) for name in (limit, usage))
            yield most - used + _table(folder / "memory.stat", " ").get(reclaimable, 0)


def _table(file: Path, separator: str) -> dict[str, int]:
    """Names and numbers, one pair per line; empty if there is no such file."""
    found = {}
    with suppress(OSError):
        for line in file.read_text().splitlines():
            name, _, value = line.partition(separator)
            with suppress(ValueError, IndexError):
                found[name] = int(value.split()[0])
    return found
