"""A promise, the tries that could show it broken, and what a checker says if one does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from layup.errors import LayupError
from layup.formats import has_controls
from layup.seeds import seed_of

T = TypeVar("T")

LONGEST = 2000
"""Characters of an error that can still be read as a sentence."""


class BrokenError(AssertionError):
    """A promise was not kept: in which way, the same for all failures of one cause, and with what."""

    def __init__(self, way: str, value: object = None) -> None:
        super().__init__(way if value is None else f"{way}: {value!r:.300}")
        self.way = way


@dataclass(frozen=True)
class Tries:
    """What can be tried: `attempt(index, chance, folder)` raises whatever shows the promise to be broken.

    `every` is how many tries it takes to go through each step once; those after them are random.
    """

    attempt: Callable[[int, Random, Path], None]
    every: int = 0


@dataclass(frozen=True)
class Promise:
    """What layup promises, and how it is tried.

    Attributes:
        name: By which it is called on the command line.
        says: The promise in plain words.
        tries: How many tries there are by default; never fewer than its `Tries.every`.
        prepare: Makes, once and in a folder that stays, what all tries share.
        seconds: After which a try counts as hung.
        megabytes: More memory than so much is a failure.
    """

    name: str
    says: str
    tries: int
    prepare: Callable[[Path], Tries]
    seconds: float = 30
    megabytes: int = 300


def chance_of(seed: int, promise: str, index: int) -> Random:
    """All that is random in one try follows from these three, so that it can be repeated alone.

    >>> chance_of(7, "mutations", 4711).random() == chance_of(7, "mutations", 4711).random()
    True
    """
    return Random(seed_of(seed, promise, index))


def mixed(cases: Iterable[T]) -> list[T]:
    """All cases, in an order that is always the same but mixed, so that the first few are some of each.

    >>> mixed("abcdef") == mixed("abcdef") != list("abcdef")
    True
    """
    listed = list(cases)
    Random(len(listed)).shuffle(listed)
    return listed


def require(kept: bool, otherwise: str, value: object = None) -> None:
    """Say that a promise is broken, in which way and with which value, unless this holds."""
    if not kept:
        raise BrokenError(otherwise, value)


def require_sentence(error: LayupError) -> None:
    """An error is something to show to a person: one line that can be printed, and not without end."""
    text = str(error)
    name = type(error).__name__
    require(bool(text.strip()), f"{name} says nothing")
    require(not has_controls(text), f"{name} is not one line of printable text", text)
    require(len(text) <= LONGEST, f"{name} takes more than {LONGEST:,} characters", text)


tried: list[str] = []
"""What was last said to be tried, for what is only found out afterwards, such as the peak of memory."""


@contextmanager
def about(what: str) -> Iterator[None]:
    """Whatever goes wrong inside says what was tried."""
    tried[:] = [what]
    try:
        yield
    except BaseException as error:
        error.add_note(what)
        raise
