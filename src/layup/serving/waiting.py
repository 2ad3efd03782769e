"""Waiting for what another thread does, but not without end."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import TypeVar

from layup.errors import BusyError, LayupError

T = TypeVar("T")


def awaited(done: Future[T], patience: float, what: str) -> T:
    """The result of another thread's work. What was not begun in time is not done.

    >>> finished = Future()
    >>> finished.set_result(3)
    >>> awaited(finished, 1.0, "Counting")
    3
    """
    try:
        return done.result(patience)
    except TimeoutError:
        if done.done():  # the work itself has timed out
            raise
        undone = done.cancel()
        rest = "It was not begun." if undone else "It may still be done: ask again with the same key."
        raise BusyError(f"{what} takes longer than {patience:g} s. {rest}") from None
    except CancelledError:
        raise LayupError(f"{what} was given up, since the server is ending.") from None
