"""The one thread that changes a live model: lessons in their order, kept before they are acknowledged."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from layup.errors import BusyError, LayupError, StorageError
from layup.model import (
    MOST_ANSWERS,
    Answered,
    Draft,
    Estimate,
    ImageModel,
    Knowledge,
    Outcome,
    Record,
    recent_answers,
)
from layup.serving.home import Home, Nowhere
from layup.serving.snapshot import Snapshot
from layup.serving.waiting import awaited

logger = logging.getLogger(__name__)

Drafted = Callable[[Knowledge], Draft]
"""Works out a lesson for what the model knows when its turn comes."""


@dataclass
class _Request:
    draft: Drafted
    key: str | None
    done: Future[Outcome] = field(default_factory=Future)


class Writer:
    """Applies what others ask for. All that waits is kept by one flush of the disk, and solved once.

    Args:
        home: where the model is kept.
        prepare: is given the model before its first lesson.
        most: lessons that may wait; others get a `BusyError`.
        patience: seconds after which a caller gets that error as well.
    """

    def __init__(
        self,
        home: Home | Nowhere,
        prepare: Callable[[ImageModel], None],
        *,
        most: int = 256,
        patience: float = 60.0,
    ) -> None:
        self.failed: str | None = None
        self.model: ImageModel
        self.snapshot: Snapshot
        self.published = threading.Event()
        self._home = home
        self._most = most
        self._patience = patience
        self._requests: deque[_Request] = deque()
        self._judged: tuple[int, Estimate] | None = None
        self._changed = threading.Condition()
        self._open = True
        self._unsaved = self._forgot = False
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(prepare, started), name="layup writer", daemon=True
        )
        self._thread.start()
        started.result()

    @property
    def waiting(self) -> int:
        """How many lessons wait."""
        return len(self._requests)

    def ask(self, draft: Drafted, key: str | None = None) -> Outcome:
        """Have a lesson done; what it did. With a key that was used before: what it did then."""
        request = _Request(draft, key)
        with self._changed:
            self._require_open()
            if len(self._requests) >= self._most:
                raise BusyError(f"{self._most:,} lessons are waiting already. Ask again in a moment.")
            self._requests.append(request)
            self._changed.notify_all()
        return awaited(request.done, self._patience, "This lesson")

    def judged(self, version: int, estimate: Estimate) -> None:
        """Note how good a version was found to be."""
        with self._changed:
            self._judged = version, estimate
            self._changed.notify_all()

    def close(self) -> None:
        """End when all that was accepted is done, and the model is written whole."""
        with self._changed:
            self._open = False
            self._changed.notify_all()
        self._thread.join()

    def _require_open(self) -> None:
        if self.failed is not None or not self._open:
            raise LayupError(self.failed or "The server is ending: it takes no more lessons.")

    # ---- in the thread

    def _run(self, prepare: Callable[[ImageModel], None], started: Future[None]) -> None:
        try:
            self.model = self._home.open()
            prepare(self.model)
            self._version, self._knowledge = self._home.last, self.model.knowledge
            self._answers = {each.key: each for each in self._home.answers}
            self.snapshot = Snapshot.of(self._version, self._knowledge)
            self.published.set()
            started.set_result(None)
            self._work()
        except BaseException as error:
            if started.done():
                self._fail(error)
            else:
                started.set_exception(error)
        finally:
            with suppress(Exception):
                self._home.close()

    def _work(self) -> None:
        while (requests := self._next()) is not None:
            if requests:
                self._serve(requests)
            if len(self._answers) > 2 * MOST_ANSWERS:
                self._answers = {each.key: each for each in recent_answers([*self._answers.values()])}
            self._note_judged()
            if self._home.is_full() or (self._forgot and not self._requests):
                self._take_up()
        if self._unsaved:
            self._take_up()

    def _next(self) -> list[_Request] | None:
        """All that waits; None in the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._requests or self._judged or not self._open)
            if not (self._requests or self._judged):
                return None
            requests = [each for each in self._requests if each.done.set_running_or_notify_cancel()]
            self._requests.clear()
            return requests

    def _serve(self, requests: list[_Request]) -> None:
        """Do what waits, keep it, let everybody see it, and only then confirm it."""
        try:
            done = self._kept(requests)
            self._publish()
        except BaseException as error:
            for request in requests:
                if not request.done.done():
                    request.done.set_exception(error)
            raise
        for request, outcome in done:
            request.done.set_result(outcome)

    def _kept(self, requests: list[_Request]) -> list[tuple[_Request, Outcome]]:
        """Do each request, and keep all that succeed in one step; if that fails, none is done."""
        before = self._version, dict(self._answers)
        done: list[tuple[_Request, Outcome]] = []
        records: list[Record] = []
        leaving: list[bytes] = []
        try:
            with self._knowledge.changing():
                for request in requests:
                    try:
                        done.append((request, self._done(request, records, leaving)))
                    except Exception as error:  # of this one alone
                        request.done.set_exception(error)
                if records:
                    self._home.append(records, self._knowledge.photos)
        except StorageError as error:
            self._version, self._answers = before
            for request, _ in done:
                request.done.set_exception(error)
            return []
        self._unsaved = self._unsaved or bool(records)
        self._no_longer_cached(leaving)
        return done

    def _no_longer_cached(self, digests: list[bytes]) -> None:
        """Delete the features of photos that were forgotten, once the file no longer needs them."""
        if digests:
            self._forgot = True
            features = self.model.photo_features
            features.delete(features.whole_digests(digests), self._knowledge.photos)

    def _done(self, request: _Request, records: list[Record], leaving: list[bytes]) -> Outcome:
        if request.key in self._answers:
            return self._answers[request.key].outcome
        draft = request.draft(self._knowledge)
        counts = draft.lesson is not None or request.key is not None
        version = self._version + counts
        gone = [] if draft.lesson is None else draft.lesson.leaving(self._knowledge)
        lesson, outcome = draft.apply(self._knowledge, version)
        answer = None
        if request.key is not None:
            answer = self._answers[request.key] = self._answered(request.key, outcome)
        if counts:
            self._version = version
            records.append(Record(version, lesson, answer))
        leaving += gone
        return outcome

    def _answered(self, key: str, outcome: Outcome) -> Answered:
        photos, now = self._knowledge.photos, datetime.now(UTC).isoformat(timespec="seconds")
        return Answered(key, outcome, now, None if photos is None else photos.key)

    def _publish(self) -> None:
        """Let everybody see what was kept."""
        if self._version > self.snapshot.version:
            self.snapshot = Snapshot.of(self._version, self._knowledge, self.snapshot)
            self.published.set()

    def _note_judged(self) -> None:
        """Note how good the model was found to be; what it is, and its version, stay."""
        with self._changed:
            judged, self._judged = self._judged, None
        if judged is None:
            return
        version, estimate = judged
        self.snapshot = noted(self.snapshot, version, estimate)
        self._knowledge.calibration = self.snapshot.knowledge.calibration
        self._knowledge.log = list(self.snapshot.knowledge.log)
        self._unsaved = True

    def _take_up(self) -> None:
        try:
            self._home.take_up(self.model)
        except LayupError as error:  # all is in the journal
            logger.warning("The model could not be written: %s", error)
        else:
            self._unsaved = False
        self._forgot = False

    def _fail(self, error: BaseException) -> None:
        """Say why no more lessons can be done, to all that wait, and to those who will ask."""
        logger.error("The thread that changes the model has ended.", exc_info=error)
        with self._changed:
            self.failed = (
                f"The model can no longer be changed, because of an error ({type(error).__name__}). "
                "Start the server again: all lessons that were confirmed are kept."
            )
            for request in self._requests:
                request.done.set_exception(LayupError(self.failed))
            self._requests.clear()


def noted(snapshot: Snapshot, version: int, estimate: Estimate) -> Snapshot:
    """A snapshot that says how good some version was found to be."""
    knowledge = copy(snapshot.knowledge)
    if estimate.calibration is not None:
        knowledge.calibration = estimate.calibration
    if estimate.expected is not None and version == snapshot.version and knowledge.log:
        last = replace(knowledge.log[-1], expected=estimate.expected.to_dict())
        knowledge.log = [*knowledge.log[:-1], last]
    return replace(snapshot, knowledge=knowledge, estimate=estimate, judged=version)
