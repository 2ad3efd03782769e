"""A model that threads use together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from layup.algebra import Expected
from layup.errors import InputError, ReadOnlyError
from layup.model import (
    BatchReport,
    Entry,
    Explanation,
    ImageModel,
    Outcome,
    PhotoOutcome,
    Suggestions,
    load,
)
from layup.serving.snapshot import Answer, Facts


class LiveModel:
    """A model that threads use together: `with LiveModel.open(path) as live:`.

    Images are contents of files. One that cannot be used fails alone. With a `key`, the same request again
    gets the first outcome, and changes nothing.
    """

    def __init__(self, model: ImageModel, path: Path | None, *, read_only: bool) -> None:
        self._model = model
        self._path = path
        self._read_only = read_only
        self._version = 0
        self._answers: dict[str, Outcome] = {}
        self._lock = threading.RLock()

    @classmethod
    def open(
        cls,
        path: Path | None,
        *,
        new: Callable[[], ImageModel] | None = None,
        follow: bool = False,
        loading: Mapping[str, Any] | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> Self:
        """The model in a file, which this process then owns; or a new one, which is saved at once.

        path: None for a model in memory alone.
        new: makes the model if there is no file yet.
        follow: only read, and follow what another process teaches the model in this file.
        loading: options of `layup.load`, such as `cache` and `weights`.
        on_wait: is told who holds the file, if another process does.
        """
        if path is not None and path.exists():
            return cls(load(path, **(loading or {})), path, read_only=follow)
        if new is None or follow:
            raise InputError(f"There is no model '{path}'. Name one, or let a new one be made.")
        model = new()
        if path is not None:
            model.save(path)
        return cls(model, path, read_only=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what was accepted, and save it."""

    # ---- asking

    def predict(self, images: Sequence[bytes]) -> Answer:
        """What the model says of photos; an `InputError` if it knows no class."""
        with self._lock:
            found = self._model.predictions(images)
            return Answer(self._version, found, self._ids(images), self._model.learned_as(images))

    def explain(self, image: bytes, heat: bool = True) -> Explanation:
        """Why a photo gets its label."""
        with self._lock:
            return self._model.explain(image, heat=heat)

    def suggest(self, images: Sequence[bytes], count: int = 20) -> Suggestions:
        """Which photos to label next."""
        with self._lock:
            return self._model.suggest(images, count)

    def expect(self) -> Expected | None:
        """The accuracy to expect, of the present version."""
        with self._lock:
            return self._model.expect()

    def facts(self) -> Facts:
        """What there is to know about it without asking its network."""
        with self._lock:
            model = self._model
            identity = model.network.identity
            return Facts(
                self._version,
                model.counts_,
                identity.name,
                identity.fingerprint,
                model.state_hash,
                expected=None,
                right={},
                waiting=0,
                read_only=self._read_only,
                remembers=True,
                anonymous=model.photos is None,
                saved=self._path is not None,
                failed=None,
            )

    def log(self) -> list[Entry]:
        """What was done to it, the oldest first."""
        return list(self._model.log)

    def save_to(self, path: Path) -> None:
        """Write the whole model, as it is now, to another file."""
        with self._lock:
            self._model.save(path)

    # ---- changing

    def teach(
        self, images: Sequence[bytes], labels: Sequence[str], *, relabel: bool = False, key: str | None = None
    ) -> Outcome:
        """Learn photos. With `relabel`, photos that are known as another class are moved."""

        def learn() -> Outcome:
            before = self._model.learned_as(images)
            report = self._model.learn(images, labels, relabel=relabel)
            return self._outcome(report, self._told(images, labels, before, report, relabel))

        return self._changed(key, learn)

    def forget(self, images: Sequence[bytes], *, key: str | None = None) -> Outcome:
        """Un-learn photos that are given."""
        return self._changed(key, lambda: self._outcome(self._model.forget(images)))

    def forget_ids(self, ids: Sequence[str], *, key: str | None = None) -> Outcome:
        """Un-learn photos by their ids; their features come from the cache."""
        raise InputError("Photos cannot be forgotten by their ids yet. Give the photos.")

    def forget_class(self, label: str, *, key: str | None = None) -> Outcome:
        """Un-learn a class."""
        return self._changed(key, lambda: self._outcome(self._model.forget_class(label)))

    def rename(self, old: str, new: str, *, key: str | None = None) -> Outcome:
        """Give a class another name; if that is the name of another class, the two become one."""

        def rename() -> Outcome:
            self._model.rename(old, new)
            return self._outcome(BatchReport())

        return self._changed(key, rename)

    def undo(self, *, key: str | None = None) -> Outcome:
        """Take the last lesson back."""
        return self._changed(key, lambda: self._outcome(self._model.undo()))

    # ---- private

    def _changed(self, key: str | None, change: Callable[[], Outcome]) -> Outcome:
        if self._read_only:
            raise ReadOnlyError("This copy only follows another model. Teach that one.")
        with self._lock:
            if key is not None and key in self._answers:
                return self._answers[key]
            done = change()
            if self._path is not None:
                self._model.save(self._path)
            if key is not None:
                self._answers[key] = done
            return done

    def _outcome(self, report: BatchReport, photos: Sequence[PhotoOutcome] = ()) -> Outcome:
        self._version += 1
        return Outcome(
            self._version,
            self._model.counts_,
            report.learned,
            report.forgotten,
            report.moved,
            report.known,
            report.exact,
            tuple(photos),
        )

    def _told(
        self,
        images: Sequence[bytes],
        labels: Sequence[str],
        before: Sequence[tuple[str, ...]],
        report: BatchReport,
        relabel: bool,
    ) -> list[PhotoOutcome]:
        bad = {each.index: each.reason for each in report.bad}
        conflicts = {each.index for each in report.conflicts}
        now, ids = self._model.learned_as(images), self._ids(images)
        told = []
        for index, label in enumerate(labels):
            status: Any = "known" if label in before[index] else "moved" if before[index] else "learned"
            status = "conflict" if index in conflicts else "bad" if index in bad else status
            told.append(PhotoOutcome(ids[index], label, status, now[index], bad.get(index)))
        return told

    def _ids(self, images: Sequence[bytes]) -> list[str | None]:
        digests = self._model.photo_features.digests(images)
        return [None if digest is None else digest[:16].hex() for digest in digests]
