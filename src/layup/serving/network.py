"""The one thread that uses a network, for all that want something read."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from torch import Tensor

from layup.errors import BusyError, LayupError
from layup.features import Extraction, Extractor, FeatureSource, Rows, in_batches
from layup.images import ImageSource
from layup.serving.waiting import awaited

T = TypeVar("T")


class Sliced(Protocol):
    """Something for every row, of which a part can be taken."""

    def __getitem__(self, rows: slice, /) -> Self:
        """What there is for these rows."""
        ...


S = TypeVar("S", bound=Sliced)
Use = Callable[[Rows], S]
"""What becomes of rows: asked once for all rows of a pass that have the same use."""

READERS = max(1, min(4, (os.cpu_count() or 1) // 2))
"""Callers that decode at the same time. The network needs cores too, and each the memory of a large photo."""

RETURN = 1.0
"""The share of its time that a pass with room waits for those of the one before it, who often ask again.

Otherwise two groups of clients would take turns for ever, each in passes of half the size and the same cost.
"""


def _itself(rows: Rows) -> Rows:
    """What becomes of rows that nobody wants more of."""
    return rows


@dataclass(frozen=True)
class Used(Generic[S]):
    """What was found in the images of a caller, and what became of their rows."""

    found: Extraction
    made: S


@dataclass
class _Job:
    """Images that were read for a source, or anything else that uses the network."""

    source: FeatureSource | None
    images: int
    read: Any = None
    use: Use[Any] = _itself
    work: Callable[[], Any] | None = None
    done: Future[Any] = field(default_factory=Future)


class NetworkThread:
    """Computes what many callers have read together: a pass of 16 costs as much as one of a single image.

    Args:
        together: images of a pass.
        gather: seconds to wait for more images, while other callers are about to ask.
        most: callers at a time; others get a `BusyError`.
        patience: seconds after which a caller gets that error as well.
    """

    def __init__(
        self, together: int, *, gather: float = 0.003, most: int = 64, patience: float = 60.0
    ) -> None:
        self.together = together
        self.gather = gather
        self.most = most
        self.patience = patience
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._callers = 0
        self._readers = threading.Semaphore(READERS)
        self._answered = 0  # images of the last pass
        self._back = 0.0  # when those who asked for it would be back
        self._open = True
        self._thread = threading.Thread(target=self._run, name="layup network", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many callers want something read."""
        return self._callers

    @property
    def alive(self) -> bool:
        """Whether it still reads."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End when all that waits was read."""
        with self._changed:
            self._open = False
            self._changed.notify_all()
        self._thread.join()

    @contextmanager
    def calling(self) -> Iterator[None]:
        """A caller comes, and goes; refuse one too many before it has waited."""
        with self._changed:
            if self._callers >= self.most:
                raise BusyError(f"{self._callers:,} others are waiting already. Ask again in a moment.")
            self._callers += 1
        try:
            yield
        finally:
            with self._changed:
                self._callers -= 1
                self._changed.notify_all()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A caller decodes its images, when it is its turn."""
        if not self._readers.acquire(timeout=self.patience):
            raise BusyError(f"Reading these photos takes longer than {self.patience:g} s. It was not begun.")
        try:
            yield
        finally:
            self._readers.release()

    def compute(self, source: FeatureSource, images: int, read: Any, use: Use[S]) -> Used[S]:
        """The rows of at most `together` images that were read for a source, and what a use makes of them."""
        found: Used[S] = self._asked(_Job(source, images, read, use))
        return found

    def run(self, work: Callable[[], T]) -> T:
        """What something returns that uses the network."""
        found: T = self._asked(_Job(None, 0, work=work))
        return found

    def _asked(self, job: _Job) -> Any:
        with self._changed:
            if not (self._open and self.alive):
                raise LayupError("The thread that reads photos has ended. Start the server again.")
            self._jobs.append(job)
            self._changed.notify_all()
        return awaited(job.done, self.patience, "Reading these photos")

    # ---- in the thread

    def _run(self) -> None:
        while (jobs := self._next()) is not None:
            began = time.monotonic()
            try:
                _do(jobs)
            except Exception:
                for job in jobs:  # each alone: most of them may have nothing to do with it
                    _do_alone(job)
            ended = time.monotonic()
            self._answered, self._back = _images(jobs), ended + RETURN * (ended - began)

    def _next(self) -> list[_Job] | None:
        """The first job, and what can be read in the same pass; None in the end."""
        with self._changed:
            usual = _images(self._jobs) + self._answered
            self._changed.wait_for(lambda: self._jobs or not self._open)
            if not self._jobs:
                return None
            soon = time.monotonic() + self.gather
            while (left := self._grows_until(soon, usual) - time.monotonic()) > 0:
                self._changed.wait(left)
            return self._taken()

    def _grows_until(self, soon: float, usual: int) -> float:
        """Until when a pass may grow: it has room, and somebody is about to ask, or was just answered."""
        images = _images(self._jobs)
        if not self._open or images >= self.together:
            return 0.0
        return max(soon if len(self._jobs) < self._callers else 0.0, self._back if images < usual else 0.0)

    def _taken(self) -> list[_Job]:
        jobs = [self._jobs.popleft()]
        while (
            self._jobs
            and jobs[0].source is not None
            and self._jobs[0].source is jobs[0].source
            and _images([*jobs, self._jobs[0]]) <= self.together
        ):
            jobs.append(self._jobs.popleft())
        return [job for job in jobs if job.done.set_running_or_notify_cancel()]


def _images(jobs: Iterable[_Job]) -> int:
    return sum(job.images for job in jobs)


def _do(jobs: Sequence[_Job]) -> None:
    if not jobs:
        return
    first = jobs[0]
    if first.source is None:
        assert first.work is not None
        first.done.set_result(first.work())
        return
    found = first.source.computed([job.read for job in jobs])
    for job, used in zip(jobs, _used(found, [job.use for job in jobs]), strict=True):
        job.done.set_result(used)


def _used(found: Sequence[Extraction], uses: Sequence[Use[Any]]) -> list[Used[Any]]:
    """Each extraction with what its use makes of its rows; rows of the same use go there together."""
    used: dict[int, Used[Any]] = {}
    for use in dict.fromkeys(uses):
        same = [number for number, each in enumerate(uses) if each == use]
        rows = [found[number].rows for number in same]
        made, ends = use(np.concatenate(rows)), np.cumsum([0, *map(len, rows)]).tolist()
        for number, start, end in zip(same, ends[:-1], ends[1:], strict=True):
            used[number] = Used(found[number], made[start:end])
    return [used[number] for number in range(len(found))]


def _do_alone(job: _Job) -> None:
    try:
        _do([job])
    except Exception as error:
        job.done.set_exception(error)


class SharedSource(FeatureSource):
    """A feature source for any thread: each reads its own images, and another one computes."""

    def __init__(self, source: FeatureSource, network: NetworkThread) -> None:
        self.layers = source.layers
        self.steps = source.steps
        self._source = source
        self._network = network

    @cached_property
    def unrounded(self) -> SharedSource:
        """The same before rounding; always the same object, for a pass is of one source."""
        return SharedSource(self._source.unrounded, self._network)

    @property
    def extractor(self) -> Extractor:
        """What reads images for the source."""
        return self._source.extractor

    def reader(self, images: Sequence[ImageSource]) -> Callable[[list[int]], Any]:
        """What reads images for the source."""
        return self._source.reader(images)

    def computed(self, reads: Sequence[Any]) -> list[Extraction]:
        """The rows of what was read, in a turn of the network's."""
        return self._network.run(lambda: self._source.computed(reads))

    def stream(self, images: Sequence[ImageSource], title: str = "Reading images") -> Iterator[Extraction]:
        """Rows in the order given, as many as fit into a pass at a time, so that others come between."""
        for used in self.used(images, _itself):
            yield used.found

    def used(self, images: Sequence[ImageSource], use: Use[S]) -> Iterator[Used[S]]:
        """The same, and what a use makes of the rows, together with those of others who have the same use."""
        read = self._source.reader(images)
        with self._network.calling():
            for indices in in_batches(range(len(images)), self._network.together):
                with self._network.reading():
                    found = read(indices)
                yield self._network.compute(self._source, len(indices), found, use)

    def rows_of(self, pixels: Tensor) -> Rows:
        """The rows of preprocessed images, past the cache."""
        return self._network.run(lambda: self._source.rows_of(pixels))

    def recall(self, digests: Sequence[bytes]) -> dict[bytes, Rows]:
        """The rows that the cache has: no network is needed."""
        return self._source.recall(digests)
