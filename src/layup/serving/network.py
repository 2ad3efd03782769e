"""The one thread that uses a network, for all that want something read."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from layup.errors import BusyError, LayupError
from layup.features import Extraction, FeatureSource, Rows
from layup.images import ImageSource
from layup.serving.waiting import awaited

T = TypeVar("T")


RETURN = 0.3
"""The share of its time that a pass with room waits for those of the one before it, who often ask again.

Otherwise two groups of clients would take turns for ever, each in passes of half the size and the same cost.
"""


@dataclass
class _Job:
    """Images for a source, or anything else that uses the network."""

    source: FeatureSource | None
    images: Sequence[ImageSource]
    work: Callable[[], Any] | None = None
    done: Future[Any] = field(default_factory=Future)


class NetworkThread:
    """Reads the images of many callers together: a pass of 16 costs as much as one of a single image.

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

    def extract(self, source: FeatureSource, images: Sequence[ImageSource]) -> Extraction:
        """What a source reads in at most `together` images."""
        found: Extraction = self._asked(_Job(source, images))
        return found

    def run(self, work: Callable[[], T]) -> T:
        """What something returns that uses the network."""
        found: T = self._asked(_Job(None, (), work))
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
            and sum(len(job.images) for job in [*jobs, self._jobs[0]]) <= self.together
        ):
            jobs.append(self._jobs.popleft())
        return [job for job in jobs if job.done.set_running_or_notify_cancel()]


def _images(jobs: Iterable[_Job]) -> int:
    return sum(len(job.images) for job in jobs)


def _do(jobs: Sequence[_Job]) -> None:
    if not jobs:
        return
    first = jobs[0]
    if first.source is None:
        assert first.work is not None
        first.done.set_result(first.work())
        return
    found = first.source.extract([image for job in jobs for image in job.images])
    ends = np.cumsum([len(job.images) for job in jobs]).tolist()
    parts = [_part(found, start, end) for start, end in zip([0, *ends], ends, strict=False)]
    for job, part in zip(jobs, parts, strict=True):
        job.done.set_result(part)


def _do_alone(job: _Job) -> None:
    try:
        _do([job])
    except Exception as error:
        job.done.set_exception(error)


def _part(found: Extraction, start: int, end: int) -> Extraction:
    """What was found in the images from one index to another."""
    inside = (found.kept >= start) & (found.kept < end)
    return Extraction(
        found.rows[inside],
        found.kept[inside] - start,
        [digest for digest, is_inside in zip(found.digests, inside, strict=True) if is_inside],
        [replace(each, index=each.index - start) for each in found.bad if start <= each.index < end],
        found.forwarded,
    )


class SharedSource(FeatureSource):
    """A feature source for any thread: another one reads what it is asked for."""

    def __init__(self, source: FeatureSource, network: NetworkThread) -> None:
        self.layers = source.layers
        self.cache = source.cache
        self.steps = source.steps
        self._source = source
        self._network = network

    def stream(self, images: Sequence[ImageSource], title: str = "Reading images") -> Iterator[Extraction]:
        """Rows in the order given, as many as fit into a pass at a time, so that others come between."""
        step = self._network.together
        with self._network.calling():
            for start in range(0, len(images), step):
                part = self._network.extract(self._source, images[start : start + step])
                bad = [replace(each, index=each.index + start) for each in part.bad]
                yield replace(part, kept=part.kept + start, bad=bad)

    def rows_of(self, pixels: Tensor) -> Rows:
        """The rows of preprocessed images, past the cache."""
        return self._network.run(lambda: self._source.rows_of(pixels))

    def recall(self, digests: Sequence[bytes]) -> dict[bytes, Rows]:
        """The rows that the cache has: no network is needed."""
        return self._source.recall(digests)
