"""Progress bars on standard error, where somebody is looking."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

screen = Console(stderr=True, highlight=False)
"""Shared by all that moves: bars and tables that are shown at the same time make room for each other."""


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
    shown = screen.is_terminal if show is None else show
    return Progress(*columns, console=screen, disable=not shown, transient=True)
