"""What all pictures share: colours, sizes, empty panels, lines with a shade, legends, the file at the end."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from layup.benchmark.metrics import Band
from layup.errors import InputError, StorageError
from layup.formats import printable, printable_lines

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

INK = "#222222"
COLOURS = ("#8a8a8a", "#d98032", "#1f6fb4", "#3a9a5b", "#9059a8")

# The colours of Okabe and Ito that show on white, which colour-blind people can tell apart; the markers help.
SAFE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":")
MARKED = 16
"""Up to so many points of a line, each has its marker."""
BETTER = "#0072b2"
EQUAL = "#8a8a8a"
WORSE = "#d55e00"

ENDINGS = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp")
"""Of pictures: what matplotlib draws by itself."""

LONGEST = 26
"""Longer names of classes are cut in the middle; so are labels of twice that."""

PAGE = 7.2
"""Inches of a page of panels: as wide as the text of a paper, so that letters are printed in their size."""
ALONE = 4.9
"""Inches of a panel that has no other next to it."""
NARROWEST = 2.4
HEIGHT, HIGHEST, LOWEST, LONG_PAGE = 2.3, 3.0, 1.7, 10.0
"""Inches of a panel: among others, in the only row, in many rows; and of all rows, if they have room."""
TEXT, SMALL = 9.0, 8.0
"""Points of names, and of the numbers along axes."""


def blank(width: float, height: float) -> Figure:
    """A figure without anything on it, in inches."""
    # Not pyplot: it keeps every figure alive, and needs to know whether there is a screen.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150)
    figure.set_layout_engine("constrained", w_pad=0.08)  # what is written next to panels keeps its distance
    return figure


def bare(axes: Axes) -> Axes:
    """The axes without a frame above and at the right."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def one_panel(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure with nothing but bare axes."""
    figure = blank(width, height)
    return figure, bare(figure.add_subplot())


@dataclass(frozen=True)
class Page:
    """A figure of panels in rows. However much is written about panels, they keep their size: it grows."""

    figure: Figure
    rows: Sequence[Sequence[Axes]]
    width: float
    """Inches of a panel, with what is written at its left."""
    height: float
    """Inches of a panel, with a line of text above and one below it."""

    @property
    def panels(self) -> list[Axes]:
        """All of them, in the order of reading."""
        return list(chain(*self.rows))

    def entitle(self, names: Iterable[str]) -> None:
        """Write a name above each panel."""
        self._entitle(self.rows, names)

    def entitle_rows(self, names: Iterable[str]) -> None:
        """Write a name above the first panel of each row."""
        self._entitle([row[:1] for row in self.rows], names)

    def label_x(self, labels: Iterable[str]) -> None:
        """Write below each panel what its x axis shows."""
        for row, shown in zip(self.rows, _dealt(labels, self.rows), strict=True):
            self._grow_by([self._label_x(axes, label) for axes, label in zip(row, shown, strict=True)])

    def label_lowest(self, label: str) -> None:
        """Write what all x axes show, below the lowest panel of each column."""
        for row, below in zip(self.rows, [*self.rows[1:], []], strict=True):
            for axes in row[len(below) :]:
                self._label_x(axes, label)

    def label_y(self, axes: Axes, label: str) -> None:
        """Write what the y axis of a panel shows."""
        text = wrapped(label, self.height - 0.4, 12)
        axes.set_ylabel(text, fontsize=TEXT, color=INK, parse_math=False)

    def label_first(self, label: str) -> None:
        """Write what all y axes show, at the left of each row."""
        for row in self.rows:
            self.label_y(row[0], label)

    def name_positions(self, names: Sequence[str]) -> None:
        """Write names below 0, 1, … of each panel: side by side, or upright if there is no room for that."""
        shown = [cut(name) for name in names]
        longest = 0.065 * max(map(len, shown)) + 0.05  # inches
        upright = longest > (self.width - 0.6) / len(shown)
        for axes in self.panels:
            axes.set_xticks(range(len(shown)), shown, rotation=90 if upright else 0, parse_math=False)
        if upright:
            self._grow(longest * len(self.rows))

    def legend(self, handles: Iterable[Artist], names: Iterable[str]) -> None:
        """Write one legend for all panels below them."""
        # Names may be long, and lines may end close together: below the panels there is room for all.
        shown = [cut(name, 2 * LONGEST) for name in names]
        letters = int(12 * self.figure.get_figwidth())
        columns = max(1, min(len(shown), 4, letters // (max(map(len, shown)) + 8)))
        legend = self.figure.legend(
            list(handles),
            shown,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize=TEXT,
            handlelength=2.6,  # dashes show
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
        self._grow(0.2 * -(-len(shown) // columns))

    def headline(self, title: str) -> None:
        """Write a title above all panels, if there is one."""
        if title:
            text = wrapped(title, self.figure.get_figwidth())
            self.figure.suptitle(text, color=INK, parse_math=False, fontsize=TEXT + 1)
            self._grow(0.2 * len(text.splitlines()))

    def _entitle(self, rows: Sequence[Sequence[Axes]], names: Iterable[str]) -> None:
        for row, shown in zip(rows, _dealt(names, rows), strict=True):
            texts = [
                axes.set_title(
                    wrapped(cut(name, 2 * LONGEST), self.width - 0.5),
                    loc="left",
                    color=INK,
                    fontsize=TEXT,
                    fontweight="bold",
                    parse_math=False,
                )
                for axes, name in zip(row, shown, strict=True)
            ]
            self._grow_by(texts)

    def _label_x(self, axes: Axes, label: str) -> Text:
        return axes.set_xlabel(
            wrapped(label, self.width - 0.4, 12), fontsize=TEXT, color=INK, parse_math=False
        )

    def _grow_by(self, texts: Iterable[Text]) -> None:
        """Make room for all lines but the first: for that, there is room."""
        self._grow(0.15 * max(text.get_text().count("\n") for text in texts))

    def _grow(self, inches: float) -> None:
        self.figure.set_figheight(self.figure.get_figheight() + inches)


def grid(lengths: Sequence[int], same_y: bool = False) -> Page:
    """A page of rows, each of so many panels; with `same_y`, all have one scale."""
    columns = max(lengths)
    width = ALONE if columns == 1 else max(PAGE / columns, NARROWEST)
    height = HIGHEST if len(lengths) == 1 else max(LOWEST, min(HEIGHT, LONG_PAGE / len(lengths)))
    figure = blank(width * columns, height * len(lengths))
    rows: list[list[Axes]] = [[] for _ in lengths]
    for number, length in enumerate(lengths):
        for position in range(length):
            first = rows[0][0] if same_y and rows[0] else None
            at = number * columns + position + 1
            axes = bare(figure.add_subplot(len(lengths), columns, at, sharey=first))
            axes.tick_params(labelsize=SMALL, labelleft=position == 0 or not same_y)
            axes.set_axisbelow(True)
            axes.grid(axis="y", alpha=0.25)
            rows[number].append(axes)
    return Page(figure, rows, width, height)


def folded(count: int) -> list[int]:
    """How many panels each row has, if there are so many.

    >>> folded(2), folded(4), folded(8)
    ([2], [2, 2], [3, 3, 2])
    """
    columns = 2 if count == 4 else min(count, 3)
    return [min(columns, count - start) for start in range(0, count, columns)]


def few_whole(longest: int) -> list[int]:
    """Some of the numbers from 1 on, so few that they have room below a panel.

    >>> few_whole(3), few_whole(12)
    ([1, 2, 3], [1, 3, 5, 7, 9, 11])
    """
    return list(range(1, longest + 1, -(-longest // 6)))


def plain_logarithmic(axis: Axis) -> None:
    """Numbers as people write them, at 1, 2, 5, 10 and so on: powers of ten are for wider scales."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def numbered(series: Iterable[Iterable[str]]) -> dict[str, int]:
    """A number for each name, in the order in which they are met: a name looks the same in all panels.

    >>> numbered([["layup", "nmc"], ["ranpac", "nmc"]])
    {'layup': 0, 'nmc': 1, 'ranpac': 2}
    """
    return {name: i for i, name in enumerate(dict.fromkeys(name for names in series for name in names))}


def look(number: int) -> dict[str, Any]:
    """How the line of this number looks: when colours and markers come again, the dashes are others."""
    return {
        "color": SAFE_COLOURS[number % len(SAFE_COLOURS)],
        "linestyle": LINES[number // len(SAFE_COLOURS) % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 4.0,
        "linewidth": 1.5,
    }


def key(number: int) -> Line2D:
    """The line of this number as a legend shows it."""
    from matplotlib.lines import Line2D

    # Not the line that was drawn: a legend leaves out what has a name that begins with _.
    return Line2D([], [], **look(number))


def line(axes: Axes, number: int, positions: ArrayLike, values: ArrayLike) -> None:
    """Draw the line of this number; of many points only some have markers, and the last is one of these."""
    y = np.asarray(values, np.float64)
    step = max(1, -(-len(y) // MARKED))
    axes.plot(np.asarray(positions), y, **look(number), markevery=((len(y) - 1) % step, step))


def shaded_line(
    axes: Axes, number: int, positions: ArrayLike, middle: ArrayLike, low: ArrayLike, high: ArrayLike
) -> bool:
    """Draw a line and its shade, neither where they are NaN; whether there is a shade to be seen."""
    x, y, below, above = (np.asarray(values, np.float64) for values in (positions, middle, low, high))
    line(axes, number, x, y)
    known = ~np.isnan(y + below + above)
    colour = look(number)["color"]
    axes.fill_between(x, below, above, where=known.tolist(), color=colour, alpha=0.18, linewidth=0)
    return bool((above > below)[known].any())


def band(axes: Axes, number: int, found: Band, at: Sequence[float] | None = None) -> bool:
    """Draw a line ± its error over 1, 2, … or other positions; whether there is a shade to be seen."""
    positions = np.arange(1, len(found.mean) + 1) if at is None else at
    low, high = found.mean - found.error, found.mean + found.error
    return shaded_line(axes, number, positions, found.mean, low, high)


def cut(name: str, longest: int = LONGEST) -> str:
    """A name, printable, with its middle left out if it is long: it is the ends that tell names apart.

    >>> cut("a name that is much longer than others"), cut("cat")
    ('a name that i… than others', 'cat')
    """
    shown = printable(name)  # neither fonts nor SVG files have control characters
    half = longest // 2
    return shown if len(shown) <= longest else f"{shown[: longest - half]}…{shown[-half + 1 :]}"


def wrapped(text: str, inches: float, letters: int = 10) -> str:
    """A text, printable, in lines that have room within so many inches, of so many letters each."""
    return printable_lines(textwrap.fill(text, int(letters * inches)))


def require_ending(path: str | Path) -> None:
    """Refuse, before the work, the name of a picture in a format that cannot be drawn.

    >>> require_ending("p.docx")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    layup.errors.InputError: Cannot draw 'p.docx': its name must end with .png, .svg, ...
    """
    if Path(path).suffix.lower() not in ENDINGS:
        raise InputError(f"Cannot draw '{path}': its name must end with {', '.join(ENDINGS)}.")


@contextmanager
def boxes_for_unknown_letters() -> Iterator[None]:
    """Letters that the font lacks become boxes: no reason to warn of each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def save(figure: Figure, path: str | Path, *, around: float | None = None) -> None:
    """Write the figure in the format that the path ends with: the same numbers, the same file.

    around: so many inches around all that is drawn, whatever the size of the figure; otherwise its size.
    """
    from matplotlib import rc_context

    undated = {"Date": None} if Path(path).suffix == ".svg" else None
    size = None if around is None else "tight"
    try:
        with boxes_for_unknown_letters(), rc_context({"svg.hashsalt": "layup"}):
            figure.savefig(path, metadata=undated, bbox_inches=size, pad_inches=around or 0)
    except OSError as error:
        raise StorageError(
            f"Cannot write the picture '{path}' ({error.strerror}). Choose a folder that can be written to."
        ) from error
    except ValueError as error:  # an unknown ending
        raise StorageError(f"Cannot write the picture '{path}': {error}") from error


def _dealt(names: Iterable[str], rows: Sequence[Sequence[Axes]]) -> list[list[str]]:
    """As many of the names for each row as it has panels."""
    left = iter(names)
    return [list(islice(left, len(row))) for row in rows]
