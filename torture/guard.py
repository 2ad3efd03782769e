"""Bounds on one try: time, memory, and what it may touch."""

from __future__ import annotations

import os
import resource
import signal
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import layup
from torture.promise import BrokenError

MEGABYTE = 2**20
HARD_LIMIT = 3 * 2**30
"""Beyond this much more address space the system itself says no, so that no try takes the machine down."""


class HungError(BaseException):
    """A try took too long. Not an Exception, so that it is not mistaken for a bad file."""


class TrespassError(BaseException):
    """A try reached for what a file from a stranger must not reach. Not an Exception either."""


# ---- time


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise HungError(f"still running after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# ---- memory


def limit_address_space() -> None:
    """Let this process, and all that it starts, have only so much more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        limit = pages * resource.getpagesize() + HARD_LIMIT
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


@contextmanager
def memory_limit(megabytes: int) -> Iterator[None]:
    """Say so if the peak of memory inside was higher than at the beginning by more than this."""
    before = _start_of_peak()
    yield
    more = (_peak() - before) / MEGABYTE
    if more > megabytes:
        raise BrokenError(f"took more than {megabytes:,} MB of memory", f"{more:,.0f} MB")


def _start_of_peak() -> int:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    return _peak()


def _peak() -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# ---- what may be touched

LIBRARIES = tuple(
    {
        *(os.path.realpath(path) for path in sysconfig.get_paths().values()),
        os.path.realpath(sys.prefix),
        os.path.realpath(sys.base_prefix),
        os.path.realpath(Path(layup.__file__).parent),
        *("/proc", "/sys", "/dev"),
    }
)
FORBIDDEN = {
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"),
    *("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request"),
    *("ctypes.dlopen", "webbrowser.open", "pty.spawn", "ftplib.connect", "smtplib.connect"),
}


class _Watch:
    """An audit hook stays permanently, so a process has only one, which looks only when it is switched on."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.seen: list[str] = []
        sys.addaudithook(self.hook)

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event in FORBIDDEN:
            self.report(f"{event} {str(args)[:200]}")
        if event == "open" and isinstance(args[0], str | bytes):
            self.look(os.fsdecode(args[0]), args[1], args[2])

    def look(self, path: str, mode: str | None, flags: int) -> None:
        whole = os.path.realpath(path)
        if _below(whole, self.folder or ""):
            return
        writes = any(letter in (mode or "") for letter in "wax+") or flags & (os.O_WRONLY | os.O_RDWR)
        if "__pycache__" in whole or (not writes and any(_below(whole, root) for root in LIBRARIES)):
            return
        self.report(f"open {path!r} {'to write' if writes else 'to read'}")

    def report(self, what: str) -> None:
        self.seen.append(what)
        raise TrespassError(what)


_watch: _Watch | None = None


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


@contextmanager
def kept_inside(folder: Path) -> Iterator[None]:
    """No process, no network, no file outside this folder and Python's own libraries."""
    global _watch
    _watch = _watch or _Watch()
    _watch.seen, _watch.folder = [], os.path.realpath(folder)
    try:
        yield
    finally:
        _watch.folder = None
    if _watch.seen:  # other code may have swallowed what was raised
        raise BrokenError("reached outside", _watch.seen[:5])
