"""Photos that come once, one after another: they wait in a nameless temporary file until they are learned."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from weakref import finalize

from layup.errors import BadImageError, StorageError
from layup.images.decode import StoredImage


class Waiting:
    """A file without a name, which disappears with the last photo in it, or with this process.

    >>> waiting = Waiting()
    >>> first, second = waiting.put(b"one", "row 0"), waiting.put(b"two", "row 1")
    >>> second.contents(), str(first)
    (b'two', 'row 0')
    """

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self.descriptor = os.dup(file.fileno())
        finalize(self, os.close, self.descriptor)
        self.size = 0

    def put(self, contents: bytes, name: str) -> WaitingImage:
        """Write the contents of a photo's file."""
        image = WaitingImage(self, self.size, len(contents), name)
        try:
            while contents:
                contents = contents[os.write(self.descriptor, contents) :]
        except OSError as error:
            raise StorageError(
                "The photos of a stream wait in a temporary file, and it cannot be written "
                f"({error.strerror or error}). Make room in '{tempfile.gettempdir()}', or let the "
                "environment variable TMPDIR name another folder."
            ) from error
        self.size += image.size
        return image


@dataclass(frozen=True, slots=True, eq=False)
class WaitingImage(StoredImage):
    """A photo in such a file."""

    waiting: Waiting
    start: int
    size: int
    name: str

    def __str__(self) -> str:
        return self.name

    def contents(self) -> bytes:
        """What was written; any process can read it at any time."""
        try:
            return os.pread(self.waiting.descriptor, self.size, self.start)
        except OSError as error:
            raise BadImageError(f"Cannot use {self.name!r}: it cannot be read ({error.strerror}).") from error

    def location(self) -> tuple[str, str]:
        """No file that another process would find, and its name."""
        return "", self.name
