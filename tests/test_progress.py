"""Bars are shown on a terminal, and nowhere else."""

from __future__ import annotations

import sys

import pytest
from rich.console import Console

from layup import progress
from layup.progress import progress_bar


@pytest.fixture
def shown(capsys, monkeypatch):
    """What standard error gets to see."""
    monkeypatch.setenv("TERM", "xterm")

    def show(show, *, terminal):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
        monkeypatch.setattr(progress, "screen", Console(stderr=True, width=100))
        with progress_bar(show, "epochs") as bar:
            task = bar.add_task("Adapting", total=20, note="")
            bar.update(task, completed=3, note="loss 0.123")
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return show


@pytest.mark.parametrize("show", [None, True])
def test_a_terminal_sees_how_far_and_how_it_goes(shown, show):
    seen = shown(show, terminal=True)
    for part in ("Adapting", "3/20", "epochs", "loss 0.123"):
        assert part in seen
    assert seen.endswith("\x1b[2K")  # gone when done


def test_nobody_is_shown_what_they_do_not_want(shown):
    assert shown(False, terminal=True) == ""


@pytest.mark.parametrize("show", [None, False])
def test_a_file_gets_no_bar(shown, show):
    assert shown(show, terminal=False) == ""
