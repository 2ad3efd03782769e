"""Progress bars on standard error, where somebody is looking."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def progress_bar(show: bool | None, unit: str = "") -> Progress:
    """A bar that is gone when done; by default shown only on a terminal. Every task needs a `note`."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    shown = sys.stderr.isatty() if show is None else show
    return Progress(*columns, console=Console(stderr=True), disable=not shown, transient=True)
