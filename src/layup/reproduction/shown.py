"""What an item shows: tables whose numbers stand beside the paper's, and pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from layup.benchmark.metrics import Interval
from layup.formats import DASH, percent, points
from layup.tables import Part, Table

MARKS = {"above": "▲", "below": "▼"}


@dataclass(frozen=True)
class Cell:
    """A number beside the paper's; shares here, percent there, as both are known.

    ours: the value, with the interval that a bootstrap over the test images gives.
    paper: what the paper prints, in percent.
    which: what gave our value, where it is the best of several by its test accuracy.
    chosen, chosen_which: the value of the one that is chosen without looking at tests.
    missing: why there is no value.

    >>> cell = Cell(Interval(0.9, 0.88, 0.92, 0.01), paper=93.0)
    >>> round(cell.difference, 1), cell.side
    (-3.0, 'below')
    """

    ours: Interval | None = None
    paper: float | None = None
    which: str = ""
    chosen: float | None = None
    chosen_which: str = ""
    missing: str = ""

    @property
    def known(self) -> Interval | None:
        """Our value, if there is one: that of a run which asked nothing is NaN."""
        return None if self.ours is None or math.isnan(self.ours.value) else self.ours

    @property
    def difference(self) -> float | None:
        """How much ours is above the paper's, in points."""
        return None if self.known is None or self.paper is None else 100 * self.known.value - self.paper

    @property
    def side(self) -> str:
        """Whether ours is above or below the paper's, if that is outside of our interval."""
        if self.known is None or self.paper is None or self.difference is None:
            return ""
        # The paper rounds to a tenth, so a twentieth on either side is no difference.
        if 100 * self.known.low - 0.05 <= self.paper <= 100 * self.known.high + 0.05:
            return ""
        return "above" if self.difference > 0 else "below"

    @property
    def parts(self) -> list[Part]:
        """The value, what was chosen, and what the paper has."""
        ours = self.known
        if ours is None:
            parts = [Part(DASH, why=self.missing)]
        else:
            ends = f"[{percent(ours.low)}, {percent(ours.high)}]"
            parts = [Part(ends, value=percent(ours.value), detail=self.which)]
        if self.chosen is not None:
            parts.append(Part(f"chosen {percent(self.chosen)}", detail=self.chosen_which))
        if self.paper is not None:
            parts.append(self._beside(f"paper {self.paper:.1f}"))
        return parts

    def _beside(self, paper: str) -> Part:
        if self.difference is None:
            return Part(paper)
        difference = points(self.difference / 100)
        if self.side:
            return Part(f"{paper},", change=f"{difference} {MARKS[self.side]}")
        return Part(f"{paper}, {difference}")


@dataclass(frozen=True)
class Picture:
    """A figure: the name of its files, what draws it to a path, and what is to be seen."""

    name: str
    draw: Callable[[Path], None]
    caption: str


@dataclass(frozen=True)
class Shown:
    """All that an item has to show."""

    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
