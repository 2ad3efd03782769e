"""What is at an address, fetched with fsspec (`layup-cl[remote]`), in limited time and of limited size.

fsspec is given one address of one protocol: it chains no others, writes no files, and unpacks nothing.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from threading import local
from typing import Any

from layup.errors import BadImageError, MissingPackageError
from layup.formats import brief, printable, size_of
from layup.images.decode import StoredImage

PROTOCOLS = ("gs", "http", "https", "memory", "s3")

LARGEST = 400_000_000
"""Bytes that a photo may have: an image has at most 89 million pixels, so that no real one needs more."""

CHUNK = 1 << 20
CONNECT = 10
"""Seconds in which a host must answer."""
SILENCE = 20
"""Seconds in which something more must come."""
SECONDS = 120
"""Seconds that a photo may take."""
PAUSES = (0.5, 2.0, None)
"""Seconds between the tries."""
REMEMBERED = 64 << 20
"""Bytes of photos that are kept by each process: each is read for its digest, and then for its pixels."""


class FetchError(Exception):
    """Why something could not be fetched."""


@dataclass(frozen=True, slots=True)
class FetchedImage(StoredImage):
    """A photo at an address, fetched whenever it is read.

    >>> str(FetchedImage("s3://bucket/1.jpg"))
    's3://bucket/1.jpg'
    """

    address: str

    def __str__(self) -> str:
        return self.address

    def contents(self) -> bytes:
        """What is there, or was there when this thread fetched it just before."""
        try:
            return _recent.contents(self.address)
        except FetchError as error:
            raise BadImageError(f"Cannot use {self.address!r}: {error}.") from error

    def location(self) -> tuple[str, str]:
        """The address."""
        return self.address, ""


@cache
def require_package(protocol: str) -> None:
    """Refuse a protocol if what reads it is not installed."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingPackageError(
            "Fetching photos needs another package. Run pip install 'layup-cl[remote]'."
        ) from error
    try:
        fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        reason = printable(str(error)).rstrip(".")
        raise MissingPackageError(f"Addresses of {protocol!r} need another package: {reason}.") from error


def fetch(address: str, most: int, seconds: float) -> Iterator[bytes]:
    """The contents of what is at an address, in chunks: at most so many bytes, in so many seconds."""
    deadline, size = time.monotonic() + seconds, 0
    with _opened(address) as file:
        while chunk := file.read(CHUNK):
            size += len(chunk)
            if size > most:
                raise FetchError(f"it has more than {size_of(most)}")
            if time.monotonic() > deadline:
                raise FetchError(f"fetching it takes more than {seconds:g} seconds")
            yield chunk


def _opened(address: str) -> Any:
    """An open file. Not `fsspec.open`, which follows chains of addresses; instances are kept by fsspec."""
    import fsspec

    protocol = address.partition("://")[0]
    if protocol not in ("http", "https"):
        return fsspec.filesystem(protocol).open(address, "rb")
    from aiohttp import ClientTimeout

    limits = ClientTimeout(sock_connect=CONNECT, sock_read=SILENCE)
    files = fsspec.filesystem(protocol, client_kwargs={"timeout": limits})
    # As a stream: a server may send all, whatever range is asked for. A size that is given is not asked for.
    return files.open(address, "rb", block_size=0, size=-1)


def _photo(address: str) -> bytes:
    """A photo, tried again if it failed for a reason that may pass."""
    for pause in PAUSES:
        try:
            return b"".join(fetch(address, LARGEST, SECONDS))
        except FetchError:
            raise
        except Exception as error:  # of any of fsspec's packages
            if pause is None or _lasting(error):
                raise failed(error) from error
            time.sleep(pause)
    raise AssertionError("the last try raises")


def failed(error: Exception) -> FetchError:
    """The error of a package as one of ours."""
    if isinstance(error, FileNotFoundError):
        return FetchError("there is no such file")
    return FetchError(f"it cannot be fetched ({brief(printable(str(error))) or type(error).__name__})")


def _lasting(error: Exception) -> bool:
    """Whether trying again is of no use: it is not there, or not for us."""
    status = getattr(error, "status", None)
    refused = isinstance(status, int) and 400 <= status < 500 and status != 429  # too many requests
    return refused or isinstance(error, FileNotFoundError | PermissionError)


class _Recent(local):
    """The photos that a thread has fetched last."""

    def __init__(self) -> None:
        self._photos: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def contents(self, address: str) -> bytes:
        if address not in self._photos:
            self._photos[address] = _photo(address)
            self._size += len(self._photos[address])
        found = self._photos[address]
        while self._size > REMEMBERED:
            self._size -= len(self._photos.popitem(last=False)[1])
        return found


_recent = _Recent()
