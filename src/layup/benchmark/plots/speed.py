"""Pictures of speed and memory, as `layup bench` measures them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from layup.benchmark.plots.canvas import (
    BETTER,
    INK,
    LONGEST,
    MARKERS,
    SAFE_COLOURS,
    WORSE,
    bare,
    blank,
    cut,
    plain_logarithmic,
    save,
    wrapped,
)
from layup.errors import InputError


@dataclass(frozen=True)
class Trend:
    """What was measured at which sizes, and the log-log slope of the last `fitted` of them."""

    at: Sequence[int]
    values: Sequence[float]
    slope: float
    fitted: int


def speedups(path: str | Path, found: Mapping[str, tuple[float, float, float]], title: str = "") -> None:
    """How many times as fast each thing is: a bar each, with its median, lowest and highest."""
    if not found:
        raise InputError("There is no ratio to draw.")
    figure = blank(7.5, 1.5 + 0.36 * max(len(found), 4))
    axes = bare(figure.add_subplot())
    medians, lows, highs = np.array(list(found.values())).T
    positions = np.arange(len(found))
    colours = [BETTER if median >= 1 else WORSE for median in medians]
    # From 1 on: a bar to the left is slower. Both ways a factor is as long.
    axes.barh(positions, medians - 1, left=1, color=colours, height=0.62)
    axes.hlines(positions, lows, highs, color=INK, linewidth=1.2)
    for position, median, high in zip(positions, medians, np.maximum(highs, 1), strict=True):
        axes.annotate(
            f"{median:.3g}×",
            (high, position),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=INK,
        )
    axes.set_xscale("log")
    plain_logarithmic(axes.xaxis)
    axes.set_xlim(min(0.9, 0.8 * lows.min()), 2 * max(highs.max(), 2))
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_yticks(positions, [cut(name, 2 * LONGEST) for name in found], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("times as fast")
    axes.set_axisbelow(True)
    axes.grid(axis="x", alpha=0.25)
    axes.set_title(
        wrapped(title, figure.get_figwidth()), loc="left", color=INK, fontsize="medium", parse_math=False
    )
    save(figure, path)


def growth(path: str | Path, rows: Mapping[str, Mapping[str, Trend]]) -> None:
    """Small log-log pictures: a row for each thing measured, in it one for each thing that grows."""
    columns = max((len(trends) for trends in rows.values()), default=0)
    if not columns:
        raise InputError("There is no growth to draw.")
    figure = blank(3.0 * columns, 2.7 * len(rows))
    for number, (what, trends) in enumerate(rows.items()):
        for position, (name, trend) in enumerate(trends.items(), start=1):
            axes = bare(figure.add_subplot(len(rows), columns, number * columns + position))
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
            plain_logarithmic(axes.yaxis)
            axes.set_xlabel(name)
            axes.set_ylabel(what if position == 1 else "")
            axes.grid(alpha=0.25)
            axes.legend(frameon=False, fontsize="small")
    save(figure, path)
