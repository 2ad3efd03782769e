"""Pictures of runs: what was learned over tasks, and which classes gain or lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import numpy as np

from layup.benchmark.metrics import Band
from layup.benchmark.plots.canvas import (
    BETTER,
    COLOURS,
    EQUAL,
    INK,
    WORSE,
    band,
    bare,
    blank,
    cut,
    grid,
    key,
    numbered,
    one_panel,
    save,
    wrapped,
)
from layup.errors import InputError

ALL_NAMED = 40
"""Up to so many classes, each has its name below its bar; of more, only the extremes are named."""
EXTREMES = 8


def curves(path: str | Path, series: Mapping[str, Sequence[float]], title: str, y_label: str) -> None:
    """One line per method over tasks 1, 2, …, named at its end rather than in a legend."""
    figure, axes = one_panel(6.4, 4.0)
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
    save(figure, path)


def first_session(path: str | Path, epochs: Sequence[Mapping[str, Any]], kept: int) -> None:
    """Loss and held-out accuracy over epochs, and the epoch that was kept; `epochs` as a record has them."""
    figure, axes = one_panel(6.4, 4.0)
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
    save(figure, path)


def over_tasks(path: str | Path, panels: Mapping[str, Mapping[str, Band]], title: str = "") -> None:
    """Panels side by side, such as A_t and F_t: a line per method over tasks 1, 2, …, ± its standard error.

    `panels` has what each panel shows, and in it the band of each method; all panels have the same methods.
    A band without an error (one run only) is a line without a shade.
    """
    names = list(next(iter(panels.values()), {}))
    if not names or any(list(series) != names for series in panels.values()):
        raise InputError("A picture over tasks needs at least one panel, and the same methods in each.")
    over_tasks_grid(path, {"": panels}, title)


def over_tasks_grid(
    path: str | Path, rows: Mapping[str, Mapping[str, Mapping[str, Band]]], title: str = ""
) -> None:
    """A row per dataset; in it panels such as A_t and F_t; in each a line per method ± its error.

    A method may be missing in some panels, and looks the same in all. A band without an error (one run only)
    is a line without a shade.
    """
    panels = [panel for row in rows.values() for panel in row.values()]
    if not panels or not all(rows.values()) or not all(panels):
        raise InputError("A picture over tasks needs at least one row, and in each a panel with a method.")
    numbers = numbered(panels)
    page = grid([len(row) for row in rows.values()])
    page.entitle_rows(rows)
    shaded = False
    for axes, panel in zip(page.panels, panels, strict=True):
        for name, found in panel.items():
            shaded |= band(axes, numbers[name], found)
        longest = max(len(found.mean) for found in panel.values())
        axes.set_xlim(1 - 0.03 * longest, longest + 0.03 * longest)
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)
        axes.set_xticks([tick for tick in axes.get_xticks() if 1 <= tick <= longest])  # there is no task 0
    for axes, quantity in zip(page.panels, chain(*rows.values()), strict=True):
        page.label_y(axes, quantity)
    page.label_lowest("tasks learned")
    page.legend([key(i) for i in numbers.values()], numbers)
    page.headline(f"{title} (shaded: ± standard error over seeds)".strip() if shaded else title)
    save(page.figure, path)


def lines(
    path: str | Path, at: Sequence[float], series: Mapping[str, Band], x_label: str, y_label: str
) -> None:
    """One line per method over numbers that grow by factors, such as images per class, ± its error."""
    figure, axes = one_panel(6.4, 4.4)
    for i, found in enumerate(series.values()):
        band(axes, i, found, at=at)
    axes.set_xscale("log")
    axes.set_xticks(at, [f"{position:g}" for position in at])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(axis="y", alpha=0.25)
    axes.legend([key(i) for i in range(len(series))], list(series), frameon=False)
    save(figure, path)


def per_class_change(
    path: str | Path, before: Mapping[str, float], after: Mapping[str, float], title: str = ""
) -> None:
    """How the accuracy of each class changes from `before` to `after`: a bar per class, the worst first.

    Classes that only one of the two has are left out. Of many classes, only the extremes are named.
    """
    # Rounded: means over seeds may differ in the last bit, and equal is equal.
    change = {name: round(after[name] - before[name], 9) for name in before if name in after}
    if not change:
        raise InputError("There is no change to draw: no class was measured both before and after.")
    names = sorted(change, key=lambda name: (change[name], name))
    values = np.array([change[name] for name in names])
    better, worse = int((values > 0).sum()), int((values < 0).sum())
    figure = blank(min(max(5.0, 0.22 * len(names) + 2.0), 10.0), 4.6)
    axes = bare(figure.add_subplot())
    colours = np.where(values > 0, BETTER, np.where(values < 0, WORSE, EQUAL)).tolist()
    axes.bar(np.arange(len(names)), values, color=colours, width=0.8 if len(names) <= ALL_NAMED else 1.0)
    axes.set_axisbelow(True)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xlim(-1, len(names))
    axes.set_ylabel("change of accuracy")
    axes.grid(axis="y", alpha=0.25)
    if len(names) <= ALL_NAMED:
        axes.set_xticks(range(len(names)), [cut(name) for name in names], rotation=90, parse_math=False)
    else:
        axes.set_xticks([])
        axes.set_xlabel(f"{len(names)} classes, by their change")
        up = [name for name in names[::-1][:EXTREMES] if change[name] > 0]
        down = [name for name in names[:EXTREMES] if change[name] < 0]
        for extremes, colour, height, align in ((up, BETTER, 1.0, "top"), (down, WORSE, 0.0, "bottom")):
            shown = extremes if align == "top" else extremes[::-1]  # as the bars are: the worst lowest
            text = "\n".join(f"{change[name]:+.2f}  {cut(name)}".replace("-", "−", 1) for name in shown)
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
    title = f"{wrapped(title, figure.get_figwidth())}\n{counts}".strip()
    axes.set_title(title, loc="left", color=INK, fontsize="medium", parse_math=False)
    save(figure, path)


def _spread(values: Mapping[str, float], gap: float) -> dict[str, float]:
    """The values, from the highest down, pushed apart so that names next to them do not overlap."""
    placed: dict[str, float] = {}
    above = np.inf
    for name, value in sorted(values.items(), key=lambda item: -item[1]):
        placed[name] = above = min(value, above - gap)
    return placed
