"""Many images, read in order by several processes, ahead of their use.

Each process has its own socket to this one. Over it go the numbers of the batches to read and the pickled
results. So a killed process does not affect the others, and its end is noticed immediately; and when this
process ends, for any reason, so do they.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Process
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from layup.errors import BadImageError, LayupError
from layup.images import ImageSource, StoredImage, image_digest, is_open_file, open_image
from layup.progress import progress_bar

T = TypeVar("T")

FEW = 128
"""Up to this many images are read in this process: starting others takes longer."""

AHEAD = 2
"""How many batches each process is given before they are needed."""


@dataclass(frozen=True)
class BadImage:
    """An image that could not be used: its index among those given, and why."""

    index: int
    reason: str


def usable(indices: Iterable[int], use: Callable[[int], T]) -> tuple[dict[int, T], list[BadImage]]:
    """What `use` makes of the image at each index, and the images that cannot be used.

    >>> usable([0, 1], lambda index: open_image([np.zeros((8, 9)), "no.jpg"][index]).size)
    ({0: (9, 8)}, [BadImage(index=1, reason="Cannot use 'no.jpg': there is no such file.")])
    """
    made: dict[int, T] = {}
    bad: list[BadImage] = []
    for index in indices:
        try:
            made[index] = use(index)
        except BadImageError as error:
            bad.append(BadImage(index, str(error)))
    return made, bad


def in_batches(indices: Sequence[int] | NDArray[np.int64], size: int) -> list[list[int]]:
    """Consecutive batches of `size` indices; the last may be shorter.

    >>> in_batches(range(5), 2)
    [[0, 1], [2, 3], [4]]
    """
    return [[int(index) for index in indices[start : start + size]] for start in range(0, len(indices), size)]


def read_ahead(
    images: Sequence[ImageSource],
    prepare: Callable[[list[int]], T],
    batches: Sequence[list[int]],
    workers: int | None = None,
) -> Iterator[T]:
    """What `prepare` makes of each batch of indices of these images, in order.

    workers: how many processes prepare the next batches meanwhile, or None for as many as pay off. Results
    are pickled: arrays are cheap, tensors are not. An error in one of them is raised here.

    >>> list(read_ahead(["a.jpg", "b.jpg", "c.jpg"], max, [[2, 1], [0]], workers=1))
    [2, 0]
    """
    count = min(worker_count(images, workers), len(batches))
    if not count:
        yield from map(prepare, batches)
        return
    started: list[_Worker[T]] = []
    try:
        for _ in range(count):
            started.append(_Worker(prepare, batches))
        asked = 0
        for number in range(len(batches)):
            while asked < min(number + AHEAD * count, len(batches)):
                started[asked % count].ask_for(asked)
                asked += 1
            yield started[number % count].made()
    finally:
        for worker in started:
            worker.end()


class _Worker(Generic[T]):
    """A process that prepares batches, seen from this one."""

    _starting = threading.Lock()  # a process forked meanwhile would keep the other end open

    def __init__(self, prepare: Callable[[list[int]], T], batches: Sequence[list[int]]) -> None:
        with self._starting:
            try:
                ours, theirs = socket.socketpair()
                with ours, theirs:
                    self._process = Process(target=_work, args=(prepare, batches, ours, theirs), daemon=True)
                    self._process.start()
                    self._channel = ours.makefile("rwb")  # this keeps it open
            except OSError as error:
                raise _lost("could not be started") from error

    def ask_for(self, number: int) -> None:
        """Request a batch, after those requested before."""
        with self._living():
            _send(self._channel, number)

    def made(self) -> T:
        """The result for the next batch that was requested."""
        with self._living():
            made = pickle.load(self._channel)
        if isinstance(made, _Failure):
            raise made.error
        return made  # type: ignore[no-any-return]

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()
        with suppress(OSError):
            self._channel.close()

    @contextmanager
    def _living(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self._process.join(1)
            raise _lost("was killed" if (self._process.exitcode or 0) < 0 else "failed") from error


def _lost(how: str) -> LayupError:
    # The system kills them when memory runs out.
    return LayupError(
        f"A process that decodes images {how}, perhaps for lack of memory. "
        "Use fewer of them, or none: workers=0.",
        about="workers",
    )


@dataclass(frozen=True)
class _Failure:
    """Sent instead of a result."""

    error: Exception


def _work(
    prepare: Callable[[list[int]], Any],
    batches: Sequence[list[int]],
    ours: socket.socket,
    theirs: socket.socket,
) -> None:
    """Runs in the other process, until this one closes the socket."""
    ours.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes: the parent ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if "torch" in sys.modules:
        # Its other threads were lost in the fork: it would wait for them.
        sys.modules["torch"].set_num_threads(1)
    channel = theirs.makefile("rwb")
    with suppress(EOFError, ConnectionError):
        while True:
            number = pickle.load(channel)
            try:
                made = prepare(batches[number])
            except Exception as error:
                made = _Failure(_portable(error))
            _send(channel, made)


def _portable(error: Exception) -> Exception:
    """The error, or another if it cannot be pickled; with its traceback, unless it is a `LayupError`."""
    if not isinstance(error, LayupError):
        error.add_note(traceback.format_exc())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _send(channel: Any, value: object) -> None:
    pickle.dump(value, channel, 5)  # protocol 5 writes arrays as they are
    channel.flush()


def worker_count(images: Sequence[ImageSource], wanted: int | None = None) -> int:
    """How many processes to read images with: 0 for a few images, or if they need no decoding.

    Always 0 for open files: each has only one position, which all processes would share.

    >>> worker_count(["a.jpg", "b.jpg"]), worker_count(["a.jpg", "b.jpg"], 2)
    (0, 2)
    """
    if wanted == 0 or len(images) <= (FEW if wanted is None else 0):
        return 0
    # A lazy sequence makes each image when it is read: read only one.
    looked_at = images if isinstance(images, list | tuple) else [images[0]]
    if any(is_open_file(image) or isinstance(image, memoryview) for image in looked_at):
        return 0
    if wanted is not None:
        return wanted
    return min(4, os.cpu_count() or 1) if isinstance(images[0], str | os.PathLike | StoredImage) else 0


@dataclass(frozen=True)
class Survey:
    """Which images can be used (their indices among those given, and digests), and which cannot."""

    kept: list[int]
    digests: list[bytes]
    bad: list[BadImage]


def survey(images: Sequence[ImageSource], workers: int | None = None, progress: bool | None = None) -> Survey:
    """Open every image once, before something long begins.

    >>> survey([np.zeros((8, 8), np.uint8), "no-such-file.jpg"]).kept
    [0]
    """
    found = Survey([], [], [])
    batches = in_batches(range(len(images)), 32)
    with progress_bar(progress) as bar:
        task = bar.add_task("Checking images", total=len(images), note="")
        for digests, bad in read_ahead(images, _Surveyor(images), batches, workers):
            found.kept.extend(digests)
            found.digests.extend(digests.values())
            found.bad.extend(bad)
            bar.advance(task, len(digests) + len(bad))
    return found


@dataclass(frozen=True)
class _Surveyor:
    images: Sequence[ImageSource]

    def __call__(self, indices: list[int]) -> tuple[dict[int, bytes], list[BadImage]]:
        return usable(indices, self._digest)

    def _digest(self, index: int) -> bytes:
        open_image(self.images[index])
        return image_digest(self.images[index])
