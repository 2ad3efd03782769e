"""All tries of a promise, on all cores, each in its own folder."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from types import FrameType

from layup.progress import progress_bar
from torture.promise import Promise
from torture.worker import Failure, Worker

MEMORY = Path("/dev/shm")
"""Where files are quick and no disk is worn out; power loss is simulated, so nothing has to reach a disk."""
ROOM = 2 * 2**30
"""Bytes that have to be free there."""
STRETCH = 250


@dataclass
class Outcome:
    """How a promise fared: how many tries, and which of them failed."""

    promise: Promise
    tries: int
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def run(
    promise: Promise,
    seed: int,
    *,
    tries: int | None = None,
    only: int | None = None,
    workers: int = 2,
    show: bool | None = None,
) -> Outcome:
    """Make the tries of a promise: so many, or its own number, or the only one of this index."""
    started = time.monotonic()
    with _ended_by_sigterm(), tempfile.TemporaryDirectory(prefix="layup-torture-", dir=quick()) as home:
        shared = Path(home) / "shared"
        shared.mkdir()
        prepared = promise.prepare(shared)
        wanted = max(promise.tries, prepared.every) if tries is None else tries
        indices: Sequence[int] = range(wanted) if only is None else [only]
        outcome = Outcome(promise, len(indices))
        crew = [
            Worker(promise, prepared, seed, Path(home) / f"worker-{i}")
            for i in range(min(workers, len(indices)))
        ]
        try:
            _supervise(crew, _stretches(indices, len(crew)), outcome, show)
        finally:
            for worker in crew:
                worker.end()
    outcome.failures.sort(key=lambda failure: failure.index)
    outcome.seconds = time.monotonic() - started
    return outcome


def quick() -> Path | None:
    """The memory, if files can be put there and there is room; else None, for the usual folder."""
    usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK | os.X_OK)
    return MEMORY if usable and shutil.disk_usage(MEMORY).free >= ROOM else None


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the block before the process, so that nothing is left behind."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stretches(indices: Sequence[int], workers: int) -> list[Sequence[int]]:
    """The tries in parts: many enough that no worker waits long for the last one. The first comes last."""
    size = max(1, min(STRETCH, len(indices) // (20 * max(workers, 1))))
    return [indices[start : start + size] for start in range(0, len(indices), size)][::-1]


def _supervise(
    crew: Sequence[Worker], waiting: list[Sequence[int]], outcome: Outcome, show: bool | None
) -> None:
    bar = progress_bar(show, "tries")
    bar.live.auto_refresh = (
        False  # no thread: a process that is forked while one runs may never get its locks
    )
    with bar:
        task = bar.add_task(outcome.promise.name, total=outcome.tries, note="")
        for worker in crew:
            if waiting:
                worker.give(waiting.pop())
        while busy := [worker for worker in crew if worker.stretch]:
            wait([worker.connection for worker in busy], timeout=0.5)
            for worker in busy:
                given = len(worker.stretch)
                for failure in _heard(worker, waiting):
                    outcome.failures.append(failure)
                if not worker.stretch:
                    bar.advance(task, given)
                    if waiting:
                        worker.give(waiting.pop())
            bar.update(task, note=f"{len(outcome.failures)} failed" if outcome.failures else "")
            bar.refresh()


def _heard(worker: Worker, waiting: list[Sequence[int]]) -> Iterator[Failure]:
    """What a worker has to say; of one that died or hangs, what is left to do is put back."""
    try:
        while worker.connection.poll():
            said = worker.connection.recv()
            if said is None:
                worker.stretch = ()
                return
            yield said
    except (EOFError, ConnectionError):
        pass
    else:
        if not worker.overdue():
            return
    failure, rest = worker.bury()
    if rest:
        waiting.append(rest)
    yield failure
