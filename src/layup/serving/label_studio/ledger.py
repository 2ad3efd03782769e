"""What Label Studio's annotations say of photos: kept, since a deletion there names only a number.

An SQLite file beside the model. Each change of it is durable before the model is changed, and says which
photos the model has yet to follow: what a crash leaves undone is known, and done later. Photos are encrypted
in it as in the model's file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layup.errors import InputError, StorageError
from layup.model import Pseudonyms

PRIVATE = 0o600
TABLES = """
    PRAGMA trusted_schema = OFF;
    CREATE TABLE IF NOT EXISTS studio (address TEXT NOT NULL, key TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS annotations (
        id INTEGER PRIMARY KEY, project INTEGER, task INTEGER, changed INTEGER, label TEXT, truth INTEGER,
        photo TEXT
    );
    CREATE INDEX IF NOT EXISTS by_photo ON annotations (photo);
    CREATE INDEX IF NOT EXISTS by_task ON annotations (project, task);
    CREATE TABLE IF NOT EXISTS unsettled (photo TEXT PRIMARY KEY);
"""
DELETED = 2**63 - 1
"""When a deleted annotation was changed: later than all else, so that an old message cannot bring it back."""


@dataclass(frozen=True)
class Statement:
    """What one annotation says: the label of a photo, if it names one."""

    annotation: int
    project: int
    task: int
    changed: int
    """Microseconds since 1970."""
    label: str | None = None
    truth: bool = False
    """Whether it is marked as ground truth."""
    photo: str | None = None


class Ledger:
    """The statements of all annotations, and the photos that the model has yet to follow.

    A photo has the label that most of its annotations name; of equally many, that of the one that was changed
    last. Once some are marked as ground truth, only these count. Not for several threads at once.

    Args:
        path: its file; None for one in memory.
        address: of the Label Studio that numbers the annotations; another one would number others.

    >>> ledger = Ledger(None)
    >>> ledger.note(Statement(1, project=1, task=1, changed=10, label="cat", photo="a1"))
    >>> ledger.note(Statement(2, project=1, task=1, changed=20, label="dog", photo="a1"))
    >>> ledger.label_of("a1")
    'dog'
    >>> ledger.delete([2])
    >>> ledger.label_of("a1"), ledger.unsettled()
    ('cat', ['a1'])
    """

    def __init__(self, path: Path | None, address: str = "") -> None:
        self.path = path
        with self._explained():
            if path is not None:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, PRIVATE))
            self._store = sqlite3.connect(path or ":memory:", check_same_thread=False)
        try:
            with self._explained():
                names = self._begin(address)
        except BaseException:
            self.close()
            raise
        self._store.create_function("hidden", 1, names.hidden, deterministic=True)
        self._store.create_function("shown", 1, names.shown, deterministic=True)

    def _begin(self, address: str) -> Pseudonyms:
        """Make the tables, if there are none; the names of photos in them."""
        self._store.executescript(TABLES)
        found = self._store.execute("SELECT address, key FROM studio").fetchone()
        if found is None:
            names = Pseudonyms.new(keep=self.path is not None)
            with self._store:
                self._store.execute("INSERT INTO studio VALUES (?, ?)", [address, names.key.id])
            return names
        if found[0] != address:
            raise InputError(
                f"{self.path} is about the annotations of the Label Studio at {found[0]}, not of that at "
                f"{address}. Use that address, or, if the project has moved, delete this file and press "
                "Start Training there."
            )
        if (known := Pseudonyms.of(found[1])) is None:
            raise InputError(
                f"The key of {self.path} is not among those of this user. Copy it here, or delete this file "
                "and press Start Training in Label Studio."
            )
        return known

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    # ---- what annotations say

    def is_news(self, annotation: int, changed: int) -> bool:
        """Whether what it said at this time is not known yet, or the model has yet to follow it."""
        known = self._rows(
            "SELECT annotations.changed, unsettled.photo FROM annotations LEFT JOIN unsettled USING (photo) "
            "WHERE id = ?",
            annotation,
        )
        return not known or changed > known[0][0] or (changed == known[0][0] and known[0][1] is not None)

    def note(self, statement: Statement) -> None:
        """Keep what an annotation says now; an older message than what is known changes nothing."""
        known = self._rows("SELECT changed, shown(photo) FROM annotations WHERE id = ?", statement.annotation)
        if not known or known[0][0] <= statement.changed:
            with self._unsettling({statement.photo, *(photo for _, photo in known)}) as store:
                store.execute(
                    "REPLACE INTO annotations VALUES (?, ?, ?, ?, ?, ?, hidden(?))",
                    [*vars(statement).values()],
                )

    def delete(self, annotations: Iterable[int]) -> None:
        """These annotations are gone. That is kept too: an old message shall not bring them back."""
        numbers = [[each, DELETED] for each in annotations]
        found = (self._rows("SELECT shown(photo) FROM annotations WHERE id = ?", each) for each, _ in numbers)
        with self._unsettling({photo for rows in found for (photo,) in rows}) as store:
            store.executemany(
                "INSERT INTO annotations (id, changed, truth) VALUES (?1, ?2, 0) "
                "ON CONFLICT (id) DO UPDATE SET changed = ?2, label = NULL",
                numbers,
            )

    def annotations_of(self, project: int, tasks: Iterable[int] | None = None) -> set[int]:
        """The annotations of a project that are there, or only those of some of its tasks."""
        there = "SELECT id FROM annotations WHERE project = ? AND changed < ?"
        if tasks is None:
            return {each for (each,) in self._rows(there, project, DELETED)}
        rows = (self._rows(f"{there} AND task = ?", project, DELETED, task) for task in tasks)
        return {each for found in rows for (each,) in found}

    # ---- photos

    def label_of(self, photo: str) -> str | None:
        """What the annotations of a photo say together; None if none of them names a class."""
        found = self._rows(
            "SELECT label FROM annotations WHERE photo = hidden(?1) AND label IS NOT NULL AND truth = "
            "(SELECT MAX(truth) FROM annotations WHERE photo = hidden(?1) AND label IS NOT NULL) "
            "GROUP BY label ORDER BY COUNT(*) DESC, MAX(changed) DESC, label LIMIT 1",
            photo,
        )
        return found[0][0] if found else None

    def task_of(self, photo: str) -> int:
        """A task with this photo, which an annotation named."""
        ((task,),) = self._rows(
            "SELECT task FROM annotations WHERE photo = hidden(?) ORDER BY id DESC LIMIT 1", photo
        )
        return int(task)

    def unsettled(self) -> list[str]:
        """The photos that the model has yet to follow, the last one first."""
        return [photo for (photo,) in self._rows("SELECT shown(photo) FROM unsettled ORDER BY rowid DESC")]

    def settle(self, photos: Iterable[str]) -> None:
        """The model has followed."""
        with self._changing() as store:
            store.executemany("DELETE FROM unsettled WHERE photo = hidden(?)", [[photo] for photo in photos])

    # ---- the rest is private

    @contextlib.contextmanager
    def _unsettling(self, photos: set[str | None]) -> Iterator[sqlite3.Connection]:
        """A change, after which the model has yet to follow those of these photos whose label is another."""
        before = {photo: self.label_of(photo) for photo in photos if photo is not None}
        with self._changing() as store:
            yield store
            rows = [[photo] for photo, label in before.items() if self.label_of(photo) != label]
            store.executemany("REPLACE INTO unsettled VALUES (hidden(?))", rows)

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._explained():
            return self._store.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """All of what is inside, or nothing, and on the disk."""
        with self._explained(), self._store as store:
            yield store

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StorageError(
                f"The annotations of Label Studio cannot be kept in {self.path or 'memory'}: {error}. "
                "Make room, or, if the file is damaged, delete it and press Start Training in Label Studio."
            ) from error
