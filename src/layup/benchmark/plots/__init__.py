"""Numbers → pictures. Matplotlib is imported when the first one is drawn.

`runs` draws what was learned, `confusion` and `contact_sheet` what is wrong, `explanation` why a photo gets
its label, `speed` what was timed; `canvas` is what they share, also with the figures of the paper
(`layup.reproduction.drawings`).
"""

from __future__ import annotations

from layup.benchmark.plots.canvas import BETTER, INK, MARKERS, SAFE_COLOURS, WORSE, require_ending
from layup.benchmark.plots.confusion import confusion_matrix
from layup.benchmark.plots.contact_sheet import SUSPECT, WORST, contact_sheet
from layup.benchmark.plots.explanation import explanation
from layup.benchmark.plots.runs import (
    curves,
    first_session,
    lines,
    over_tasks,
    over_tasks_grid,
    per_class_change,
)
from layup.benchmark.plots.speed import Trend, growth, speedups

__all__ = [
    "BETTER",
    "INK",
    "MARKERS",
    "SAFE_COLOURS",
    "SUSPECT",
    "WORSE",
    "WORST",
    "Trend",
    "confusion_matrix",
    "contact_sheet",
    "curves",
    "explanation",
    "first_session",
    "growth",
    "lines",
    "over_tasks",
    "over_tasks_grid",
    "per_class_change",
    "require_ending",
    "speedups",
]
