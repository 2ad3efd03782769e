"""The application itself: its help, and how every foreseen failure ends."""

from __future__ import annotations

import io
import logging
import sys
from typing import Annotated

import typer

from layup import __version__
from layup.cli import console
from layup.errors import LayupError


def _version(asked: bool) -> None:
    if asked:
        console.say(f"layup {__version__}")
        raise typer.Exit


INTERRUPTED = 130

app = typer.Typer(
    name="layup",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""
    Teach a frozen pre-trained model new classes for ever: no forgetting, no training, no stored images.

    [bold]Start here[/]

    layup demo                               see it work, offline, in a minute
    layup learn photos/ --to m.layup         photos/CLASS/*.jpg
    layup learn more-photos/ --to m.layup    new classes, or more of the old
    layup predict m.layup holiday/           what is on these?
    """,
)


@app.callback()
def layup(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Only for the options; the text of the help is given above."""


def main() -> None:
    """Run a command; every foreseen failure is a sentence and a non-zero exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without λ shows a question mark
    logging.lastResort = console.Remarks(logging.WARNING)
    # Commands report what was skipped themselves.
    logging.getLogger("layup.model.image_model").setLevel(logging.ERROR)
    try:
        app()
    except LayupError as error:
        console.fail(str(error))
        sys.exit(1)
    except OSError as error:
        console.fail(f"{error.strerror or error}: {error.filename or 'a file or pipe'}")
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        console.fail(
            "There is not enough memory. Use a smaller k or input size, or fewer photos in a lesson."
        )
        sys.exit(1)
    except SystemExit as done:
        if done.code == INTERRUPTED:
            console.fail("Interrupted. What was saved before is unchanged.")
        raise
