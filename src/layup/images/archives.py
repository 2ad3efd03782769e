"""Photos in zip and tar archives, read where they are: nothing is unpacked, and names are only text.

Listing an archive gives the place of each member in it. So any process can read a member without listing the
archive again, and the order does not matter. A tar that is compressed as a whole has no such places: it is
decompressed once, into a nameless temporary file; and a tar at an address is fetched into one.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import re
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, TypeAlias
from weakref import finalize

from layup.errors import BadImageError, InputError
from layup.formats import printable, size_of
from layup.images.decode import StoredImage, described
from layup.images.fetched import LARGEST, FetchError, failed, fetch
from layup.images.folders import is_clutter

ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
"""How the names of archives end (lower case)."""

MOST_TIMES = 50
"""A compressed tar may unpack to so many times its size, and a little more: photos hardly shrink at all."""

OPEN_AT_ONCE = 16
"""How many archives a process keeps open."""

UNPACKED_AT_ONCE = 4
"""How many compressed tars a process keeps decompressed, and how many tars that it has fetched."""

LISTED_AT_ONCE = 2
"""How many archives a process knows the members of: slices of a plan name them one after another."""

LARGEST_FETCHED = 20_000_000_000
"""Bytes that a tar at an address may have."""

FETCHED_WITHIN = 3600
"""Seconds that it may take."""

CHUNK = 1 << 20
LARGEST_HEADER = 1 << 20

COMPRESSIONS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}
"""How files of each compression begin, and what opens them."""

ENCRYPTED = 0x2041
"""Bits of a zip's member that is encrypted, or whose names are."""

CHANGED = "the archive has changed since it was listed"
IN_TAR = re.compile(r"(.*?\.tar)(?:/|$)(.*)", re.IGNORECASE | re.DOTALL)
LINK = "it is a link, not a file"
DEVICE = "it is a device or a pipe, not a file"


def is_archive(path: Path) -> bool:
    """Whether a file's name is that of an archive.

    >>> is_archive(Path("photos.ZIP")), is_archive(Path("photos.tar.gz")), is_archive(Path("1.jpg"))
    (True, True, False)
    """
    return path.name.lower().endswith(ENDINGS)


class _RefusedError(Exception):
    """Why an archive is not read any further."""


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive as it was when it was listed.

    version: when its file was changed, in nanoseconds; or, if it was fetched, a hash of its contents.
    """

    path: str
    size: int
    version: int
    fetched: bool = False

    @classmethod
    def at(cls, path: Path) -> Archive:
        """The archive that is there now."""
        status = path.stat()
        return cls(str(path), status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class ArchiveMember(StoredImage):
    """A file in an archive.

    >>> str(TarMember(Archive("photos.tar", 0, 0), "tabby/1.jpg", 512, 9, compressed=False))
    'photos.tar/tabby/1.jpg'
    """

    archive: Archive
    name: str

    def __str__(self) -> str:
        return f"{self.archive.path}/{self.name}"

    def contents(self) -> bytes:
        """What it holds."""
        try:
            return self._read()
        except (OSError, OverflowError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise self._bad(f"it cannot be read ({error})") from error
        except (_RefusedError, FetchError) as error:
            raise self._bad(str(error)) from error

    def location(self) -> tuple[str, str]:
        """The archive, and the name in it."""
        return self.archive.path, self.name

    @abstractmethod
    def _read(self) -> bytes:
        """Its contents; it may fail as files and decompression do."""

    def _bad(self, reason: str) -> BadImageError:
        return BadImageError(f"Cannot use {described(self)}: {reason}.")

    def _limited(self, size: int) -> int:
        if size > LARGEST:
            raise self._bad(f"it has {size_of(size)}, and no photo needs more than {size_of(LARGEST)}")
        return size

    def _cut_out(self, file: _Open, start: int, size: int) -> bytes:
        found = os.pread(file.descriptor, size, start)
        if len(found) < size:
            raise self._bad("the archive ends in the middle of it")
        return found


@dataclass(frozen=True, slots=True)
class Unusable(ArchiveMember):
    """A member that is no photo: a link, a device, an encrypted file …"""

    problem: str

    def _read(self) -> bytes:
        raise self._bad(self.problem)


@dataclass(frozen=True, slots=True)
class TarMember(ArchiveMember):
    """A file in a tar: its contents as they are."""

    start: int
    size: int
    compressed: bool  # the whole tar

    def _read(self) -> bytes:
        file = _decompressed(self.archive) if self.compressed else _unchanged(self.archive)
        return self._cut_out(file, self.start, self._limited(self.size))


@dataclass(frozen=True, slots=True)
class ZipMember(ArchiveMember):
    """A file in a zip: a header of its own, and then the contents, usually compressed."""

    header: int
    packed: int
    size: int
    deflated: bool
    checksum: int

    def _read(self) -> bytes:
        size = self._limited(self.size)
        file = _unchanged(self.archive)
        signature, name, extra = struct.unpack("<4s22xHH", self._cut_out(file, self.header, 30))
        if signature != b"PK\3\4":
            raise self._bad("its place in the archive is damaged")
        packed = self._cut_out(file, self.header + 30 + name + extra, self._limited(self.packed))
        found = self._inflated(packed, size) if self.deflated else packed
        if len(found) != size or zlib.crc32(found) != self.checksum:
            raise self._bad("it is damaged: its contents are not what the archive says")
        return found

    def _inflated(self, packed: bytes, size: int) -> bytes:
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, size + 1)
        except zlib.error as error:
            raise self._bad(f"it is damaged ({error})") from error


# Open files


class _Open:
    """An open archive. Reading at a place moves no position, so threads and forked processes may share it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        finalize(self, os.close, descriptor)


class _Fetched(_Open):
    """What was fetched from an address, in a file without a name that disappears with this process."""

    def __init__(self, descriptor: int, archive: Archive) -> None:
        super().__init__(descriptor)
        self.archive = archive


def _unchanged(archive: Archive) -> _Open:
    """The open archive, if it is still the one that was listed."""
    if archive.fetched:
        found = _fetched(archive.path)
        if found.archive != archive:
            raise _RefusedError(CHANGED)
        return found
    file = _opened(archive)
    _require_listed(archive, file.descriptor)
    return file


def _require_listed(archive: Archive, descriptor: int) -> None:
    status = os.fstat(descriptor)
    if (status.st_size, status.st_mtime_ns) != (archive.size, archive.version):
        raise _RefusedError(CHANGED)


@lru_cache(OPEN_AT_ONCE)
def _opened(archive: Archive) -> _Open:
    return _Open(os.open(archive.path, os.O_RDONLY))


@lru_cache(UNPACKED_AT_ONCE)
def _fetched(address: str) -> _Fetched:
    """What is at an address."""
    size, digest = 0, hashlib.blake2b(digest_size=8)
    with tempfile.TemporaryFile() as target:
        try:
            for chunk in fetch(address, LARGEST_FETCHED, FETCHED_WITHIN):
                target.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        except FetchError:
            raise
        except Exception as error:  # of any of fsspec's packages
            raise failed(error) from error
        target.flush()
        version = int.from_bytes(digest.digest())
        return _Fetched(os.dup(target.fileno()), Archive(address, size, version, fetched=True))


@lru_cache(UNPACKED_AT_ONCE)
def _decompressed(archive: Archive) -> _Open:
    """A compressed tar as a plain one, in a file without a name that disappears with this process."""
    most = MOST_TIMES * archive.size + LARGEST
    with Path(archive.path).open("rb") as packed, tempfile.TemporaryFile() as target:
        _require_listed(archive, packed.fileno())
        opener = _compression(packed)
        if opener is None:
            raise _RefusedError(CHANGED)
        source = opener(packed)
        while chunk := source.read(CHUNK):
            if target.tell() + len(chunk) > most:
                raise _RefusedError(f"it unpacks to more than {size_of(most)}, which is not what photos do")
            target.write(chunk)
        target.flush()
        return _Open(os.dup(target.fileno()))


def _compression(file: IO[bytes]) -> Callable[[IO[bytes]], Any] | None:
    """What decompresses an open file, which stays at its beginning; None if it is not compressed."""
    head = file.read(6)
    file.seek(0)
    return next((opener for start, opener in COMPRESSIONS.items() if head.startswith(start)), None)


# Lists


@dataclass(frozen=True)
class Listing:
    """The photos in an archive, or in a folder of it, without hidden files and clutter.

    Names of folders are only those that the archive lists for themselves: it need not list any.
    """

    path: str
    inside: str
    members: list[ArchiveMember]
    folders: list[str]

    def __str__(self) -> str:
        return f"{self.path}/{self.inside}" if self.inside else self.path

    def relative(self, name: str) -> str:
        """A name, from here on."""
        return name[len(self.inside) + 1 :] if self.inside else name

    def in_order(self) -> list[ArchiveMember]:
        """The members, sorted by name as files of a folder are."""
        return sorted(self.members, key=lambda member: member.name.split("/"))

    def within(self, folder: str) -> Listing:
        """Only what a folder holds."""
        start = f"{folder}/"
        return Listing(
            self.path,
            folder,
            [each for each in self.members if each.name.startswith(start)],
            [each for each in self.folders if each.startswith(start)],
        )


def split_address(address: str) -> tuple[str, str] | None:
    """The tar that an address leads to or into, and the rest of it; None if there is none.

    >>> split_address("s3://bucket/0.tar/1.jpg"), split_address("s3://bucket/0.tar"), split_address("s3://b/1.jpg")
    (('s3://bucket/0.tar', '1.jpg'), ('s3://bucket/0.tar', ''), None)
    """
    found = IN_TAR.match(address)
    return None if found is None else (found[1], found[2])


def split_at_archive(path: Path) -> tuple[Path, str] | None:
    """The archive that a path leads to or into, and the rest of the path; None if there is none.

    >>> split_at_archive(Path("no/such/photos.zip/tabby")) is None
    True
    """
    for here in (path, *path.parents):
        if is_archive(here) and here.is_file():
            return here, path.relative_to(here).as_posix() if here != path else ""
    return None


def list_archive(path: Path) -> Listing:
    """All files in an archive, in its order; of two with the same name, the second, as when unpacking.

    Costs one pass over its headers; one decompression, if it is a compressed tar.
    """
    with _readable(path):
        return _listing(Archive.at(path))


def list_fetched(address: str) -> Listing:
    """The same of a tar at an address, which is fetched into a temporary file."""
    try:
        archive = _fetched(address).archive
    except FetchError as error:
        raise InputError(f"The archive {address!r} cannot be read: {error}.") from error
    with _readable(address):
        return _listing(archive)


@lru_cache(LISTED_AT_ONCE)
def _listing(archive: Archive) -> Listing:
    members: dict[str, ArchiveMember] = {}
    folders = []
    for name, found in _listed(archive):
        if found is None:
            folders.append(name)
        else:
            members.pop(name, None)
            members[name] = found
    return Listing(archive.path, "", list(members.values()), folders)


def _listed(archive: Archive) -> Iterator[tuple[str, ArchiveMember | None]]:
    """The name of every visible file or folder, and the file."""
    of_kind = _zip_members if archive.path.lower().endswith(".zip") else _tar_members
    for name, found in of_kind(archive):
        parts = [part for part in name.split("/") if part not in ("", ".", "..")]
        if not parts or any(map(is_clutter, parts)):
            continue
        clean = "/".join(parts)
        if found is not None and ".." in name.split("/"):
            yield clean, Unusable(archive, clean, "its name leads out of the archive")
        else:
            yield clean, None if found is None else found(clean)


@contextmanager
def _readable(path: Path | str) -> Iterator[None]:
    """What goes wrong in the block is that an archive cannot be read."""
    try:
        yield
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except MemoryError:
        raise
    except Exception as error:  # damaged archives fail with zlib.error, struct.error, RecursionError …
        raise _unreadable(path, str(error) or type(error).__name__) from error


def _unreadable(path: Path | str, reason: str) -> InputError:
    return InputError(
        f"The archive {str(path)!r} cannot be read: {printable(reason).rstrip('.')}. "
        "Make it again as a zip or a plain tar, or unpack it and give the folder."
    )


Found: TypeAlias = Callable[[str], ArchiveMember] | None
"""What makes a member out of its cleaned name; None for a folder."""


def _zip_members(archive: Archive) -> Iterator[tuple[str, Found]]:
    with zipfile.ZipFile(archive.path) as file:
        for info in file.infolist():
            # Some programs for Windows write backslashes, which no zip should have.
            name = info.filename if "/" in info.filename else info.filename.replace("\\", "/")
            yield name, None if name.endswith("/") else partial(_zip_member, archive, info)


def _zip_member(archive: Archive, info: zipfile.ZipInfo, name: str) -> ArchiveMember:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return Unusable(archive, name, LINK if kind == stat.S_IFLNK else DEVICE)
    if info.flag_bits & ENCRYPTED:
        return Unusable(archive, name, "it is encrypted. Unpack the archive with its password first")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return Unusable(archive, name, "it is compressed in an unusual way. Make the archive again")
    deflated = info.compress_type == zipfile.ZIP_DEFLATED
    return ZipMember(
        archive, name, info.header_offset, info.compress_size, info.file_size, deflated, info.CRC
    )


def _tar_members(archive: Archive) -> Iterator[tuple[str, Found]]:
    compressed = not archive.fetched and _is_compressed(archive)
    file = _Headers(_decompressed(archive) if compressed else _unchanged(archive))
    end = -1
    with tarfile.open(fileobj=file, mode="r:", encoding="utf-8") as tar:  # type: ignore[call-overload]
        while (info := tar.next()) is not None:
            tar.members.clear()  # it would keep them all
            if info.offset <= end or info.size < 0:
                raise _RefusedError("it leads backwards")
            end = info.offset
            yield info.name, None if info.isdir() else partial(_tar_member, archive, info, compressed)
        file.seek(tar.offset)
        if file.read(tarfile.BLOCKSIZE).strip(b"\0"):
            raise _RefusedError(f"it is damaged {size_of(tar.offset)} after its beginning")


def _is_compressed(archive: Archive) -> bool:
    with Path(archive.path).open("rb") as opened:
        return _compression(opened) is not None


def _tar_member(archive: Archive, info: tarfile.TarInfo, compressed: bool, name: str) -> ArchiveMember:
    if info.issym() or info.islnk():
        return Unusable(archive, name, LINK)
    if not info.isreg():
        return Unusable(archive, name, DEVICE)
    if info.issparse():
        return Unusable(archive, name, "it is stored with holes. Make the archive again without them")
    return TarMember(archive, name, info.offset_data, info.size, compressed)


class _Headers:
    """An archive whose headers are read, with a position of its own; a header is small."""

    def __init__(self, file: _Open) -> None:
        self.file = file
        self.position = 0

    def read(self, size: int) -> bytes:
        """The next bytes."""
        if size > LARGEST_HEADER:
            raise _RefusedError(f"it has a header of {size_of(size)}")
        found = os.pread(self.file.descriptor, size, self.position)
        self.position += len(found)
        return found

    def seek(self, position: int) -> None:
        """Go to a place."""
        self.position = position

    def tell(self) -> int:
        """The place."""
        return self.position
