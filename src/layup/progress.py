"""Progress bars on standard error, if it is a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from layup.formats import printable

screen = Console(stderr=True, highlight=False)
"""Shared by all live displays, so that bars and tables shown at the same time do not overlap."""


def shown(text: str, style: str = "") -> Text:
    """A text for a screen, printed literally: neither the terminal nor rich finds a command in it.

    >>> shown("[red] :cat: \\x1b[2J").plain
    '[red] :cat: \\\\x1b[2J'
    """
    return Text(printable(text), style=style)


class _Words(TextColumn):
    """A formatted text of a task."""

    def render(self, task: Task) -> Text:
        """The text of a task, printed literally."""
        return shown(self.text_format.format(task=task), style="none")


def progress_bar(show: bool | None, unit: str = "") -> Progress:
    """A bar that disappears when done; by default shown only on a terminal. Every task needs a `note`."""
    columns = (
        _Words("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Words(unit),
        TimeRemainingColumn(),
        _Words("{task.fields[note]}"),
    )
    visible = screen.is_terminal if show is None else show
    return Progress(*columns, console=screen, disable=not visible, transient=True)
