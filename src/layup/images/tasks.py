"""What an export of a labelling tool says of one photo, and how such a file is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from layup.errors import InputError
from layup.formats import brief, size_of
from layup.images.manifests import spelled

LARGEST = 500_000_000
"""Bytes of a file: several times as many are taken in memory."""


@dataclass
class Task:
    """A photo, and what was said of it: each answer is whether it is ground truth, when, and the class."""

    number: int
    file: str
    answers: list[tuple[bool, str, str]] = field(default_factory=list)

    @property
    def label(self) -> str | None:
        """The class that most say; of equally many, the one that was said last. Ground truth goes first.

        >>> Task(1, "1.jpg", [(False, "2024", "cat"), (False, "2025", "dog")]).label
        'dog'
        """
        able = [each for each in self.answers if each[0]] or self.answers
        votes = [label for _, _, label in able]
        latest = max(able, key=lambda each: (votes.count(each[2]), each[1]), default=None)
        return None if latest is None else latest[2]


def read_json(path: Path) -> Any:
    """The value in a JSON file, or the error that says what is wrong with it."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise InputError(
                f"{str(path)!r} has {size_of(size)}, and at most {size_of(LARGEST)} of JSON are read. Make a "
                "list of CSV or JSON lines of it, which is read in parts."
            )
        return json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is not JSON ({brief(str(error))}).") from error


def refuse(path: Path, number: int, reason: str) -> NoReturn:
    """Raise the error for an item of an export."""
    raise InputError(f"{str(path)!r}, item {number:,}: {reason}.")


def text_of(path: Path, number: int, what: str, value: object) -> str:
    """A value that must be text."""
    if not isinstance(value, str) or not value:
        refuse(path, number, f"{what} is {brief(repr(value))}, but must be text")
    return value


def column_of(path: Path, able: Sequence[str], wanted: str | None, usual: Sequence[str], what: str) -> str:
    """The name that is wanted, or usual, or the only one."""
    names = {spelled(name): name for name in able}
    if wanted is not None:
        if spelled(wanted) not in names:
            raise InputError(
                f"{str(path)!r} has no {what} {wanted!r}, only: {brief(', '.join(able)) or 'none'}. "
                "Name one of these."
            )
        return names[spelled(wanted)]
    for name in usual:
        if name in names:
            return names[name]
    if not able:
        raise InputError(f"{str(path)!r} has no {what}. Label some photos, and export them again.")
    if len(able) > 1:
        raise InputError(
            f"{str(path)!r}: which {what} is meant? It could be {brief(' or '.join(able))}. "
            "Say so by its name.",
            about="label",
        )
    return able[0]
