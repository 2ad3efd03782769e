"""Memory before it is needed: what is free, and a sentence where that is too little.

A process that asks for more than there is gets killed by the system, in the middle of its work and without
a word. So what is about to be done is weighed first (`layup.model.forecasts`).
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
"""Bytes of a lesson's features that are held in memory, where λ is searched on them; the rest is on disk."""


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


def require(forecast: Forecast, what: str) -> None:
    """Refuse what would not fit, before it begins; `what` is a noun or a verb, such as "This lesson"."""
    free = available()
    if free is None or forecast.total <= free:
        return
    largest = max(forecast.parts, key=lambda part: forecast.parts[part])
    fitting = [words for words, other in forecast.instead.items() if other.fits]
    advice = f"What would fit: {', or '.join(fitting)}" if fitting else "Use a machine that has more"
    raise NotEnoughMemoryError(
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
