"""A process that makes tries, and outlives what they do to it: a crash or a hang is a failure of one try."""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import re
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from torture.guard import limit_address_space, memory_limit, time_limit
from torture.promise import BrokenError, Promise, Tries, chance_of, tried

GRACE = 20.0
"""Seconds beyond its own limit after which a try is ended from outside: not even Python runs then."""

NEVER = math.inf
"""When a try began, if none is under way."""

fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Failure:
    """A try that showed a promise to be broken.

    Attributes:
        index: Which try it was.
        kind: What is the same for all failures of one cause, as far as is known.
        what: The exception in a line, and what was tried.
        trace: Where it came from.
    """

    index: int
    kind: str
    what: str
    trace: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The failure as JSON."""
        return asdict(self)


def attempt(promise: Promise, tries: Tries, seed: int, index: int, folder: Path) -> Failure | None:
    """One try, alone in a folder that is empty before and gone afterwards."""
    folder.mkdir(parents=True)
    tried.clear()
    try:
        with time_limit(promise.seconds), memory_limit(promise.megabytes):
            tries.attempt(index, chance_of(seed, promise.name, index), folder)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return _failure(index, error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _failure(index: int, error: BaseException) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if f"{os.sep}torture{os.sep}" not in frame.filename] or frames
    ours = [frame for frame in inside if f"{os.sep}layup{os.sep}" in frame.filename] or inside
    where = f"{Path(ours[-1].filename).name} in {ours[-1].name}" if ours else "nowhere"
    said = str(error).splitlines()[0][:300] if str(error) else ""
    notes = "; ".join(getattr(error, "__notes__", tried))
    kind = error.way if isinstance(error, BrokenError) else f"{type(error).__name__} from {where}"
    line = said if isinstance(error, BrokenError) else f"{type(error).__name__}: {said} (from {where})"
    trace = "".join(traceback.format_exception(error))
    return Failure(index, _without_numbers(kind)[:120], f"{line} [{notes}]"[:1000], trace)


def _without_numbers(text: str) -> str:
    """Failures that differ only in numbers, or in the names of temporary files, have one cause."""
    return re.sub(r"[0-9a-f]{8,}|\d+", "#", text)


class Worker:
    """A process that makes the tries of one stretch after another."""

    def __init__(self, promise: Promise, tries: Tries, seed: int, folder: Path) -> None:
        self.promise, self.tries, self.seed, self.folder = promise, tries, seed, folder
        self.at: Any = fork.Value("q", -1)
        self.since: Any = fork.Value("d", 0.0)
        self.stretch: Sequence[int] = ()
        self.connection: Connection
        self.process: Any = None
        self._start()

    def _start(self) -> None:
        self.connection, theirs = fork.Pipe()
        self.process = fork.Process(target=self._serve, args=(theirs,))
        self.process.start()
        theirs.close()

    def give(self, stretch: Sequence[int]) -> None:
        """Hand over the next tries."""
        self.stretch, self.at.value, self.since.value = stretch, -1, NEVER
        self.connection.send(stretch)

    def overdue(self) -> bool:
        """Whether a try hangs so that it has to be ended from outside."""
        return bool(self.stretch) and time.monotonic() - self.since.value > self.promise.seconds + GRACE

    def bury(self) -> tuple[Failure, Sequence[int]]:
        """The failure that this process died of, or hung at; and the tries that remain of its stretch."""
        hung = self.overdue() and self.process.is_alive()
        self.process.kill()  # which does nothing to one that is dead
        self.process.join()
        how = "hung and had to be killed" if hung else f"died with exit code {self.process.exitcode}"
        index = self.at.value if self.at.value >= 0 else self.stretch[0]
        rest = self.stretch[self.stretch.index(index) + 1 :]
        self.stretch = ()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._start()
        return Failure(index, f"the process {how}", f"the process {how}"), rest

    def end(self) -> None:
        """Let the process go; one that is in the middle of something has no say."""
        if self.stretch:
            self.process.kill()
        else:
            self.connection.send(None)
        self.process.join(GRACE)
        self.process.kill()
        self.process.join()
        self.connection.close()

    def _serve(self, connection: Connection) -> None:
        self.connection.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # and tidies up
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        logging.disable()
        warnings.simplefilter("ignore")
        limit_address_space()
        while (stretch := connection.recv()) is not None:
            for index in stretch:
                self.at.value, self.since.value = index, time.monotonic()
                failure = attempt(self.promise, self.tries, self.seed, index, self.folder / "try")
                self.since.value = NEVER
                if failure is not None:
                    connection.send(failure)
            connection.send(None)
        os._exit(0)  # without whatever the tests of others registered to be done at the end
