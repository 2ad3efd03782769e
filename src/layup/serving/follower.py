"""A copy of a model that another process teaches: it reads what is appended to the journal."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

from layup.errors import InputError, LayupError, MismatchError, ReadOnlyError
from layup.model import (
    Estimate,
    Filed,
    ImageModel,
    Knowledge,
    ModelFile,
    Outcome,
    beside,
    read_model,
    read_records,
    replay,
)
from layup.serving.snapshot import Snapshot
from layup.serving.writer import Drafted, noted

logger = logging.getLogger(__name__)

SECONDS = 0.2
"""Between two looks at the files."""


@dataclass(frozen=True)
class State:
    """What tells whether a file has changed."""

    file: int
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """The file at this path now; None if there is none."""
        try:
            found = path.stat()
        except OSError:
            return None
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


States: TypeAlias = tuple[State | None, State | None]


class Follower:
    """Stands where a `Writer` stands, and changes nothing but itself.

    Args:
        path: the model file.
        loading: options of `layup.load`.
        prepare: is given the model before it is first asked.
    """

    waiting = 0

    def __init__(self, path: Path, loading: Mapping[str, Any], prepare: Callable[[ImageModel], None]) -> None:
        if not path.exists():
            raise InputError(f"There is no model '{path}' to follow. Name the file that another server has.")
        self.failed: str | None = None
        self.published = threading.Event()
        self.snapshot: Snapshot
        self._seen: States
        self._filed: Filed | None
        self._path = path
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self.model = ImageModel.from_file(path, self._read(), **loading)
        self._knowledge = self.model.knowledge
        prepare(self.model)
        self._publish()
        self._thread = threading.Thread(target=self._run, name="layup follower", daemon=True)
        self._thread.start()

    def ask(self, draft: Drafted, key: str | None = None) -> Outcome:
        """Refuse."""
        raise ReadOnlyError("This copy only follows a model that another process teaches. Ask that one.")

    def judged(self, version: int, estimate: Estimate) -> None:
        """Note how good a version was found to be."""
        with self._lock:
            self.snapshot = noted(self.snapshot, version, estimate)

    def close(self) -> None:
        """Stop following."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(SECONDS):
            try:
                self._look()
                self.failed = None
            except Exception as error:  # it may be gone when all is read again
                self._seen = None, None
                if not isinstance(error, LayupError):
                    logger.exception("A change of the model could not be followed.")
                self.failed = f"This copy no longer follows its model: {error}"

    def _look(self) -> None:
        """Take over what has changed, if anything has."""
        now = _states(self._path)
        if now == self._seen:
            return
        if self._is_longer(now):
            self._go_on()
            self._seen = now
        else:
            self._take_anew()
        self._publish(self.snapshot)

    def _is_longer(self, now: States) -> bool:
        """Whether all that has changed is that the journal has grown."""
        (model, before), (same_model, after) = self._seen, now
        if self._filed is None or before is None or after is None or model != same_model:
            return False
        return before.file == after.file and after.size >= self._filed.end

    def _go_on(self) -> None:
        assert self._filed is not None
        filed = read_records(self._path, self._filed)
        replay(self._knowledge, filed.records)
        self._filed = filed

    def _take_anew(self) -> None:
        found = self._read()
        if found.header["backbone"]["fingerprint"] != self.model.network.identity.fingerprint:
            raise MismatchError(f"'{self._path}' is now a model of another network. Start the copy again.")
        self._knowledge = Knowledge.of_file(found.header, found.sums, found.photos, found.roots)

    def _read(self) -> ModelFile:
        """The model with all that its journal holds, and the states of both before."""
        self._seen = _states(self._path)
        found = read_model(self._path)
        self._filed = found.journal
        return found

    def _publish(self, before: Snapshot | None = None) -> None:
        version = 0 if self._filed is None else self._filed.last
        with self._lock:
            self.snapshot = Snapshot.of(version, self._knowledge, before)
        self.published.set()


def _states(path: Path) -> States:
    """Those of a model file and of its journal."""
    return State.of(path), State.of(beside(path))
