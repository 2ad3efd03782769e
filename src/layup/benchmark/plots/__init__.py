"""Numbers → pictures. Matplotlib is imported when the first one is drawn.

`runs` draws what was learned, `speed` what was timed, and `paper` the figures of the paper; `canvas` is what
they share.
"""

from __future__ import annotations

from layup.benchmark.plots.canvas import BETTER, INK, MARKERS, SAFE_COLOURS, WORSE, require_ending
from layup.benchmark.plots.paper import (
    Point,
    Shares,
    against_measures,
    class_shares,
    compared_bars,
    depths,
    over_tasks_grid,
    per_layer,
)
from layup.benchmark.plots.runs import (
    confusion_matrix,
    curves,
    first_session,
    lines,
    over_tasks,
    per_class_change,
)
from layup.benchmark.plots.speed import Trend, growth, speedups

__all__ = [
    "BETTER",
    "INK",
    "MARKERS",
    "SAFE_COLOURS",
    "WORSE",
    "Point",
    "Shares",
    "Trend",
    "against_measures",
    "class_shares",
    "compared_bars",
    "confusion_matrix",
    "curves",
    "depths",
    "first_session",
    "growth",
    "lines",
    "over_tasks",
    "over_tasks_grid",
    "per_class_change",
    "per_layer",
    "require_ending",
    "speedups",
]
