"""Locks: one process or thread at a time holds a file, and those who wait are told who does.

The system keeps the lock (`flock`; a locked byte on Windows): it is free when its holder ends, for any
reason. The holder writes a line about itself into the lock file, and empties it when it releases the lock.
Mostly the file stays. Only the holder may delete it: a process that gets the lock of a deleted file takes
another one.

Some network file systems have no such locks. There, the process that makes the file `NAME.held` next to the
lock file has the lock, and deletes it to release the lock. What a killed holder has left is deleted by the
next one on the same machine. Another machine cannot see that the holder is gone: those who wait there are
told which file to delete.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Self

from layup.formats import printable

SECONDS_BETWEEN_TRIES = 0.05
LONGEST_LINE = 4096  # bytes of a lock file that are read
LONGEST_WORD = 100  # characters of a word of it that are printed


class StillHeldError(TimeoutError):
    """The lock was not free in time; its text says who holds it."""


@dataclass(frozen=True)
class Permissions:
    """What a lock file's mode and owner should be; None for those of any new file."""

    mode: int | None = None
    owner: tuple[int, int] | None = None

    def give(self, opened: int) -> None:
        """Change what differs, as far as this user is allowed to."""
        if os.name == "nt":
            return  # there, files take the permissions of their folder
        found = os.fstat(opened)
        if self.owner is not None and self.owner != (found.st_uid, found.st_gid):
            for user in (self.owner[0], -1):  # even if the owner may not be changed, the group may be
                with suppress(OSError):
                    os.chown(opened, user, self.owner[1])
                    break
        if self.mode is not None and self.mode != stat.S_IMODE(found.st_mode):
            with suppress(OSError):
                os.chmod(opened, self.mode)


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as the lock file says."""

    pid: int
    host: str
    since: str
    command: str
    machine: str
    started: str

    @classmethod
    def here(cls) -> Self:
        """This process, now."""
        pid = os.getpid()
        since = datetime.now().astimezone().isoformat(" ", "seconds")
        return cls(pid, socket.gethostname(), since, _command(), _machine(), _started(pid) or "")

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """The holder that the file names; None if it cannot be read."""
        try:
            values = json.loads(_beginning(file))
            found = cls(**values)
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        texts = (found.host, found.since, found.command, found.machine, found.started)
        sound = type(found.pid) is int and found.pid > 0 and all(isinstance(text, str) for text in texts)
        return found if sound else None

    @property
    def gone(self) -> bool:
        """Whether it is known to have ended: for another machine this is never known."""
        if self.machine != _machine():
            return False
        started = _started(self.pid)  # None if hidden; that of another process, if the id was used again
        return not _is_running(self.pid) or (started is not None and started != self.started)

    def __str__(self) -> str:
        command, host, since = (
            printable(text)[:LONGEST_WORD] for text in (self.command, self.host, self.since)
        )
        return f"process {self.pid} on {host} ({command}), since {since}"


class _Mine(threading.local):
    """The locks that a thread holds, so that it can take them again.

    With the process id, because a forked child inherits this list but not the locks.
    """

    def __init__(self) -> None:
        self.locks: set[tuple[int, Path]] = set()


_mine = _Mine()


@contextmanager
def held(
    file: Path,
    permissions: Permissions | None = None,
    timeout: float | None = None,
    on_wait: Callable[[str], None] | None = None,
    keep: bool = True,
) -> Iterator[None]:
    """Hold the lock file while the block runs; a thread that holds it may take it again.

    If another holds it, `on_wait` is told who, once, and then this waits: `timeout` seconds, or as long as it
    takes. Raises an `OSError` if the lock cannot be made, and a `StillHeldError` if it is not free in time.
    Without `keep`, the file is deleted in the end, while the lock is still held: those who wait for it see
    that, and make another.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with held(Path(folder, "a.lock")):
    ...         Holder.read(Path(folder, "a.lock")).pid == os.getpid()
    True
    """
    mine = _mine.locks
    key = (os.getpid(), file)
    if key in mine:
        yield
        return
    release = _acquired(file, permissions or Permissions(), timeout, on_wait)
    mine.add(key)
    try:
        yield
    finally:
        mine.discard(key)
        if key[0] == os.getpid():  # a forked child leaves the lock to its parent
            if not keep:
                with suppress(OSError):
                    file.unlink()
            release()


def files(file: Path) -> list[Path]:
    """All files that a lock may consist of."""
    return [file, file.with_name(f"{file.name}.held")]


def _acquired(
    file: Path, permissions: Permissions, timeout: float | None, on_wait: Callable[[str], None] | None
) -> Callable[[], None]:
    """Wait for the lock; return the function that releases it."""
    end = None if timeout is None else time.monotonic() + timeout
    while (release := _try(file, permissions)) is None:
        if on_wait is not None:
            on_wait(_whose(file))
            on_wait = None
        left = SECONDS_BETWEEN_TRIES if end is None else end - time.monotonic()
        if left <= 0:
            raise StillHeldError(_whose(file))
        time.sleep(min(left, SECONDS_BETWEEN_TRIES))
    return release


def _whose(file: Path) -> str:
    lock, substitute = files(file)
    if substitute.exists():
        return f"{Holder.read(substitute) or 'an unknown process'}; if that has ended, delete '{substitute}'"
    holder = Holder.read(lock)
    # A line of a process that is gone was left by an earlier holder; the present one could not write its own.
    return "another process" if holder is None or holder.gone else str(holder)


def _try(file: Path, permissions: Permissions) -> Callable[[], None] | None:
    """Take the lock if it is free; return the function that releases it."""
    opened = _open(file, permissions)
    try:
        taken = _take(opened)
    except OSError as error:
        _close(opened)
        if error.errno not in WITHOUT_LOCKS:
            raise
        # Another machine may have locks, or this one may lack them only for the moment.
        holder = Holder.read(file)
        return _try_substitute(files(file)[1], permissions) if holder is None or holder.gone else None
    if not taken:
        _close(opened)
        return None
    if (substitute := files(file)[1]).exists() and not _delete_if_left(substitute):
        _close(opened)  # held by a process to which the system gave no lock
        return None
    if not _is_in_place(opened, file):  # it was deleted meanwhile: others no longer see this lock
        _close(opened)
        return _try(file, permissions)
    _note(opened, _line())

    def release() -> None:
        _note(opened, b"")
        _let_go(opened)
        _close(opened)

    return release


def _open(file: Path, permissions: Permissions) -> int:
    created = 0o666 if permissions.mode is None else permissions.mode
    refusal: OSError | None = None
    # Another user's file may be writable, or only readable: either is enough to lock it.
    for access in (os.O_RDWR | os.O_CREAT, os.O_RDWR, os.O_RDONLY):
        try:
            opened = os.open(file, access | SAFELY, created)
            break
        except PermissionError as error:
            refusal = refusal or error
        except FileNotFoundError as error:
            raise refusal or error from None
    else:
        raise refusal or PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    _open_locks.add(opened)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        _close(opened)
        raise OSError(errno.EINVAL, f"'{file}' is in its place, and is not a file")
    permissions.give(opened)
    return opened


def _close(opened: int) -> None:
    _open_locks.discard(opened)
    os.close(opened)


def _is_in_place(opened: int, file: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(opened), file.stat())
    return False


def _note(opened: int, line: bytes) -> None:
    # The lock is held even if this cannot be written: on a full disk, or in a read-only file.
    with suppress(OSError):
        os.ftruncate(opened, 0)
        os.lseek(opened, 0, os.SEEK_SET)
        os.write(opened, line)


def _line() -> bytes:
    return json.dumps(asdict(Holder.here())).encode() + b"\n"


def _beginning(file: Path) -> bytes:
    """The beginning of a lock file, without ever waiting for it."""
    opened = os.open(file, os.O_RDONLY | SAFELY)
    try:
        return os.read(opened, LONGEST_LINE) if stat.S_ISREG(os.fstat(opened).st_mode) else b""
    finally:
        os.close(opened)


# ---- where the system has no locks


def _try_substitute(file: Path, permissions: Permissions) -> Callable[[], None] | None:
    line = _line()
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFELY, 0o666)
    except FileExistsError:
        return _try_substitute(file, permissions) if _delete_if_left(file) else None
    try:
        permissions.give(opened)
        os.write(opened, line)
    finally:
        os.close(opened)

    def release() -> None:
        with suppress(OSError):
            if _beginning(file) == line:  # else it was deleted by hand, and this is another's
                file.unlink()

    return release


def _delete_if_left(file: Path) -> bool:
    """Delete what a holder of this machine has left that is gone; return whether it did.

    Two processes may find this at the same time, and one may have made the file again when the other deletes
    it. Both are on this machine, and its folder for temporary files has locks.
    """
    holder = Holder.read(file)
    if holder is None or not holder.gone:
        return False
    with suppress(OSError):
        opened = _open(Path(tempfile.gettempdir(), "layup.lock"), Permissions(0o666))
        try:
            if _take(opened) and Holder.read(file) == holder:
                file.unlink()
                return True
        finally:
            _close(opened)
    return False


# ---- about processes


def _command() -> str:
    # Not the arguments of a program that is not ours: they may be private.
    name = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    return " ".join([name, *sys.argv[1:2]]) if name == "layup" else name


@cache
def _machine() -> str:
    """A text that is the same for all processes that see each other's ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str | None:
    """When a process of this machine was started, in any unit; None if the system hides it."""
    try:
        # After the name, which may hold anything: state, …, start.
        words = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return "ended" if words[0] in "ZX" else words[19]
    except (OSError, IndexError):
        return None


# ---- about systems

_open_locks: set[int] = set()

if sys.platform == "win32":
    import msvcrt

    SAFELY = os.O_BINARY | os.O_NOINHERIT
    WITHOUT_LOCKS: set[int | None] = set()

    def _take(opened: int) -> bool:
        os.lseek(opened, 1 << 30, os.SEEK_SET)  # beyond the line, which others must be able to read
        try:
            msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _let_go(opened: int) -> None:
        os.lseek(opened, 1 << 30, os.SEEK_SET)
        msvcrt.locking(opened, msvcrt.LK_UNLCK, 1)

    def _is_running(pid: int) -> bool:
        return True  # testing it would send it Ctrl-C

else:
    import fcntl

    # Without waiting for the other end of a pipe, or following a link.
    SAFELY = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    WITHOUT_LOCKS: set[int | None] = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}

    def _take(opened: int) -> bool:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _let_go(opened: int) -> None:
        # Closing it is not enough: a process that is just being started may have it open for a moment.
        with suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_UN)

    def _is_running(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except (OSError, OverflowError):
            pass  # another user's, or an impossible id: not known to be gone
        return True

    def _leave_to_the_parent() -> None:
        # A child that keeps a file open keeps its lock, even when the parent has been killed.
        for opened in _open_locks:
            os.close(opened)
        _open_locks.clear()

    os.register_at_fork(after_in_child=_leave_to_the_parent)
