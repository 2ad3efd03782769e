"""Which classes were taken for which, drawn so that it can be read: with 3 classes, with 100 and with 1,000.

Up to `ALL_NAMED` classes, the whole matrix, and every class has its name. Beyond, names would be too small or
the picture too large: an overview of all classes, the pairs that are confused most often, and a matrix of the
classes in these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from layup.benchmark.mistakes import Pair, confused_pairs
from layup.benchmark.plots.canvas import (
    INK,
    SMALL,
    TEXT,
    WORSE,
    bare,
    blank,
    boxes_for_unknown_letters,
    cut,
    save,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

ALL_NAMED = 120
"""Up to so many classes, each has a row with its name."""
NUMBERED = 40
"""Up to so many classes, the counts are written into the matrix."""
MOST_CONFUSED = 30
"""Of more classes than can be named, so many are, and so many pairs."""
SQUARES = 300
"""Along each side of the overview, at most: with more classes, several share a square."""
LONGEST = 40
"""Longer names are cut in the middle."""
PAIRED = 24
"""Longer names of pairs are cut."""
LETTER = 0.6 / 72
"""About the width of a letter, in inches per point of its size."""
MARGIN = 0.1
"""Inches around all that is drawn."""
OTHERS = "all others"
GRID = "#ececec"


def confusion_matrix(
    path: str | Path, labels: Sequence[str], table: NDArray[np.int64], title: str = ""
) -> None:
    """Rows are true classes, columns the predictions; `labels` and `table` as `metrics.confusion` has them.

    Each row adds up to one: a shade is the share of the true class.
    """
    pairs = confused_pairs(labels, table)
    if len(labels) <= ALL_NAMED:
        figure = _whole(labels, table, title)
    elif pairs:
        figure = _summary(labels, table, pairs, title)
    else:
        figure = _without_mistakes(table, title)
    save(figure, path, around=MARGIN)


def _whole(labels: Sequence[str], table: NDArray[np.int64], title: str) -> Figure:
    """The whole matrix, with all names."""
    size = len(labels)
    cell, points = (_cell(table), TEXT) if size <= NUMBERED else (0.15, SMALL - 1)
    side = max(cell * size, 2.6)
    # The figure is the matrix; names go beyond it, and the file has room for them, however long they are.
    figure = blank(side, side)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    image = _matrix(axes, table, table.sum(axis=1), points)
    _name_rows(axes, labels, points)
    _name_columns(axes, labels, points)
    if size > NUMBERED:  # from the middle of a large matrix, either side is far away
        axes.tick_params(top=True, labeltop=True, right=True, labelright=True)
    axes.set_title(wrapped(title, side + 1.0), loc="left", color=INK, fontsize=TEXT + 1, parse_math=False)
    with boxes_for_unknown_letters():
        right = figure.get_tightbbox().x1
    room = figure.add_axes(((right + 0.2) / side, 0.2, 0.12 / side, 0.6))
    _describe(figure.colorbar(image, cax=room))
    return figure


def _summary(labels: Sequence[str], table: NDArray[np.int64], pairs: Sequence[Pair], title: str) -> Figure:
    """An overview of all classes, the pairs that are confused most, and a matrix of the classes in these."""
    chosen = _most_confused(pairs)
    rows = np.array([labels.index(label) for label in chosen])
    sizes = table[rows].sum(axis=1)
    shown = table[np.ix_(rows, rows)]
    shown = np.column_stack([shown, sizes - shown.sum(axis=1)])
    cell = max(0.2, _cell(shown))
    names = _inches(chosen, SMALL)
    width, height = cell * shown.shape[1] + names + 1.8, max(cell * len(rows) + names + 1.2, 10.6)
    figure = blank(6.2 + width, height)
    parts = figure.add_gridspec(2, 2, width_ratios=[6.2, width], height_ratios=[5.2, height - 5.2])
    # A figure each: otherwise the names of one would narrow the others.
    _overview(figure.add_subfigure(parts[0, 0]).add_subplot(), table)
    _bars(figure.add_subfigure(parts[1, 0]).add_subplot(), pairs[:MOST_CONFUSED])
    axes = figure.add_subfigure(parts[:, 1]).add_subplot()
    image = _matrix(axes, shown, sizes, SMALL)
    _name_rows(axes, chosen, SMALL)
    _name_columns(axes, [*chosen, OTHERS], SMALL)
    axes.axvline(len(rows) - 0.5, color=INK, linewidth=0.8)
    _entitle(axes, f"The {len(rows)} classes that are confused most")
    _colour_bar(axes, image)
    _headline(figure, title)
    return figure


def _without_mistakes(table: NDArray[np.int64], title: str) -> Figure:
    """Only an overview of all classes."""
    figure = blank(6.5, 5.6)
    _overview(figure.add_subplot(), table)
    _headline(figure, title)
    return figure


def _most_confused(pairs: Iterable[Pair]) -> list[str]:
    """The classes of the most frequent pairs, each next to one that it is confused with.

    >>> _most_confused([Pair("cat", "dog", 9, 9), Pair("eel", "fox", 8, 9), Pair("cat", "cow", 7, 9)])
    ['cat', 'cow', 'dog', 'eel', 'fox']
    """
    chosen: list[str] = []
    for pair in pairs:
        new = [name for name in (pair.truth, pair.predicted) if name not in chosen]
        if len(chosen) + len(new) > MOST_CONFUSED:
            break
        partner = pair.predicted if new == [pair.truth] else pair.truth
        at = chosen.index(partner) + 1 if partner in chosen else len(chosen)
        chosen[at:at] = new
    return chosen


def _matrix(axes: Axes, table: NDArray[np.int64], sizes: NDArray[np.int64], points: float) -> AxesImage:
    """Draw counts as shares of their classes, and write them into the squares if these are not too many."""
    numbered = len(table) <= NUMBERED
    image = _shaded(axes, table / np.maximum(sizes, 1)[:, None], 1.0 if numbered else 0.5)
    height, width = table.shape
    axes.hlines(np.arange(1, height) - 0.5, -0.5, width - 0.5, color=GRID, linewidth=0.5)
    axes.vlines(np.arange(1, width) - 0.5, -0.5, height - 0.5, color=GRID, linewidth=0.5)
    for i, j in np.argwhere(table) if numbered else ():
        colour = "white" if 2 * table[i, j] > sizes[i] else INK
        axes.text(j, i, f"{table[i, j]}", ha="center", va="center", fontsize=points - 1, color=colour)
    return image


def _overview(axes: Axes, table: NDArray[np.int64]) -> None:
    """Draw all classes, without names: a number would name nothing."""
    together = -(-len(table) // SQUARES)
    starts = np.arange(0, len(table), together)
    counts = np.add.reduceat(np.add.reduceat(table, starts, axis=0), starts, axis=1)
    image = _shaded(axes, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), 0.5)
    axes.set(xticks=[], yticks=[])
    squares = f"; a square is {together} × {together}" if together > 1 else ""
    _entitle(axes, f"All {len(table):,} classes in their order{squares}")
    _colour_bar(axes, image)


def _bars(axes: Axes, pairs: Sequence[Pair]) -> None:
    """Draw how often each pair is confused."""
    bare(axes)
    axes.barh(range(len(pairs)), [pair.count for pair in pairs], color=WORSE, height=0.7)
    names = [f"{cut(pair.truth, PAIRED)} → {cut(pair.predicted, PAIRED)}" for pair in pairs]
    axes.set_yticks(range(len(pairs)), names, fontsize=SMALL, parse_math=False)
    for i, pair in enumerate(pairs):
        axes.annotate(
            f"{pair.count} of {pair.of}",
            (pair.count, i),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=INK,
        )
    axes.set_xlim(0, 1.3 * pairs[0].count)  # room for the numbers
    axes.set_ylim(len(pairs) - 0.4, -0.6)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    _entitle(axes, "Confused most often: truth → prediction")


def _shaded(axes: Axes, shares: NDArray[np.float64], gamma: float) -> AxesImage:
    """Draw shares as shades of blue. With γ < 1, a few mistakes among many images still show."""
    from matplotlib.colors import PowerNorm

    axes.set_xlabel("prediction", fontsize=TEXT, color=INK)
    axes.set_ylabel("truth", fontsize=TEXT, color=INK)
    return axes.imshow(shares, cmap="Blues", norm=PowerNorm(gamma, vmin=0, vmax=1), interpolation="nearest")


def _colour_bar(axes: Axes, image: AxesImage) -> None:
    _describe(axes.figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, pad=0.02))


def _describe(bar: Colorbar) -> None:
    bar.set_label("share of the true class", fontsize=TEXT, color=INK)
    bar.ax.tick_params(labelsize=SMALL)


def _headline(figure: Figure, title: str) -> None:
    if title:
        text = wrapped(title, figure.get_figwidth())
        figure.suptitle(text, color=INK, fontsize=TEXT + 1, parse_math=False)


def _entitle(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=TEXT, fontweight="bold")


def _name_rows(axes: Axes, labels: Sequence[str], points: float) -> None:
    names = [cut(label, LONGEST) for label in labels]
    axes.set_yticks(range(len(labels)), names, fontsize=points, parse_math=False)


def _name_columns(axes: Axes, labels: Sequence[str], points: float) -> None:
    names = [cut(label, LONGEST) for label in labels]
    axes.set_xticks(range(len(labels)), names, fontsize=points, parse_math=False, rotation=90)


def _cell(table: NDArray[np.int64]) -> float:
    """Inches of a square in which the largest count has room."""
    return max(0.3, LETTER * TEXT * len(str(table.max(initial=0))) + 0.08)


def _inches(labels: Iterable[str], points: float) -> float:
    """How long the longest name is."""
    return LETTER * points * max((len(cut(label, LONGEST)) for label in labels), default=0)
