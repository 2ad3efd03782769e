"""The application itself: its help, and how every foreseen failure ends."""

from __future__ import annotations

import io
import logging
import sys
from functools import cache
from typing import Annotated, Any

import typer

from layup import __version__
from layup.cli import console
from layup.errors import LayupError


def _version(wanted: bool) -> None:
    if wanted:
        console.say(f"layup {__version__}")
        raise typer.Exit


INTERRUPTED = 130

RESEARCH = "Research: compare methods on datasets"
"""The heading of these commands in the help."""

app = typer.Typer(
    name="layup",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""
    Teach a pre-trained image network new classes: no forgetting, no training, no stored images.

    [bold]Start here[/]

    layup demo                           see it work, in about a minute
    layup learn photos/ --to m.layup     learn photos/CLASS/*.jpg into a model
    layup learn photos/ --to m.layup     next week: only what is new
    layup predict m.layup holiday/       what is in these photos?
    """,
)


@app.callback()
def layup(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Only for the options; the text of the help is given above."""


OPTIONS = {"adapter": "--adapt", "shuffled": "--shuffle"}
"""Options whose name is not that of the argument they set."""


def option_of(argument: str) -> str:
    """The option that sets an argument.

    >>> option_of("learning_rate"), option_of("adapter")
    ('--learning-rate', '--adapt')
    """
    return OPTIONS.get(argument, f"--{argument.replace('_', '-')}")


@cache
def built() -> Any:
    """All commands with their options, made once."""
    return typer.main.get_command(app)


def _hint(error: LayupError) -> str:
    """A sentence that names the option that an error is about, if this command has it."""
    command = built()
    for word in sys.argv[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    option = option_of(error.about or "")
    known = {each for parameter in command.params for each in parameter.opts}
    return f" The option is {option}." if option in known else ""


def main() -> None:
    """Run a command; every foreseen failure is a sentence and a non-zero exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without λ shows a question mark
    logging.lastResort = console.Remarks(logging.WARNING)
    # Commands report what was skipped themselves.
    logging.getLogger("layup.model.visits").setLevel(logging.ERROR)
    try:
        built()()
    except LayupError as error:
        console.fail(f"{error}{_hint(error)}")
        sys.exit(1)
    except OSError as error:
        console.fail(f"{error.strerror or error}: {error.filename or 'a file or pipe'}")
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        console.fail("There is not enough memory. Use a smaller k or input size, or fewer photos in a batch.")
        sys.exit(1)
    except SystemExit as done:
        if done.code == INTERRUPTED:
            console.fail("Interrupted. What was saved before is unchanged.")
        raise
