"""Threads take turns: one call of an object's methods at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Turn:
    """A re-entrant lock. A copy of the object that holds it gets its own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()


class HasTurn(Protocol):
    """Something whose methods take turns."""

    turn: Turn


S = TypeVar("S", bound=HasTurn)


def in_turn(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """A method that waits until no other thread is in such a method of the same object.

    >>> class Counter:
    ...     def __init__(self):
    ...         self.turn, self.count = Turn(), 0
    ...
    ...     @in_turn
    ...     def add(self, more):
    ...         self.count += more
    >>> counter = Counter()
    >>> counter.add(2)
    >>> counter.count
    2
    """

    @wraps(method)
    def called(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.turn:
            return method(self, *args, **kwargs)

    return called


@contextmanager
def all_turns(*objects: HasTurn) -> Iterator[None]:
    """Keep other threads out of several objects; always in one order, so that there is no deadlock."""
    with ExitStack() as stack:
        for each in sorted(objects, key=id):
            stack.enter_context(each.turn)
        yield
