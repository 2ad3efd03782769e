"""Files that grow by checked records: what was appended stays, and damage is told from an unfinished end.

A file is a row of frames::

    mark (8 bytes) | length of the body (8) | CRC-32 of the body (4) | CRC-32 of these 20 bytes (4) | body

Each is written in one step, and is on the disk before `append` returns. A process that is killed while it
writes leaves at most one frame that is not whole, the last: readers leave it out, since nobody was told that
it is there. A frame that is not whole before one that is was damaged later: that is an error.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from layup import memory, storage
from layup.errors import StorageError

MARK = b"\x8flayup\r\n"
FRONT = struct.Struct("<8sQI")
CHECK = struct.Struct("<I")
BEFORE = FRONT.size + CHECK.size
"""Bytes of a frame before its body."""


@dataclass(frozen=True)
class Frames:
    """The bodies of whole frames, and where the last of them ends."""

    bodies: list[bytes]
    end: int


def framed(bodies: Sequence[bytes]) -> bytes:
    """The bodies as a file has them.

    >>> len(framed([b"one", b"two"])) == 2 * (BEFORE + 3)
    True
    """
    return b"".join(part for body in bodies for part in (_front(body), body))


def create(path: storage.AnyPath, bodies: Sequence[bytes], like: storage.AnyPath | None = None) -> None:
    """Write a file of these frames in one step, in place of any other; as private as the file `like`."""
    storage.write_bytes(path, framed(bodies), like)


def read(path: storage.AnyPath, start: int = 0) -> Frames:
    """All whole frames from a place on where one begins.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     create(f"{folder}/file", [b"one", b"two"])
    ...     with Path(f"{folder}/file").open("ab") as file:
    ...         _ = file.write(framed([b"three"])[:-1])
    ...     read(f"{folder}/file")
    Frames(bodies=[b'one', b'two'], end=54)
    """
    try:
        size = storage.require_file(path).st_size
        memory.require(memory.Forecast({"its records": 2 * max(size - start, 0)}), f"Reading '{path}'")
        with Path(path).open("rb") as file:
            file.seek(start)
            data = file.read()
    except OSError as error:
        raise storage.unreadable(path, error) from error
    bodies: list[bytes] = []
    at = 0
    while (body := _body_at(data, at)) is not None:
        bodies.append(body)
        at += BEFORE + len(body)
    if _whole_after(data, at):
        raise storage.damaged(path, f"its record {len(bodies) + 1} was changed")
    return Frames(bodies, start + at)


class Appender:
    """Adds frames to a file that `create` has made, from where the whole frames end."""

    def __init__(self, path: storage.AnyPath, end: int) -> None:
        self.path = path
        self.end = end
        self._usable = True
        try:
            self._file = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
            os.ftruncate(self._file, end)
        except OSError as error:
            raise storage.unwritable(path, error) from error

    def append(self, body: bytes) -> None:
        """Add a frame; it is on the disk when this returns. If it fails, the file is as before."""
        if not self._usable:
            raise StorageError(
                f"'{self.path}' could not be written or restored before: nothing more is added to it. Make "
                "sure that its disk works and has room, and open it again"
            )
        try:
            os.lseek(self._file, self.end, os.SEEK_SET)
            _write(self._file, framed([body]))
            os.fsync(self._file)
        except OSError as error:
            self._usable = False
            with suppress(OSError):
                os.ftruncate(self._file, self.end)
                os.fsync(self._file)
                self._usable = True
            raise storage.unwritable(self.path, error) from error
        self.end += BEFORE + len(body)

    def close(self) -> None:
        """Let go of the file: nothing more can be added."""
        os.close(self._file)
        self._file = -1  # its number may soon be that of another file


def _front(body: bytes) -> bytes:
    front = FRONT.pack(MARK, len(body), zlib.crc32(body))
    return front + CHECK.pack(zlib.crc32(front))


def _body_at(data: bytes, at: int) -> bytes | None:
    """The body of the frame that begins here; None if there is no whole one."""
    front = data[at : at + FRONT.size]
    check = data[at + FRONT.size : at + BEFORE]
    if len(check) < CHECK.size or CHECK.unpack(check)[0] != zlib.crc32(front):
        return None
    mark, length, checksum = FRONT.unpack(front)
    body = data[at + BEFORE : at + BEFORE + length]
    return body if mark == MARK and len(body) == length and zlib.crc32(body) == checksum else None


def _whole_after(data: bytes, at: int) -> bool:
    """Whether a whole frame begins anywhere after this place."""
    while (at := data.find(MARK, at + 1)) >= 0:
        if _body_at(data, at) is not None:
            return True
    return False


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
