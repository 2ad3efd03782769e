"""Every step that Python takes on files below a folder: counted, recorded, failed, or the last of a process.

Calls of the `os` module, and writes and reads of Python's own file objects, are wrapped while a block runs.
What libraries do in C (SQLite, safetensors' reader) passes unseen. A write is split into blocks, as a system
may, so that there are steps within a file.
"""

from __future__ import annotations

import builtins
import fcntl
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

BLOCK = 16384


@dataclass(frozen=True)
class Step:
    """One call: what it does to which path; `handle` tells openings apart, `data` goes to `offset`."""

    call: str
    path: str
    to: str = ""
    handle: int = -1
    offset: int = 0
    data: bytes = b""
    truncates: bool = False

    def __str__(self) -> str:
        to = f" to {Path(self.to).name}" if self.to else ""
        return f"{self.call} {Path(self.path).name}{to}"


Before = Callable[[int, Step], None]
"""Called with the number of a step, from 0, before it is taken; may raise, or end the process."""


def nothing(_number: int, _step: Step) -> None:
    """Let every step pass."""


class Tap:
    """What is seen: the steps that were taken, in order."""

    def __init__(self, folder: Path, before: Before = nothing) -> None:
        self.root = os.path.abspath(folder)
        self.before = before
        self.tried = 0
        self.steps: list[Step] = []
        self.handles: dict[int, tuple[int, str]] = {}  # file descriptor → handle and path
        self.openings = 0

    def sees(self, path: object) -> bool:
        """Whether a path, or an open file, is below the folder."""
        if isinstance(path, int):
            return path in self.handles
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        whole = os.path.abspath(os.fsdecode(path))
        return whole == self.root or whole.startswith(self.root + os.sep)

    def ask(self, step: Step) -> Step:
        """A step is about to be taken."""
        number, self.tried = self.tried, self.tried + 1
        self.before(number, step)
        return step

    def opened(self, descriptor: int, step: Step) -> None:
        """Remember what a file descriptor stands for."""
        self.handles[descriptor] = (step.handle, step.path)
        self.steps.append(step)

    def opening(self, path: Any, truncates: bool) -> Step:
        """The step of opening a path."""
        self.openings += 1
        return self.ask(
            Step("open", os.path.abspath(os.fsdecode(path)), handle=self.openings, truncates=truncates)
        )

    def on(self, call: str, descriptor: int, **details: Any) -> Step:
        """The step of a call on an open file."""
        handle, path = self.handles[descriptor]
        return self.ask(Step(call, path, handle=handle, **details))


class _File(io.FileIO):
    """A file whose every read and write is a step."""

    def __init__(self, tap: Tap, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        self._tap = tap
        step = None if isinstance(file, int) else tap.opening(file, truncates="w" in mode)
        super().__init__(file, mode, closefd, opener)
        self._descriptor = self.fileno()
        if step is not None:
            tap.opened(self._descriptor, step)

    def write(self, data: Any) -> int:
        """Write a block of it at most."""
        block = bytes(memoryview(data).cast("B")[:BLOCK])
        step = self._tap.on("write", self._descriptor, offset=self.tell(), data=block)
        written = super().write(block)
        self._tap.steps.append(step)
        return written

    def readinto(self, buffer: Any) -> int:
        """Read, as a step."""
        self._tap.on("read", self._descriptor)
        return super().readinto(buffer)

    def readall(self) -> bytes:
        """Read the rest, as a step."""
        self._tap.on("read", self._descriptor)
        return super().readall()

    def truncate(self, size: int | None = None) -> int:
        """Cut, as a step."""
        size = self.tell() if size is None else size
        step = self._tap.on("truncate", self._descriptor, offset=size)
        result = super().truncate(size)
        self._tap.steps.append(step)
        return result

    def close(self) -> None:
        """Close; the number may stand for another file afterwards."""
        if not self.closed and self.closefd:
            self._tap.handles.pop(self._descriptor, None)
        super().close()


def _file(
    tap: Tap,
    real: Any,
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    """What `open` gives, of a file that is seen."""
    if not tap.sees(file):
        return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
    raw = _File(tap, file, mode.replace("t", "").replace("b", ""), closefd, opener)
    if buffering == 0:
        return raw
    kind: Any = io.BufferedRandom if "+" in mode else io.BufferedReader if "r" in mode else io.BufferedWriter
    buffered = kind(raw)
    return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


def _open(tap: Tap, real: Any, path: Any, flags: int, *rest: Any, **named: Any) -> int:
    if named.get("dir_fd") is not None or not tap.sees(path):
        return int(real(path, flags, *rest, **named))
    step = tap.opening(path, truncates=bool(flags & os.O_TRUNC))
    descriptor = int(real(path, flags, *rest, **named))
    tap.opened(descriptor, step)
    return descriptor


def _close(tap: Tap, real: Any, descriptor: int) -> None:
    tap.handles.pop(descriptor, None)
    real(descriptor)


def _write(tap: Tap, real: Any, descriptor: int, data: Any) -> int:
    if not tap.sees(descriptor):
        return int(real(descriptor, data))
    block = bytes(memoryview(data).cast("B")[:BLOCK])
    step = tap.on("write", descriptor, offset=os.lseek(descriptor, 0, os.SEEK_CUR), data=block)
    written = int(real(descriptor, block))
    tap.steps.append(step)
    return written


def _on_file(call: str, tap: Tap, real: Any, target: Any, *rest: Any, **named: Any) -> Any:
    """A call on an open file, or on a path."""
    descriptor = target.fileno() if hasattr(target, "fileno") else target
    releases = call == "lock" and rest[0] == fcntl.LOCK_UN  # which cannot fail
    if releases or named.get("dir_fd") is not None or not tap.sees(descriptor):
        return real(target, *rest, **named)
    if isinstance(descriptor, int):
        size = rest[0] if call == "truncate" else 0
        step = tap.on(call, descriptor, offset=size)
    else:
        to = os.path.abspath(os.fsdecode(rest[0])) if call == "rename" else ""
        step = tap.ask(Step(call, os.path.abspath(os.fsdecode(descriptor)), to))
    result = real(target, *rest, **named)
    tap.steps.append(step)
    return result


CALLS = {
    "fsync": "fsync",
    "fdatasync": "fsync",
    "chmod": "chmod",
    "fchmod": "chmod",
    "chown": "chmod",
    "fchown": "chmod",
    "utime": "chmod",
    "truncate": "truncate",
    "ftruncate": "truncate",
    "rename": "rename",
    "replace": "rename",
    "unlink": "unlink",
    "remove": "unlink",
    "mkdir": "mkdir",
    "rmdir": "rmdir",
}
"""The function of `os` → what its step is called."""


@contextmanager
def tapped(folder: Path, before: Before = nothing) -> Iterator[Tap]:
    """While the block runs, each step on files below the folder is seen, and `before` it this is called."""
    tap = Tap(folder, before)
    wrapped: list[tuple[Any, str, Callable[..., Any]]] = [
        *((os, name, partial(_on_file, call)) for name, call in CALLS.items()),
        *((os, name, wrapper) for name, wrapper in (("open", _open), ("close", _close), ("write", _write))),
        *((module, "open", _file) for module in (io, builtins)),
        (fcntl, "flock", partial(_on_file, "lock")),
    ]
    real = [(module, name, getattr(module, name)) for module, name, _ in wrapped]
    try:
        for (module, name, wrapper), (_, _, original) in zip(wrapped, real, strict=True):
            setattr(module, name, partial(wrapper, tap, original))
        yield tap
    finally:
        for module, name, original in real:
            setattr(module, name, original)


def steps_of(folder: Path, act: Callable[[Path], None]) -> list[Step]:
    """The steps that something takes on a folder, each of which something may go wrong at."""
    seen: list[Step] = []
    with tapped(folder, lambda _, step: seen.append(step)):
        act(folder)
    return seen
