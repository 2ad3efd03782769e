"""What was done to a model: one entry per batch that was learned or forgotten, per merge and per rename."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self

from layup import schema
from layup.errors import InputError
from layup.schema import AMOUNT, HASH, TEXT, Shape, fields_of, whole

ACTIONS = ("learn", "forget", "sync", "merge", "rename")
SHARE = schema.Rule("a number from 0 to 1", lambda value: AMOUNT.holds(value) and value <= 1)
EXPECTED: Shape = {
    "accuracy": SHARE,
    "low": SHARE,
    "high": SHARE,
    "tested": whole(1),
    "needs_more": schema.listed(schema.LABEL),
}
ENTRY: Shape = {
    "id": HASH,
    "action": schema.one_of(*ACTIONS),
    "date?": schema.NAME,
    "learned?": fields_of(whole(1)),
    "forgotten?": fields_of(whole(1)),
    "settings?": schema.FIELDS,
    "chosen?": schema.FIELDS,
    "expected?": EXPECTED,
    "note?": TEXT,
}


def now() -> str:
    """The date of an entry."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Entry:
    """Something that was done to a model, and how it was afterwards.

    The id is random, and stays the same in copies: models that share it share what was done.

    >>> entry = Entry("learn", {"cat": 2}, date="2026-11-17T12:00:00+00:00", id="0" * 32)
    >>> Entry.from_dict(entry.to_dict()) == entry
    True
    """

    action: str
    learned: Mapping[str, int] = field(default_factory=dict)
    forgotten: Mapping[str, int] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """What the classifier had chosen by then, such as its λ."""
    expected: Mapping[str, Any] | None = None
    """The accuracy to expect, with its interval, on how many photos, and the classes that need more."""
    note: str = ""
    settings: Mapping[str, Any] | None = None
    """The classifier's kind and parameters by then."""
    date: str = field(default_factory=now)
    """In UTC; empty in runs that can be repeated."""
    id: str = field(default_factory=lambda: secrets.token_hex(16))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without what is empty."""
        values = {
            "id": self.id,
            "action": self.action,
            "date": self.date,
            "learned": dict(self.learned),
            "forgotten": dict(self.forgotten),
            "settings": None if self.settings is None else dict(self.settings),
            "chosen": dict(self.chosen),
            "expected": None if self.expected is None else dict(self.expected),
            "note": self.note,
        }
        return {name: value for name, value in values.items() if value not in ({}, None, "")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**{"date": "", **values})


def filed(log: Sequence[Entry]) -> list[dict[str, Any]]:
    """The entries as a file has them: with settings only where these change."""
    found, before = [], None
    for entry in log:
        changed = entry.settings != before
        found.append((entry if changed else replace(entry, settings=None)).to_dict())
        before = entry.settings
    return found


def from_file(values: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """The inverse of `filed`."""
    log: list[Entry] = []
    for each in values:
        before = log[-1].settings if log else None
        log.append(Entry.from_dict({"settings": before, **each}))
    return log


def last_expected(log: Sequence[Entry]) -> Mapping[str, Any] | None:
    """The accuracy to expect, if it was estimated after the last change."""
    return log[-1].expected if log else None


def with_new_name(expected: Mapping[str, Any] | None, old: str, new: str) -> Mapping[str, Any] | None:
    """The accuracy to expect after a class was only renamed."""
    if expected is None:
        return None
    needing = [new if label == old else label for label in expected["needs_more"]]
    return {**expected, "needs_more": needing}


CANNOT_UNDO = {
    "forget": "What was forgotten cannot be brought back: learn it again.",
    "merge": "A merge cannot be undone: the models that were merged are still in their files.",
    "rename": "Rename the class back instead; but two classes that became one cannot be told apart again.",
}


def require_undoable(log: Sequence[Entry]) -> Entry:
    """The last entry; refuse one that did anything but learn."""
    if not log:
        raise InputError("There is nothing to undo: this model has learned nothing.")
    last = log[-1]
    if last.action in CANNOT_UNDO:
        raise InputError(f"The last thing that was done is '{last.action}'. {CANNOT_UNDO[last.action]}")
    if last.forgotten:
        raise InputError(
            f"The last {last.action} also forgot or moved {sum(last.forgotten.values()):,} photos: how they "
            "were before is not kept, so it cannot be undone."
        )
    return last
