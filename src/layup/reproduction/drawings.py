"""The figures of the paper, from anybody's numbers: as wide as a page, with letters of 8 points or more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from layup.benchmark.metrics import Interval
from layup.benchmark.plots.canvas import (
    BETTER,
    EQUAL,
    INK,
    LONGEST,
    MARKERS,
    PAGE,
    SAFE_COLOURS,
    SMALL,
    WORSE,
    Page,
    bare,
    blank,
    cut,
    few_whole,
    folded,
    grid,
    key,
    line,
    look,
    numbered,
    save,
    shaded_line,
    wrapped,
)
from layup.errors import InputError
from layup.formats import exact_percent
from layup.reproduction.analysis import ClassChange

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

Value = TypeVar("Value")

TOLD_APART = 2 * len(SAFE_COLOURS)
"""So many names can be told apart where there are no dashes: in each colour, one is filled and one is not."""
ROOM = 0.08
"""A smaller share of a bar has no room for its number."""
KINDS = {"better": (BETTER, "white"), "equal": (EQUAL, INK), "worse": (WORSE, "white")}
"""The kinds of classes, and the colours of their bars and of what is written on these."""


@dataclass(frozen=True)
class Point:
    """Two measures of one dataset (`name`) and one network."""

    x: float
    y: float
    name: str
    network: str


def per_layer(path: str | Path, panels: Mapping[str, Mapping[str, Sequence[float]]], y_label: str) -> None:
    """Figure 2: a panel a dataset, in it a line a network: a share in 0 … 1 for each layer but the last one.

    The values are those of layers 1 … L − 1. Networks of different depths meet at the right: the axis counts
    back from the last layer.
    """
    from matplotlib.ticker import FuncFormatter

    numbers = _some(panels)
    for values in _all(panels):
        if not all(0 <= value <= 1 for value in values):
            raise InputError(f"A line over layers needs shares between 0 and 1, not {list(values)}.")
    page = grid(folded(len(panels)), same_y=True)
    page.entitle(panels)
    for axes, networks in zip(page.panels, panels.values(), strict=True):
        longest = max(map(len, networks.values()))
        for name, values in networks.items():
            line(axes, numbers[name], np.arange(len(values), 0, -1), values)
        axes.set_xticks(few_whole(longest))
        axes.set_xlim(longest + 0.5, 0.5)
    top = max(max(values) for values in _all(panels))
    page.panels[0].set_ylim(0, min(1.0, 1.15 * top) or 1.0)
    page.panels[0].yaxis.set_major_formatter(FuncFormatter(lambda share, _: exact_percent(share)))
    page.label_lowest("layers before the last")
    page.label_first(y_label)
    page.legend([key(i) for i in numbers.values()], numbers)
    save(page.figure, path)


def compared_bars(
    path: str | Path,
    panels: Mapping[str, Mapping[str, Sequence[Interval | None]]],
    groups: Sequence[str],
    y_label: str,
    title: str = "",
) -> None:
    """Figure 3: a panel a dataset, along it groups such as k = 1, 4, 6; in a group a bar a series ± interval.

    If all values are far from zero, points take the place of bars: their differences would not show on bars
    from zero, and a bar from elsewhere is not as long as what it stands for. None is left out.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    numbers = _some(panels)
    _tell_apart(numbers, TOLD_APART, "series")
    if any(len(values) != len(groups) for values in _all(panels)):
        raise InputError(f"Each series needs a value, or None, for each of the {len(groups)} groups.")
    known = _known(panels)
    bars = bool(np.nanmin(known) <= 0.5 * np.nanmax(known))
    page = grid(folded(len(panels)))
    page.entitle(panels)
    page.name_positions(groups)
    width = 0.8 / len(numbers)
    for axes, series in zip(page.panels, panels.values(), strict=True):
        for name, values in series.items():
            offset = (numbers[name] - (len(numbers) - 1) / 2) * width
            _compared(axes, numbers[name], values, offset, 0.9 * width if bars else None)
        if bars:
            axes.axhline(0, color=INK, linewidth=0.8)
        for between in range(1, len(groups)):
            axes.axvline(between - 0.5, color=INK, linewidth=0.5, alpha=0.25)
        axes.set_xlim(-0.5, len(groups) - 0.5)
    page.label_first(y_label)
    handles: list[Artist] = [
        Patch(**_fill(i)) if bars else Line2D([], [], **_dot(i)) for i in numbers.values()
    ]
    page.legend(handles, numbers)
    page.headline(title)
    save(page.figure, path)


def against_measures(path: str | Path, panels: Mapping[str, Sequence[Point]], y_label: str) -> None:
    """Figure 4: a panel a measure, which is the x axis; in it points, whose colours are datasets.

    Their markers are networks.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    points = list(chain(*panels.values()))
    if not points or not all(panels.values()):
        raise InputError("A picture of points needs at least one panel, and a point in each.")
    names, networks = numbered([[p.name for p in points]]), numbered([[p.network for p in points]])
    _tell_apart(names, TOLD_APART, "datasets")
    _tell_apart(networks, len(MARKERS), "networks")
    page = grid(folded(len(panels)), same_y=True)
    for axes, found in zip(page.panels, panels.values(), strict=True):
        for point in found:
            axes.plot([point.x], [point.y], **_dot(names[point.name], MARKERS[networks[point.network]]))
        axes.margins(0.08)
        axes.locator_params(axis="x", nbins=int(page.width / 0.75))
    page.label_x(panels)
    page.label_first(y_label)
    handles: list[Artist] = [Patch(**_fill(i)) for i in names.values()]
    handles += [Line2D([], [], **(_dot(0, MARKERS[i]) | {"color": INK})) for i in networks.values()]
    page.legend(handles, [*names, *networks])
    save(page.figure, path)


def class_shares(path: str | Path, changes: Mapping[str, ClassChange], title: str = "") -> None:
    """Figure 5: for each dataset the shares of classes that got better, stayed equal and got worse.

    Beside them, how far accuracy rose, on average over the classes that got better, and how far it fell over
    those that got worse.
    """
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter

    if not changes:
        raise InputError("There is no change of classes to draw.")
    for name, change in changes.items():
        shares = change.better, change.equal, change.worse
        if min(shares) < 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
            raise InputError(f"The shares of classes of '{name}' are {shares}, and do not add up to 1.")
    figure = blank(PAGE, 0.9 + 0.42 * len(changes))
    left, right = (bare(axes) for axes in figure.subplots(1, 2, sharey=True, width_ratios=(3, 2)))
    for position, change in enumerate(changes.values()):
        _stack(left, position, change)
        _gain_and_loss(right, position, change)
    names = [wrapped(cut(name, 2 * LONGEST), 0.1 * LONGEST) for name in changes]
    left.set_yticks(range(len(changes)), names, parse_math=False)
    left.set_ylim(len(changes) - 0.5, -0.5)
    left.set_xlim(0, 1)
    left.xaxis.set_major_formatter(FuncFormatter(lambda share, _: exact_percent(share)))
    right.set_axisbelow(True)
    right.grid(axis="x", alpha=0.25)
    right.set_xlim(0, 1.2 * right.dataLim.x1 or 1.0)  # beside the longest bar, its number has room
    for axes in (left, right):
        axes.tick_params(labelsize=SMALL)
        axes.tick_params(axis="y", length=0)
    page = Page(figure, [[left, right]], 0.4 * PAGE, figure.get_figheight())
    page.label_x(["share of classes", "mean gain or loss of such a class, in percentage points"])
    page.legend([Patch(color=colour) for colour, _ in KINDS.values()], KINDS)
    page.headline(title)
    save(page.figure, path)


def depths(
    path: str | Path, panels: Mapping[str, Mapping[str, Sequence[Interval | None]]], y_label: str
) -> None:
    """Table 4 as a picture: a panel a dataset, in it a line a network over how many last layers are used.

    The values are those of k = 1 … L, each with its interval as a shade; the highest of each line has a ring.
    None is left out.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    numbers = _some(panels)
    _known(panels)
    page = grid(folded(len(panels)))
    page.entitle(panels)
    ring: dict[str, Any] = {"marker": "o", "markersize": 10, "fillstyle": "none", "linestyle": ""}
    shaded = False
    for axes, networks in zip(page.panels, panels.values(), strict=True):
        for name, values in networks.items():
            middle, low, high = _columns(values)
            shaded |= shaded_line(axes, numbers[name], np.arange(1, len(values) + 1), middle, low, high)
            if not np.isnan(middle).all():
                best = int(np.nanargmax(middle))
                axes.plot([best + 1], [middle[best]], **ring, color=look(numbers[name])["color"])
        axes.set_xticks(few_whole(max(map(len, networks.values()))))
        axes.margins(y=0.1)
    page.label_lowest("last layers used, k")
    page.label_first(y_label)
    handles: list[Artist] = [*(key(i) for i in numbers.values()), Line2D([], [], **ring, color=INK)]
    names = [*numbers, "highest of its line"]
    if shaded:
        handles.append(Patch(color=INK, alpha=0.18, linewidth=0))
        names.append("interval")
    page.legend(handles, names)
    save(page.figure, path)


def _compared(
    axes: Axes, number: int, values: Sequence[Interval | None], offset: float, width: float | None
) -> None:
    """Draw bars of this width, or else points, beside 0, 1, …, and their intervals."""
    positions = np.arange(len(values)) + offset
    middle, low, high = _columns(values)
    known, sure = ~np.isnan(middle), ~np.isnan(low + high)
    if width is None:
        axes.plot(positions[known], middle[known], **_dot(number))
    else:
        axes.bar(positions[known], middle[known], width, **_fill(number))
    colour = INK if width is not None else look(number)["color"]
    axes.vlines(positions[sure], low[sure], high[sure], color=colour, linewidth=1.2)


def _stack(axes: Axes, position: int, change: ClassChange) -> None:
    """Draw the shares of classes behind one another, with their numbers where they have room."""
    start = 0.0
    for share, (colour, ink) in zip((change.better, change.equal, change.worse), KINDS.values(), strict=True):
        axes.barh(position, share, left=start, color=colour, height=0.68)
        if share >= ROOM:
            at, text = (start + share / 2, position), exact_percent(round(share, 2))
            axes.annotate(text, at, color=ink, ha="center", va="center", fontsize=SMALL)
        start += share


def _gain_and_loss(axes: Axes, position: int, change: ClassChange) -> None:
    """Draw what a class that got better gained, and below it what one that got worse lost."""
    better, worse = (change.better, change.gain, BETTER), (change.worse, change.loss, WORSE)
    for offset, (share, size, colour) in ((-0.18, better), (0.18, worse)):
        points = 100 * size if share else 0.0
        axes.barh(position + offset, points, color=colour, height=0.32)
        axes.annotate(
            f"{points:.1f}" if share else "none",
            (points, position + offset),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=SMALL,
        )


def _some(panels: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[str, int]:
    """The number of each series; each panel has to have one, and each series a value."""
    if not panels or not all(panels.values()) or not all(map(len, _all(panels))):
        raise InputError("A picture of panels needs at least one, and something to draw in each.")
    return numbered(panels.values())


def _all(panels: Mapping[str, Mapping[str, Sequence[Value]]]) -> list[Sequence[Value]]:
    return [values for series in panels.values() for values in series.values()]


def _known(panels: Mapping[str, Mapping[str, Sequence[Interval | None]]]) -> NDArray[np.float64]:
    """All values and their ends; there has to be one."""
    known = np.hstack([_columns(values) for values in _all(panels)])
    if np.isnan(known[0]).all():
        raise InputError("There is nothing to draw: all values are missing.")
    return known


def _tell_apart(names: Mapping[str, int], most: int, what: str) -> None:
    if len(names) > most:
        raise InputError(
            f"{len(names)} {what} cannot be told apart in one picture, only {most}. Draw several pictures."
        )


def _columns(values: Sequence[Interval | None]) -> NDArray[np.float64]:
    """The values, their lower and their upper ends; NaN where they are missing."""
    missing = (math.nan,) * 3
    return np.array([(found.value, found.low, found.high) if found else missing for found in values]).T


def _fill(number: int) -> dict[str, Any]:
    """How an area of this number looks: when colours come again, it is empty."""
    colour = look(number)["color"]
    return {"facecolor": colour if number < len(SAFE_COLOURS) else "white", "edgecolor": colour}


def _dot(number: int, marker: str | None = None) -> dict[str, Any]:
    """How a point of this number looks: when colours come again, it is empty."""
    return {
        "color": look(number)["color"],
        "marker": marker or look(number)["marker"],
        "markersize": 6,
        "linestyle": "",
        "fillstyle": "full" if number < len(SAFE_COLOURS) else "none",
    }
