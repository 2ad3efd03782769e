"""What an item shows: tables of cells, pictures, and remarks. How they look is the report's business."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from layup.benchmark.metrics import Interval

DASH = "–"
"""Where there is nothing."""


@dataclass(frozen=True)
class Cell:
    """A number beside the paper's; shares here, percent there, as both are known.

    ours: the value, with the interval that a bootstrap over the test images gives.
    paper: what the paper prints, in percent.
    which: what gave our value, where it is the best of several by its test accuracy.
    chosen, chosen_which: the value of the one that is chosen without looking at tests.
    missing: why there is no value.

    >>> cell = Cell(Interval(0.9, 0.88, 0.92, 0.01), paper=93.0)
    >>> round(cell.difference, 1), cell.beyond
    (-3.0, True)
    """

    ours: Interval | None = None
    paper: float | None = None
    which: str = ""
    chosen: float | None = None
    chosen_which: str = ""
    missing: str = ""

    @property
    def difference(self) -> float | None:
        """How much ours is above the paper's, in points."""
        return None if self.ours is None or self.paper is None else 100 * self.ours.value - self.paper

    @property
    def beyond(self) -> bool:
        """Whether the paper's value is outside of our interval."""
        if self.ours is None or self.paper is None:
            return False
        # The paper rounds to a tenth, so a twentieth on either side is no difference.
        return not 100 * self.ours.low - 0.05 <= self.paper <= 100 * self.ours.high + 0.05


@dataclass(frozen=True)
class Line:
    """A row of a table: its label, and what is in it; `section` begins a new part of the table."""

    label: str
    cells: Sequence[Cell | str]
    section: str = ""


@dataclass(frozen=True)
class Sheet:
    """A table; `notes` stand below it, and its last `printed` columns only repeat what the paper prints."""

    columns: Sequence[str]
    lines: Sequence[Line]
    title: str = ""
    notes: Sequence[str] = ()
    printed: int = 0


@dataclass(frozen=True)
class Picture:
    """A figure: the name of its files, what draws it to a path, and what is to be seen."""

    name: str
    draw: Callable[[Path], None]
    caption: str


@dataclass(frozen=True)
class Shown:
    """All that an item has to show."""

    sheets: Sequence[Sheet] = ()
    pictures: Sequence[Picture] = ()


def percent(share: float | None, digits: int = 1) -> str:
    """A share as people read it; a dash where there is none.

    >>> percent(0.3605), percent(None)
    ('36.0', '–')
    """
    return DASH if share is None or share != share else f"{100 * share:.{digits}f}"


def points(difference: float, digits: int = 1) -> str:
    """A difference of shares in points, with its sign.

    >>> points(0.012), points(-0.0301), points(-0.0001)
    ('+1.2', '−3.0', '0.0')
    """
    rounded = round(100 * difference, digits)
    return f"{rounded:+.{digits}f}".replace("-", "−") if rounded else f"{0:.{digits}f}"


def whole_percent(share: float) -> str:
    """A share in whole percent, with the sign.

    >>> whole_percent(0.802), whole_percent(-0.08)
    ('80 %', '−8 %')
    """
    return f"{100 * share:.0f} %".replace("-", "−")
