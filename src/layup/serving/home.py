"""Where a live model is kept: in a file that this process holds, with a journal beside it; or nowhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from layup import storage
from layup.errors import InputError
from layup.model import (
    Answered,
    Filed,
    ImageModel,
    Journal,
    KnownPhotos,
    Record,
    answers_of,
    begin_journal,
    mark_of,
    read_journal,
    require_no_graph,
)

LEAST = 1_000_000
"""Bytes that a journal may always have, however small its model is."""


class Nowhere:
    """For a model that is kept in memory alone."""

    last = 0
    answers: Sequence[Answered] = ()

    def __init__(self, new: Callable[[], ImageModel]) -> None:
        self._new = new

    def open(self) -> ImageModel:
        """The model."""
        return self._new()

    def append(self, records: Sequence[Record], photos: KnownPhotos | None) -> None:
        """Nothing is kept."""

    def is_full(self) -> bool:
        """Nothing has to be taken up."""
        return False

    def take_up(self, model: ImageModel) -> None:
        """What the model has forgotten is no longer cached."""
        model.photo_features.saved(model.photos)

    def close(self) -> None:
        """Nothing is held."""


class Home:
    """A model file, its lock and its journal. All of it is used by one thread, which has the lock.

    last: the number of the last record. answers: what recent requests with a key were answered.
    """

    def __init__(
        self,
        path: Path,
        new: Callable[[], ImageModel] | None,
        loading: Mapping[str, Any],
        on_wait: Callable[[str], None] | None,
    ) -> None:
        self.path = path
        self.last = 0
        self.answers: Sequence[Answered] = ()
        self._new = new
        self._loading = loading
        self._on_wait = on_wait
        self._held = ExitStack()
        self._journal: Journal | None = None

    def open(self) -> ImageModel:
        """Take the lock, and read or make the model, which the file then holds whole."""
        if self._new is None and not self.path.exists():  # before a lock is left beside a misspelt name
            raise missing(self.path)
        require_no_graph(self.path)
        storage.require_writable(self.path)
        self._held.enter_context(storage.locked(self.path, on_wait=self._on_wait))
        if self._new is None or self.path.exists():
            model = ImageModel.load(self.path, **self._loading)
        else:
            model = self._new()
            model.save(self.path)
        self._begin(model)
        return model

    def append(self, records: Sequence[Record], photos: KnownPhotos | None) -> None:
        """Keep what was done; it is on the disk when this returns."""
        assert self._journal is not None
        self._journal.append(records, photos)

    def is_full(self) -> bool:
        """Whether the journal is larger than the model."""
        assert self._journal is not None
        return self._journal.size > self._room

    def take_up(self, model: ImageModel) -> None:
        """Write the model whole, and begin the journal again."""
        assert self._journal is not None
        try:
            model.save(self.path)
        finally:  # whatever has failed, the journal may be another file now
            self._journal.close()
            self._reopen()

    def close(self) -> None:
        """Let go of the file."""
        if self._journal is not None:
            self._journal.close()
        self._held.close()

    def _begin(self, model: ImageModel) -> None:
        """Have the file name the journal beside it, and hold all that was in it."""
        filed = read_journal(self.path)
        if filed is None:
            begin_journal(self.path)
        else:
            _forget_again(model, filed)
        if filed is None or filed.records or mark_of(self.path) != filed.mark:
            model.save(self.path)
        self._reopen()

    def _reopen(self) -> None:
        filed = read_journal(self.path)
        assert filed is not None
        self._journal = Journal(self.path, filed)
        self._room = max(self.path.stat().st_size, LEAST)
        self.last, self.answers = filed.last, answers_of(filed)


def _forget_again(model: ImageModel, filed: Filed) -> None:
    """What a killed process had forgotten may still be cached."""
    lessons = [record.lesson for record in filed.records if record.lesson is not None]
    digests = [
        digest for each in lessons if each.action in ("forget", "drop") for digest in each.gone.digests
    ]
    model.photo_features.delete(model.photo_features.whole_digests(digests), model.photos)


def missing(path: Path | None) -> InputError:
    """The error where a model should be and is not."""
    return InputError(f"There is no model '{path}'. Name a file that is there, or let a new model be made.")
