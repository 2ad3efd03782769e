"""Rows that are gathered to be read once more, without holding all of them in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from layup.errors import StorageError
from layup.formats import size_of
from layup.memory import SPOOL


class Spool:
    """Up to `count` rows of float32, of `width` values each: in memory, or in a file if they need too much.

    The file is in `folder`, if that exists, else where temporary files are. It has no name, or is deleted
    when closed: nothing is left when the process ends, for any reason.

    >>> with Spool(3, 2) as spool:
    ...     spool.append(np.array([[1.0, 2.0]], np.float32))
    ...     spool.append(np.array([[3.0, 4.0]], np.float32))
    ...     spool.rows().tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """

    def __init__(self, count: int, width: int, folder: Path | None = None, limit: int = SPOOL) -> None:
        self.width = width
        self.length = 0
        self._buffer: NDArray[np.float32] | None = None
        self._file: IO[bytes] | None = None
        needed = 4 * count * width
        if needed <= limit:
            self._buffer = np.empty((count, width), np.float32)
            return
        self._folder = folder if folder and folder.is_dir() else Path(tempfile.gettempdir())
        self._needed = needed
        try:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - lives as long as the spool
        except OSError as error:
            raise self._full(error) from error

    def append(self, rows: NDArray[np.float32]) -> None:
        """Add rows."""
        end = self.length + len(rows)
        if self._buffer is not None:
            self._buffer[self.length : end] = rows
        elif self._file is not None:
            try:
                # Written, not mapped: a full disk is an error in a write, but kills the process in a map.
                self._file.write(np.ascontiguousarray(rows, np.float32).data)
            except OSError as error:
                raise self._full(error) from error
        self.length = end

    def rows(self) -> NDArray[np.float32]:
        """All rows, n × width; those in the file are read when they are used."""
        if self._buffer is not None:
            return self._buffer[: self.length]
        if self._file is None or not self.length:
            return np.empty((0, self.width), np.float32)
        try:
            self._file.flush()
        except OSError as error:
            raise self._full(error) from error
        return np.memmap(self._file, np.float32, "r", shape=(self.length, self.width))

    def close(self) -> None:
        """Free the memory, or the file."""
        self._buffer = None
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _full(self, error: OSError) -> StorageError:
        return StorageError(
            f"The features of this batch take {size_of(self._needed)} on the disk while λ is searched, and "
            f"'{self._folder}' cannot hold them ({error.strerror}): make room there, or choose λ without "
            "search (lam='gcv', or a number)."
        )
