"""Entries of a log, as files have them, and which of them can be undone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from layup import schema
from layup.errors import InputError
from layup.model.log import ACTIONS, CANNOT_UNDO, ENTRY, Entry, filed, from_file, require_undoable

FULL = Entry(
    "sync",
    {"cat": 2},
    {"dog": 1},
    {"lambda": 0.1},
    {"accuracy": 0.9, "low": 0.8, "high": 1.0, "tested": 20, "needs_more": ["cat"]},
    "two cats",
)


@pytest.mark.parametrize("entry", [Entry("learn"), Entry("learn", {"cat": 1}), FULL])
def test_entries_are_plain_values_and_come_back(entry: Entry) -> None:
    values = json.loads(json.dumps(entry.to_dict()))
    schema.require(values, ENTRY, "entry")
    assert Entry.from_dict(values) == entry
    assert not [name for name, value in values.items() if value in ({}, None, "")]


@pytest.mark.parametrize(
    "changes",
    [
        {"action": "guess"},
        {"id": "x"},
        {"id": None},
        {"learned": {"cat": 0}},
        {"learned": {"cat": 1.5}},
        {"forgotten": [1]},
        {"date": ""},
        {"expected": {"accuracy": 1.5, "low": 0, "high": 1, "tested": 3, "needs_more": []}},
        {"expected": {"accuracy": 0.5}},
        {"surprise": 1},
    ],
)
def test_what_no_entry_can_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"entry"):
        schema.require({**FULL.to_dict(), **changes}, ENTRY, "entry")


def test_an_entry_has_an_id_and_a_date_of_its_own() -> None:
    one, other = Entry("learn"), Entry("learn")
    assert one.id != other.id
    assert abs((datetime.now(UTC) - datetime.fromisoformat(one.date)).total_seconds()) < 60


def test_only_what_learned_can_be_undone() -> None:
    learned = Entry("learn", {"cat": 1})
    for last in (learned, Entry("sync", {"cat": 1})):
        assert require_undoable([FULL, last]) is last
    with pytest.raises(InputError, match="nothing to undo"):
        require_undoable([])
    for action in CANNOT_UNDO:
        with pytest.raises(InputError, match=f"'{action}'. "):
            require_undoable([learned, Entry(action)])
    with pytest.raises(InputError, match="The last sync also forgot or moved 1 photos"):
        require_undoable([FULL])
    assert {*CANNOT_UNDO} <= {*ACTIONS}


def test_a_file_has_settings_only_where_they_change() -> None:
    first, second = {"kind": "ridge", "lam": 1.0}, {"kind": "ridge", "lam": "gcv"}
    log = [Entry("learn", settings=each) for each in (first, first, second, second, first)]
    assert [entry.get("settings") for entry in filed(log)] == [first, None, second, None, first]
    assert from_file(filed(log)) == log
    assert from_file(filed([])) == []
