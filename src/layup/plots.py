"""Numbers → pictures. Matplotlib is imported when the first one is drawn."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from layup.errors import StorageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#222222"
COLOURS = ("#8a8a8a", "#d98032", "#1f6fb4", "#3a9a5b", "#9059a8")


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


def confusion_matrix(path: str | Path, labels: Sequence[str], table: NDArray[np.int64]) -> None:
    """Rows are true classes, columns the answers; each row adds up to one."""
    size = len(labels)
    side = min(max(3.5, 0.32 * size + 2.0), 24.0)
    figure, axes = _figure(side + 1.0, side)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if size <= 60:
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
    # Not pyplot: it keeps every figure alive, and needs to know whether there is a screen.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


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
