"""Commands of layup, run in this process as the installed script would."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from layup.cli import main
from layup.errors import LayupError
from torture.promise import BrokenError


class RefusedError(LayupError):
    """The command ended with a sentence and exit code 1."""


def run(*arguments: object) -> str:
    """What a command prints; `RefusedError` with its sentence if it could not do it."""
    words = [str(argument) for argument in arguments]
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    try:
        with _given(words), redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        code = end.code or 0
    said = err.getvalue().strip()
    if code == 0 and "Traceback" not in said:
        return out.getvalue()
    last = said.splitlines()[-1] if said else ""
    if code == 1 and last.startswith("Error: ") and said.count("Error: ") == 1:
        raise RefusedError(last.removeprefix("Error: "))
    raise BrokenError(f"`layup {words[0]}` ended with {code} and not with a sentence", said[-250:])


@contextmanager
def _given(words: list[str]) -> Iterator[None]:
    """The words that somebody typed."""
    before = sys.argv
    sys.argv = ["layup", *words]
    try:
        yield
    finally:
        sys.argv = before
