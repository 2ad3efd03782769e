"""Numbers → pictures. Matplotlib is imported when the first one is drawn."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from layup.errors import InputError, StorageError
from layup.metrics import Band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK = "#222222"
COLOURS = ("#8a8a8a", "#d98032", "#1f6fb4", "#3a9a5b", "#9059a8")

# The colours of Okabe and Ito that show on white, which colour-blind people can tell apart; the markers help.
SAFE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":")
BETTER, EQUAL, WORSE = "#0072b2", "#8a8a8a", "#d55e00"

ALL_NAMED = 40
"""Up to so many classes, each one has its name below its bar; beyond, only the extremes are named."""
EXTREMES = 8
LONGEST = 26
"""Longer names of classes are cut in the middle; so are labels of twice that."""


@dataclass(frozen=True)
class Trend:
    """What was measured where, and the slope of the last so many of them on log-log paper."""

    at: Sequence[int]
    values: Sequence[float]
    slope: float
    fitted: int


def curves(path: str | Path, series: Mapping[str, Sequence[float]], title: str, y_label: str) -> None:
    """One line a method over tasks 1, 2, …, named at its end rather than in a legend."""
    figure, axes = _figure(6.4, 4.0)
    bottom = max(0.0, min(min(values) for values in series.values()) - 0.08)
    ends = _spread({name: values[-1] for name, values in series.items()}, gap=0.06 * (1.0 - bottom))
    for (name, values), colour in zip(series.items(), cycle(COLOURS), strict=False):
        tasks = np.arange(1, len(values) + 1)
        axes.plot(tasks, values, color=colour, marker="o", linewidth=2, clip_on=False)
        axes.annotate(
            f"{name}  {values[-1]:.3f}",
            (tasks[-1], ends[name]),
            xytext=(10, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontweight="bold",
            annotation_clip=False,
            parse_math=False,
        )
    axes.set_ylim(bottom, 1.0)
    axes.set_xticks(tasks)
    axes.set_xlabel("tasks learned")
    axes.set_ylabel(y_label)
    axes.set_title(title, loc="left", color=INK)
    axes.grid(axis="y", alpha=0.25)
    _save(figure, path)


def first_session(path: str | Path, epochs: Sequence[Mapping[str, Any]], kept: int) -> None:
    """Loss and held-out accuracy over epochs, and the epoch that was kept; `epochs` as a record has them."""
    figure, axes = _figure(6.4, 4.0)
    numbers = np.arange(1, len(epochs) + 1)
    axes.plot(numbers, [epoch["loss"] for epoch in epochs], color=COLOURS[1], marker="o", linewidth=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("epoch")
    axes.set_xlim(0.5, len(epochs) + 0.5)
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    axes.set_ylabel("training loss", color=COLOURS[1])
    axes.axvline(kept, color=INK, linewidth=1, linestyle=":")
    accuracies = [epoch["accuracy"] for epoch in epochs]
    title = f"First session: epoch {kept} of {len(epochs)} is kept"
    if None not in accuracies:
        right = axes.twinx()
        right.plot(numbers, accuracies, color=COLOURS[2], marker="s", linewidth=2, clip_on=False)
        right.set_ylim(0, 1)
        right.set_ylabel("accuracy on held-out images", color=COLOURS[2])
        right.spines["top"].set_visible(False)
        title += f", held-out accuracy {accuracies[kept - 1]:.3f}"
    axes.set_title(title, loc="left", color=INK)
    axes.grid(axis="y", alpha=0.25)
    _save(figure, path)


def over_tasks(path: str | Path, panels: Mapping[str, Mapping[str, Band]], title: str = "") -> None:
    """Panels side by side, such as A_t and F_t: a line a method over tasks 1, 2, …, ± its standard error.

    `panels` has what each panel shows, and in it the band of each method; all panels have the same methods.
    A band without an error (one run only) is a line without a shade.
    """
    names = list(next(iter(panels.values()), {}))
    if not names or any(list(series) != names for series in panels.values()):
        raise InputError("A picture over tasks needs at least one panel, and the same methods in each.")
    # Names may be long, and lines may end close together: below the panels there is room for all.
    shown = [_cut(name, 2 * LONGEST) for name in names]
    columns = max(1, min(len(names), 4, 55 * len(panels) // (max(map(len, shown)) + 8)))
    rows = -(-len(names) // columns)
    figure = _blank(4.9 * len(panels), 4.0 + 0.22 * rows)
    shaded = False
    for place, (what, series) in enumerate(panels.items(), start=1):
        axes = _bare(figure.add_subplot(1, len(panels), place))
        longest = max(len(found.mean) for found in series.values())
        for i, (name, found) in enumerate(series.items()):
            shaded |= _band(axes, i, name, found, marked=longest <= 25)
        axes.set_xlim(1 - 0.03 * longest, longest + 0.03 * longest)
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)
        axes.set_xlabel("tasks learned")
        axes.set_title(what, loc="left", color=INK)
        axes.grid(axis="y", alpha=0.25)
    handles, _ = axes.get_legend_handles_labels()
    legend = figure.legend(handles, shown, loc="outside lower center", ncols=columns, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    if shaded:
        title = f"{title} (shaded: ± standard error over seeds)".strip()
    figure.suptitle(_wrapped(title, figure), color=INK, parse_math=False, fontsize="medium")
    _save(figure, path)


def lines(
    path: str | Path, at: Sequence[float], series: Mapping[str, Band], x_label: str, y_label: str
) -> None:
    """One line a method over numbers that grow by factors, such as images a class, ± its standard error."""
    figure, axes = _figure(6.4, 4.4)
    for i, (name, found) in enumerate(series.items()):
        _band(axes, i, name, found, marked=True, at=at)
    axes.set_xscale("log")
    axes.set_xticks(at, [f"{place:g}" for place in at])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(axis="y", alpha=0.25)
    handles, _ = axes.get_legend_handles_labels()
    axes.legend(handles, list(series), frameon=False)
    _save(figure, path)


def speedups(path: str | Path, found: Mapping[str, tuple[float, float, float]], title: str = "") -> None:
    """How many times as fast each thing is: a bar each, with its median, lowest and highest."""
    if not found:
        raise InputError("There is no ratio to draw.")
    figure = _blank(7.5, 1.5 + 0.36 * max(len(found), 4))
    axes = _bare(figure.add_subplot())
    medians, lows, highs = np.array(list(found.values())).T
    places = np.arange(len(found))
    colours = [BETTER if median >= 1 else WORSE for median in medians]
    # From 1 on: a bar to the left is slower. Both ways a factor is as long.
    axes.barh(places, medians - 1, left=1, color=colours, height=0.62)
    axes.hlines(places, lows, highs, color=INK, linewidth=1.2)
    for place, median, high in zip(places, medians, np.maximum(highs, 1), strict=True):
        axes.annotate(
            f"{median:.3g}×", (high, place), xytext=(5, 0), textcoords="offset points", va="center", color=INK
        )
    axes.set_xscale("log")
    _plain_logarithmic(axes.xaxis)
    axes.set_xlim(min(0.9, 0.8 * lows.min()), 2 * max(highs.max(), 2))
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_yticks(places, [_cut(name, 2 * LONGEST) for name in found], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("times as fast")
    axes.set_axisbelow(True)
    axes.grid(axis="x", alpha=0.25)
    axes.set_title(_wrapped(title, figure), loc="left", color=INK, fontsize="medium", parse_math=False)
    _save(figure, path)


def growth(path: str | Path, rows: Mapping[str, Mapping[str, Trend]]) -> None:
    """Small log-log pictures: a row for each thing measured, in it one for each thing that grows."""
    columns = max((len(trends) for trends in rows.values()), default=0)
    if not columns:
        raise InputError("There is no growth to draw.")
    figure = _blank(3.0 * columns, 2.7 * len(rows))
    for number, (what, trends) in enumerate(rows.items()):
        for place, (name, trend) in enumerate(trends.items(), start=1):
            axes = _bare(figure.add_subplot(len(rows), columns, number * columns + place))
            colour = SAFE_COLOURS[number % len(SAFE_COLOURS)]
            axes.loglog(trend.at, trend.values, color=colour, marker=MARKERS[number], label="measured")
            fitted = np.array(trend.at[-trend.fitted :])
            middle = np.exp(np.log(fitted).mean()), np.exp(np.log(trend.values[-trend.fitted :]).mean())
            line = middle[1] * (fitted / middle[0]) ** trend.slope
            axes.plot(fitted, line, color=INK, linestyle="--", label=f"slope {trend.slope:.2f}")
            axes.set_xticks(trend.at, [f"{value:,}" for value in trend.at], rotation=45)
            axes.set_xticks([], minor=True)
            # Less than a factor of ten would be noise blown up.
            low, high = min(trend.values), max(trend.values)
            spare = max(10 * low / high, 1) ** 0.5
            axes.set_ylim(low / spare / 1.5, high * spare * 1.5)
            _plain_logarithmic(axes.yaxis)
            axes.set_xlabel(name)
            axes.set_ylabel(what if place == 1 else "")
            axes.grid(alpha=0.25)
            axes.legend(frameon=False, fontsize="small")
    _save(figure, path)


def per_class_change(
    path: str | Path, before: Mapping[str, float], after: Mapping[str, float], title: str = ""
) -> None:
    """How the accuracy of each class changes from `before` to `after`: a bar a class, the worst first.

    Classes that only one of the two has are left out. Of many classes, only the extremes are named.
    """
    # Rounded: means over seeds may differ in the last bit, and equal is equal.
    change = {name: round(after[name] - before[name], 9) for name in before if name in after}
    if not change:
        raise InputError("There is no change to draw: no class was measured both before and after.")
    names = sorted(change, key=lambda name: (change[name], name))
    values = np.array([change[name] for name in names])
    better, worse = int((values > 0).sum()), int((values < 0).sum())
    figure = _blank(min(max(5.0, 0.22 * len(names) + 2.0), 10.0), 4.6)
    axes = _bare(figure.add_subplot())
    colours = np.where(values > 0, BETTER, np.where(values < 0, WORSE, EQUAL)).tolist()
    axes.bar(np.arange(len(names)), values, color=colours, width=0.8 if len(names) <= ALL_NAMED else 1.0)
    axes.set_axisbelow(True)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xlim(-1, len(names))
    axes.set_ylabel("change of accuracy")
    axes.grid(axis="y", alpha=0.25)
    if len(names) <= ALL_NAMED:
        axes.set_xticks(range(len(names)), [_cut(name) for name in names], rotation=90, parse_math=False)
    else:
        axes.set_xticks([])
        axes.set_xlabel(f"{len(names)} classes, by their change")
        up = [name for name in names[::-1][:EXTREMES] if change[name] > 0]
        down = [name for name in names[:EXTREMES] if change[name] < 0]
        for extremes, colour, height, align in ((up, BETTER, 1.0, "top"), (down, WORSE, 0.0, "bottom")):
            shown = extremes if align == "top" else extremes[::-1]  # as the bars are: the worst lowest
            text = "\n".join(f"{change[name]:+.2f}  {_cut(name)}".replace("-", "−", 1) for name in shown)
            axes.annotate(
                text,
                (1.0, height),
                xytext=(8, 0),
                xycoords="axes fraction",
                textcoords="offset points",
                va=align,
                color=colour,
                fontsize=8,
                parse_math=False,
            )
    counts = f"better: {better}, equal: {len(names) - better - worse}, worse: {worse}"
    title = f"{_wrapped(title, figure)}\n{counts}".strip()
    axes.set_title(title, loc="left", color=INK, fontsize="medium", parse_math=False)
    _save(figure, path)


def confusion_matrix(
    path: str | Path,
    labels: Sequence[str],
    table: NDArray[np.int64],
    title: str = "",
) -> None:
    """Rows are true classes, columns the answers; each row adds up to one."""
    from matplotlib.colors import PowerNorm

    size = len(labels)
    named = size <= 60
    side = max(3.5, 0.32 * size + 2.0) if named else 9.0
    figure, axes = _figure(side + (1.0 if named else 1.6), side)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    # Where there is no room for numbers, a few mistakes of many images must still show.
    norm = PowerNorm(1.0 if size <= 25 else 0.5, vmin=0, vmax=1)
    image = axes.imshow(shares, cmap="Blues", norm=norm, interpolation="nearest")
    if title:
        axes.set_title(_wrapped(title, figure), loc="left", color=INK, fontsize="medium", parse_math=False)
    if not named:
        axes.set(xticks=[], yticks=[])  # a number would name nothing
    else:
        axes.set_xticks(range(size), labels, rotation=90, parse_math=False)
        axes.set_yticks(range(size), labels, parse_math=False)
    if size <= 25:
        for i, j in np.argwhere(table):
            axes.text(
                j,
                i,
                str(table[i, j]),
                ha="center",
                va="center",
                fontsize=8,
                color="white" if shares[i, j] > 0.5 else INK,
            )
    axes.set_xlabel("answer")
    axes.set_ylabel("truth")
    figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03, label="share of the true class")
    _save(figure, path)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = _blank(width, height)
    return figure, _bare(figure.add_subplot())


def _blank(width: float, height: float) -> Figure:
    # Not pyplot: it keeps every figure alive, and needs to know whether there is a screen.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def _bare(axes: Axes) -> Axes:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def _plain_logarithmic(axis: Axis) -> None:
    """Numbers as people write them, at 1, 2, 5, 10 and so on: powers of ten are for wider scales."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _band(
    axes: Axes, number: int, name: str, found: Band, marked: bool, at: Sequence[float] | None = None
) -> bool:
    """Draw a line and its shade over 1, 2, … or other places; whether there is one to be seen."""
    places = np.arange(1, len(found.mean) + 1) if at is None else np.asarray(at)
    colour = SAFE_COLOURS[number % len(SAFE_COLOURS)]
    axes.plot(
        places,
        found.mean,
        color=colour,
        linestyle=LINES[number // len(SAFE_COLOURS) % len(LINES)],
        marker=MARKERS[number % len(MARKERS)] if marked else "",
        markersize=4.5,
        linewidth=1.8,
        label=f"{number} {name}",  # a name that begins with _ would be left out of the legend
    )
    known = ~np.isnan(found.mean) & ~np.isnan(found.error)
    low, high = found.mean - found.error, found.mean + found.error
    axes.fill_between(places, low, high, where=known.tolist(), color=colour, alpha=0.18, linewidth=0)
    return bool((found.error[known] > 0).any())


def _cut(name: str, longest: int = LONGEST) -> str:
    """A name with its middle left out if it is long: it is the ends that tell names apart.

    >>> _cut("a name that is much longer than others"), _cut("cat")
    ('a name that i… than others', 'cat')
    """
    half = longest // 2
    return name if len(name) <= longest else f"{name[: longest - half]}…{name[-half + 1 :]}"


def _wrapped(title: str, figure: Figure) -> str:
    """A title in lines that fit on the figure, at some ten letters an inch."""
    return textwrap.fill(title, int(10 * figure.get_figwidth()))


def _spread(values: Mapping[str, float], gap: float) -> dict[str, float]:
    """The values, from the highest down, pushed apart so that names beside them do not overlap."""
    placed: dict[str, float] = {}
    above = np.inf
    for name, value in sorted(values.items(), key=lambda item: -item[1]):
        placed[name] = above = min(value, above - gap)
    return placed


def _save(figure: Any, path: str | Path) -> None:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # letters that the font lacks become boxes
            figure.savefig(path)
    except OSError as error:
        raise StorageError(
            f"Cannot write the picture '{path}' ({error.strerror}). Choose a folder that can be written to."
        ) from error
    except ValueError as error:  # an unknown ending
        raise StorageError(f"Cannot write the picture '{path}': {error}") from error
