"""How time and memory of learning grow with samples, dimensions, classes and tasks, and where memory ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from layup.benchmark.plots import Trend
from layup.formats import seconds, size_of
from layup.performance.point import Point, Size, measured_apart
from layup.performance.report import Report
from layup.progress import progress_bar

LIMIT = 24e9
"""Bytes of memory of a machine that people have."""
LEAST_GROWTH = 1.25
"""Memory that has not grown by this factor from the first point to the last is taken not to grow."""
LAST = 3
"""How many points a line is fitted to: the largest, where what grows most has taken over."""

AXES = {
    "samples": ("samples of a lesson, n", 1),
    "dim": ("dimensions, d", 2),
    "classes": ("classes, C", 1),
    "tasks": ("tasks, T", 1),
}
"""What grows: a field of `Size`, its name, and the highest power of it that memory could grow with."""


@dataclass(frozen=True)
class GrowthRow:
    """What was measured along one axis, its slopes on log-log paper, and where memory ends, if it does."""

    axis: str
    sizes: list[Size]
    seconds: list[float]
    memory: list[int]
    time_slope: float
    memory_slope: float
    ends_at: float | None

    @property
    def name(self) -> str:
        """What grows, in words."""
        return AXES[self.axis][0]

    @property
    def at(self) -> list[int]:
        """What grows, in numbers."""
        return [getattr(size, self.axis) for size in self.sizes]


def plan(dim: int, classes: int) -> dict[str, list[Size]]:
    """The sizes to measure along each axis: up to `dim` dimensions, and eight times `classes`.

    >>> [size.dim for size in plan(4608, 200)["dim"]]
    [576, 1152, 2304, 4608]
    """
    few, fewest = max(2, classes // 4), max(2, classes // 8)
    base = Size(max(8, dim // 4), few, samples=max(dim // 4, 4 * few))
    starts = {  # and by which factors it grows from there: far enough for what grows most to take over
        "samples": (base, (1, 4, 16, 64)),
        "dim": (replace(base, dim=max(8, dim // 8), samples=2 * dim), (1, 2, 4, 8)),
        "classes": (replace(base, classes=fewest, samples=4 * 64 * fewest), (1, 4, 16, 64)),
        "tasks": (replace(base, tasks=2), (1, 2, 4, 8)),  # from the first one on that has a history
    }
    return {
        axis: [replace(start, **{axis: factor * getattr(start, axis)}) for factor in factors]
        for axis, (start, factors) in starts.items()
    }


def measure(dim: int, classes: int, repeats: int) -> list[GrowthRow]:
    """A row for each axis; every point is the median of so many processes."""
    sizes = plan(dim, classes)
    rows = []
    with progress_bar(None, "processes") as bar:
        task = bar.add_task("Growth", total=repeats * sum(map(len, sizes.values())), note="")
        for axis, along in sizes.items():
            points: list[list[Point]] = []
            for size in along:
                bar.update(task, note=f"{axis}: {getattr(size, axis):,}")
                points.append([])
                for _ in range(repeats):
                    points[-1].append(measured_apart(size))
                    bar.advance(task)
            rows.append(row_of(axis, along, points))
    return rows


def row_of(axis: str, sizes: list[Size], points: Sequence[Sequence[Point]]) -> GrowthRow:
    """What was measured at every size, once or several times, as a row."""
    at = [getattr(size, axis) for size in sizes]
    times = [float(np.median([point.seconds for point in same])) for same in points]
    memory = [int(np.median([point.memory for point in same])) for same in points]
    end = end_of(at, memory, AXES[axis][1]) if memory[-1] >= LEAST_GROWTH * memory[0] else None
    return GrowthRow(axis, sizes, times, memory, slope(at, times), slope(at, memory), end)


def slope(at: Sequence[float], values: Sequence[float]) -> float:
    """The slope on log-log paper of the last three points: the power with which values grow.

    >>> round(slope([1, 2, 4], [5, 20, 80]), 6)
    2.0
    """
    steepness, _ = np.polyfit(np.log(at[-LAST:]), np.log(values[-LAST:]), 1)
    return float(steepness)


def end_of(at: Sequence[float], memory: Sequence[float], power: int, limit: float = LIMIT) -> float | None:
    """Where memory = a + b·x^power, fitted to the last three points, reaches the limit.

    Not where the straight line does: what stays (other axes) would make that too far away.

    >>> round(end_of([1, 2, 4], [5 + 3, 5 + 12, 5 + 48], power=2, limit=305), 6)
    10.0
    """
    grows, stays = np.polyfit(np.array(at[-LAST:], float) ** power, memory[-LAST:], 1)
    return float(((limit - stays) / grows) ** (1 / power)) if grows > 0 else None


def report(rows: Sequence[GrowthRow]) -> Report:
    """The rows as a table."""
    columns = [
        *("what grows", "beside it", "from, to", "time: from, to", "slope", "memory: from, to", "slope"),
        "24 GB are full at",
    ]
    cells = [
        [
            row.name,
            others(row),
            f"{row.at[0]:,}, {row.at[-1]:,}",
            f"{seconds(row.seconds[0])}, {seconds(row.seconds[-1])}",
            f"{row.time_slope:.2f}",
            f"{size_of(row.memory[0])}, {size_of(row.memory[-1])}",
            f"{row.memory_slope:.2f}",
            "no growth seen" if row.ends_at is None else f"{row.ends_at:,.0f}",
        ]
        for row in rows
    ]
    notes = [
        "Time of learning, with the search of λ and the weights.",
        f"Slope: the power of growth over the last {LAST} points.",
        "Memory: the peak of a process of its own beyond what it takes when idle, features included.",
        "24 GB: extrapolated from the last points as a + b·x (x² for d).",
    ]
    trends = {
        "seconds": {row.name: Trend(row.at, row.seconds, row.time_slope, LAST) for row in rows},
        "megabytes": {
            row.name: Trend(row.at, [size / 1e6 for size in row.memory], row.memory_slope, LAST)
            for row in rows
        },
    }
    title = "Growth of time and memory"
    return Report("growth", title, columns, cells, notes, rows, trends=trends, texts=2)


def others(row: GrowthRow) -> str:
    """What did not grow."""
    size = row.sizes[0]
    letters = {"samples": "n", "dim": "d", "classes": "C", "tasks": "T"}
    return ", ".join(
        f"{letter} = {getattr(size, axis):,}" for axis, letter in letters.items() if axis != row.axis
    )
