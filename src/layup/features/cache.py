"""FeatureCache: feature vectors on disk, so that a second pass over the same images needs no forward pass.

It also keeps the digests of files, so that a folder which has not changed need not be read again.

One SQLite file for all backbones. Each call opens and closes its own connection (about a millisecond): it is
never shared by threads, inherited by a forked process, or left open.

It is as private as the photos: only its owner can read its files, for any umask.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import sqlite3
import stat
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import platformdirs

from layup import locks
from layup.errors import InputError

DEFAULT_LIMIT = "10GB"
SECONDS_TO_WAIT = 30
SECONDS_BETWEEN_MARKS = 3600  # a use is noted at most this often: otherwise every read would also write
PRIVATE = 0o600
SCHEMA_VERSION = 1
# Vectors are apart: marking an entry as used must not rewrite its vector, which fills many pages.
TABLES = [
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, digest BLOB, fingerprint TEXT, bytes INTEGER, "
    "checksum INTEGER, used INTEGER, UNIQUE (digest, fingerprint))",
    "CREATE TABLE files (path BLOB PRIMARY KEY, size INTEGER, modified INTEGER, changed INTEGER, "
    "digest BLOB)",
    "CREATE TABLE vectors (id INTEGER PRIMARY KEY, vector BLOB)",
]
SCHEMA = f"""
    PRAGMA auto_vacuum = INCREMENTAL;
    PRAGMA journal_mode = WAL;
    {"; ".join(TABLES)};
    CREATE INDEX files_by_digest ON files (digest);
    PRAGMA user_version = {SCHEMA_VERSION};
"""
# The first is about statements, the second about duplicate values. Our statements are right, and values are
# deleted before they are inserted: so the tables must be wrong.
DAMAGE = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
ROOM = 10**9
"""With this many bytes free, a disk is not full."""
SHARE_OF_FILES = 0.1
"""The share of a cache that digests of files may take, once it is full."""
BYTES_OF_FILE, BYTES_PER_LETTER = 120, 2.3
"""What the digest of a file takes, and each letter of its path, which is in a table and in its index."""
SECONDS_TO_SETTLE = 2
"""A file that was changed so recently may change again at the same time, as its file system counts time."""
MATCHING = "WHERE digest = ? AND fingerprint = IFNULL(?, fingerprint)"

logger = logging.getLogger(__name__)
T = TypeVar("T")
Vector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class CacheStats:
    """What a cache holds: in total, and how many entries per fingerprint of a backbone."""

    path: Path | None = None
    bytes: int = 0
    limit: int = 0
    entries: int = 0
    fingerprints: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FileState:
    """A file as far as can be seen without reading it. Times are in microseconds."""

    path: bytes
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, path: str | os.PathLike[str], folders: dict[str, str] | None = None) -> FileState | None:
        """The file at this path now; None if there is none.

        folders: where folders really are, which is slow to ask for each file; this one is added.
        """
        folders = {} if folders is None else folders
        try:
            found = os.lstat(path)  # Path's own is several times slower
            if stat.S_ISLNK(found.st_mode):
                whole, found = os.path.realpath(path), Path(path).stat()
            else:
                folder, name = os.path.split(os.fspath(path))
                if folder not in folders:
                    folders[folder] = os.path.realpath(folder)
                whole = f"{folders[folder]}{os.sep}{name}"
        except (OSError, ValueError):
            return None
        times = found.st_mtime_ns // 1000, found.st_ctime_ns // 1000
        return cls(os.fsencode(whole), found.st_size, *times)

    @property
    def settled(self) -> bool:
        """Whether another change would have another time."""
        return max(self.modified, self.changed) < _now() - SECONDS_TO_SETTLE * 10**6


class FeatureCache:
    """Float32 vectors by (fingerprint of the backbone, digest of the image).

    The file is `features.sqlite` in the folder `path`, else in that of the environment variable LAYUP_CACHE,
    else in the user's cache folder; it is made at the first write. Beyond `limit_bytes`, else the environment
    variable LAYUP_CACHE_LIMIT (such as 500MB), else 10 GB, the least recently used entries are deleted.
    Nothing learned is lost with a cache, so its problems are only logged as warnings: a damaged file is
    replaced by an empty one, and a cache that cannot be written is not used.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = FeatureCache(folder)
    ...     cache.put_many("vit-nano", [b"photo"], np.ones((1, 3), np.float32))
    ...     cache.get_many("vit-nano", [b"photo", b"other"])
    {b'photo': array([1., 1., 1.], dtype=float32)}
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, limit_bytes: int | None = None) -> None:
        folder = path or os.environ.get("LAYUP_CACHE") or platformdirs.user_cache_path("layup")
        self.path = Path(folder).absolute() / "features.sqlite"
        self.limit_bytes = _limit_from_environment() if limit_bytes is None else limit_bytes
        self._usable = True

    def get_many(self, fingerprint: str, digests: Sequence[bytes]) -> dict[bytes, Vector]:
        """The vectors that are in the cache, bit for bit as they were put; marks them as used."""

        def read(store: sqlite3.Connection) -> dict[bytes, Vector]:
            query = f"SELECT vector, checksum FROM entries JOIN vectors USING (id) {MATCHING}"
            found = {}
            for digest in digests:
                for vector, checksum in store.execute(query, (digest, fingerprint)):
                    if isinstance(vector, bytes) and _checksum(fingerprint, digest, vector) == checksum:
                        # A copy, because PyTorch warns about read-only memory.
                        found[digest] = np.frombuffer(vector, "<f4").astype(np.float32)
            now = _now()
            recent = now - SECONDS_BETWEEN_MARKS * 10**6
            marks = [(now, digest, fingerprint, recent, now) for digest in found]
            with contextlib.suppress(sqlite3.OperationalError), store:  # a full disk can still be read
                # Also marks in the future, from a clock that was ahead.
                store.executemany(
                    f"UPDATE entries SET used = ? {MATCHING} AND (used <= ? OR used > ?)", marks
                )
            return found

        return self._run(read, {})

    def put_many(self, fingerprint: str, digests: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> None:
        """Keep one row of float32 per digest, in one transaction: all of them or none."""
        if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != len(digests):
            raise InputError(
                f"Cannot cache vectors of shape {vectors.shape} and type {vectors.dtype} for {len(digests)} "
                "images: give one row of float32 per image."
            )

        def write(store: sqlite3.Connection) -> None:
            now = _now()
            with store:
                _delete(store, fingerprint, digests)
                for digest, row in dict(zip(digests, vectors, strict=True)).items():
                    vector = row.astype("<f4").tobytes()
                    entry = (digest, fingerprint, len(vector), _checksum(fingerprint, digest, vector), now)
                    new = store.execute("INSERT INTO entries VALUES (NULL, ?, ?, ?, ?, ?)", entry)
                    store.execute("INSERT INTO vectors VALUES (?, ?)", (new.lastrowid, vector))
            self._keep_within_limit(store)

        self._run(write, None, create=True)

    def _keep_within_limit(self, store: sqlite3.Connection) -> None:
        if _live_bytes(store) > self.limit_bytes:
            _evict(store, 0.9 * self.limit_bytes)
            _shrink(store)

    def delete_many(self, fingerprint: str | None, digests: Sequence[bytes]) -> int:
        """Delete these images' vectors, of one backbone or of all (None): no byte of them stays on disk.

        Returns how many there were. A failure is logged every time, because forgetting relies on it.
        """

        def delete(store: sqlite3.Connection) -> int:
            with store:
                deleted = _delete(store, fingerprint, digests)
                if fingerprint is None:
                    store.executemany("DELETE FROM files WHERE digest = ?", [(each,) for each in digests])
            _shrink(store)
            return deleted

        self._usable = True
        return self._run(delete, 0)

    def file_digests(self, files: Sequence[FileState]) -> dict[bytes, bytes]:
        """The digests of those files that are as they were when they were kept, by path."""

        def read(store: sqlite3.Connection) -> dict[bytes, bytes]:
            query = "SELECT digest FROM files WHERE path = ? AND size = ? AND modified = ? AND changed = ?"
            found = {}
            for file in files:
                for (digest,) in store.execute(query, (file.path, file.size, file.modified, file.changed)):
                    if isinstance(digest, bytes):
                        found[file.path] = digest
            return found

        return self._run(read, {})

    def keep_file_digests(self, digests: Mapping[FileState, bytes]) -> None:
        """Keep the digests of files, so that these need not be read again until they change."""
        rows = [
            (file.path, file.size, file.modified, file.changed, digest)
            for file, digest in digests.items()
            if file.settled
        ]

        def write(store: sqlite3.Connection) -> None:
            with store:
                store.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", rows)
            self._keep_within_limit(store)

        if rows:
            self._run(write, None, create=True)

    def completed(self, beginnings: Sequence[bytes]) -> dict[bytes, bytes]:
        """The whole digests of images, or of files, in the cache, by how they begin."""

        def find(store: sqlite3.Connection) -> dict[bytes, bytes]:
            files = _beginning_with(store, "digest FROM files", beginnings)
            return {**files, **_beginning_with(store, "digest FROM entries", beginnings)}

        return self._run(find, {})

    def paths_of(self, beginnings: Sequence[bytes]) -> dict[bytes, str]:
        """Where files were last seen, by how their digests begin."""

        nothing: dict[bytes, bytes] = {}
        found = self._run(lambda store: _beginning_with(store, "path FROM files", beginnings), nothing)
        return {each: os.fsdecode(path) for each, path in found.items()}

    def clear(self) -> int:
        """Delete everything; returns how many bytes that freed."""
        before = self._bytes()
        try:
            self._remove(self._identity())
        except OSError as error:
            logger.warning("The feature cache %s was not cleared: %s", self.path, error)
        return before - self._bytes()

    def stats(self) -> CacheStats:
        """Where the cache is, how large it is, and what it holds."""

        def count(store: sqlite3.Connection) -> dict[str, int]:
            return dict(store.execute("SELECT fingerprint, COUNT(*) FROM entries GROUP BY 1 ORDER BY 1"))

        counts: dict[str, int] = self._run(count, {})
        return CacheStats(self.path, self._bytes(), self.limit_bytes, sum(counts.values()), counts)

    def _run(self, work: Callable[[sqlite3.Connection], T], otherwise: T, create: bool = False) -> T:
        """Do the work on the store; return `otherwise` if there is no store, or it cannot be used."""
        seen = self._identity()
        if not self._usable or (seen is None and not create):
            return otherwise
        try:
            try:
                return self._connected(work)
            except (sqlite3.DatabaseError, UnicodeError) as error:
                if self._identity() == seen:  # else another process has replaced it meanwhile
                    if not self._is_damaged(error):
                        raise
                    logger.warning("The feature cache %s is damaged, starting anew: %s", self.path, error)
                    self._remove(seen)
                return self._connected(work)
        except (OSError, sqlite3.Error, UnicodeError, MemoryError) as error:
            # Not tried again: each attempt may have to wait for a lock.
            logger.warning("Continuing without the feature cache %s: %s", self.path, error)
            self._usable = False
            return otherwise

    def _connected(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._identity() is None:
            self._create()
        self._close_to_others()
        store = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", uri=True, timeout=SECONDS_TO_WAIT, isolation_level="IMMEDIATE"
        )
        with contextlib.closing(store):
            version = store.execute("PRAGMA user_version").fetchone()
            # Their text too: one changed letter can leave a table in which nothing is ever found.
            tables = store.execute(
                "SELECT sql FROM sqlite_master WHERE type = 'table' ORDER BY name"
            ).fetchall()
            if version != (SCHEMA_VERSION,) or tables != [(table,) for table in TABLES]:
                raise _OtherFormatError("it has the format of another version")
            store.execute("PRAGMA secure_delete = ON")  # also for what is evicted: it may be forgotten later
            store.execute("PRAGMA synchronous = NORMAL")
            return work(store)

    def _create(self) -> None:
        """Make the file elsewhere and move it here, so that nobody sees half of it."""
        folder = self.path.parent
        if not folder.exists():  # one that the user has made stays as it is
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
        with self._locked():
            if self._identity() is None:
                fresh = self.path.with_suffix(".new")
                _unlink(fresh)
                fresh.touch(PRIVATE)  # what SQLite puts next to it gets the same mode
                fresh.chmod(PRIVATE)
                with contextlib.closing(sqlite3.connect(fresh)) as store:
                    store.executescript(SCHEMA)
                _unlink(self.path)
                fresh.replace(self.path)

    def _remove(self, seen: int | None) -> None:
        """Remove the file that was seen, but not one that has replaced it since."""
        if seen is not None:
            with self._locked():
                if self._identity() == seen:
                    _unlink(self.path)

    def _locked(self) -> AbstractContextManager[None]:
        return locks.held(self._lock, locks.Permissions(PRIVATE), SECONDS_TO_WAIT)

    @property
    def _lock(self) -> Path:
        return self.path.with_suffix(".lock")

    def _close_to_others(self) -> None:
        for file in (*_files(self.path), self._lock):
            with contextlib.suppress(OSError):
                if stat.S_IMODE(file.stat().st_mode) & 0o077:
                    file.chmod(PRIVATE)

    def _is_damaged(self, error: sqlite3.DatabaseError | UnicodeError) -> bool:
        # Errors without a code are about bytes that should be text, in a value or a table's definition.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code == sqlite3.SQLITE_READONLY:  # from its header, if not from its permissions
            return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        if code == sqlite3.SQLITE_FULL:  # from a damaged row with the largest id, if not from files
            return shutil.disk_usage(self.path.parent).free > ROOM
        return code & 0xFF in DAMAGE

    def _identity(self) -> int | None:
        with contextlib.suppress(OSError):
            return self.path.stat().st_ino
        return None

    def _bytes(self) -> int:
        total = 0
        for path in _files(self.path):
            with contextlib.suppress(OSError):
                total += path.stat().st_size
        return total


class ReadOnlyCache(FeatureCache):
    """Another cache, in which nothing more is kept: for photos that are read to be forgotten."""

    def __init__(self, cache: FeatureCache) -> None:
        super().__init__(cache.path.parent, cache.limit_bytes)

    def put_many(self, fingerprint: str, digests: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> None:
        """Keep nothing."""


class NoCache:
    """A cache that is turned off: it holds nothing and keeps nothing."""

    def get_many(self, fingerprint: str, digests: Sequence[bytes]) -> dict[bytes, Vector]:
        """Find nothing."""
        return {}

    def put_many(self, fingerprint: str, digests: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> None:
        """Keep nothing."""

    def delete_many(self, fingerprint: str | None, digests: Sequence[bytes]) -> int:
        """Delete nothing."""
        return 0

    def file_digests(self, files: Sequence[FileState]) -> dict[bytes, bytes]:
        """Know no file."""
        return {}

    def keep_file_digests(self, digests: Mapping[FileState, bytes]) -> None:
        """Keep nothing."""

    def completed(self, beginnings: Sequence[bytes]) -> dict[bytes, bytes]:
        """Find nothing."""
        return {}

    def paths_of(self, beginnings: Sequence[bytes]) -> dict[bytes, str]:
        """Know no file."""
        return {}

    def clear(self) -> int:
        """Free nothing."""
        return 0

    def stats(self) -> CacheStats:
        """An empty `CacheStats`."""
        return CacheStats()


def parse_bytes(text: str) -> int:
    """A number of bytes as people write it.

    >>> parse_bytes("500MB"), parse_bytes("2 GB"), parse_bytes("1000")
    (500000000, 2000000000, 1000)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip().upper())
    if not match:
        raise InputError(f"{text!r} is not a number of bytes. Write it like 500MB or 2GB.")
    return int(float(match[1]) * 1000 ** ("KMGT".index(match[2]) + 1 if match[2] else 0))


def _limit_from_environment() -> int:
    try:
        return parse_bytes(os.environ.get("LAYUP_CACHE_LIMIT") or DEFAULT_LIMIT)
    except InputError as error:
        raise InputError(f"The environment variable LAYUP_CACHE_LIMIT cannot be used: {error}") from None


class _OtherFormatError(sqlite3.DatabaseError):
    sqlite_errorcode = sqlite3.SQLITE_NOTADB


def _now() -> int:
    """Microseconds: nanoseconds do not fit into SQLite's integers from the year 2262 on."""
    return int(time.time() * 10**6)


def _files(path: Path) -> list[Path]:
    """All files that SQLite makes for one database."""
    return [path, Path(f"{path}-wal"), Path(f"{path}-shm")]


def _unlink(path: Path) -> None:
    for each in _files(path):
        each.unlink(missing_ok=True)


def _checksum(fingerprint: str, digest: bytes, vector: bytes) -> int:
    """SQLite does not notice a changed bit in a value, but a wrong vector would be learned permanently."""
    return zlib.crc32(vector, zlib.crc32(digest, zlib.crc32(fingerprint.encode())))


def _delete(store: sqlite3.Connection, fingerprint: str | None, digests: Sequence[bytes]) -> int:
    keys = [(digest, fingerprint) for digest in digests]
    store.executemany(f"DELETE FROM vectors WHERE id IN (SELECT id FROM entries {MATCHING})", keys)
    return store.executemany(f"DELETE FROM entries {MATCHING}", keys).rowcount


def _beginning_with(store: sqlite3.Connection, what: str, beginnings: Sequence[bytes]) -> dict[bytes, bytes]:
    """One value per beginning of a digest, where there is any."""
    query = f"SELECT {what} WHERE digest BETWEEN ? AND ? LIMIT 1"
    rows = ((each, store.execute(query, (each, each + b"\xff" * 32)).fetchone()) for each in beginnings)
    return {each: row[0] for each, row in rows if row is not None and isinstance(row[0], bytes)}


def _live_bytes(store: sqlite3.Connection) -> int:
    pages, free, size = (
        store.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _evict(store: sqlite3.Connection, target: float) -> None:
    """Delete the least recently used entries until no more than `target` bytes are left.

    Entries used in the future, by a wrong clock, are deleted first: otherwise they would stay the longest.
    """
    order = "used <= :now, used, id"
    running = (
        f"SELECT id, SUM(bytes + :share) OVER (ORDER BY {order}) - bytes - :share AS before FROM entries"
    )
    with store:
        store.execute("BEGIN IMMEDIATE")  # two processes must not both delete the same excess
        # Digests of files are small, and stay when the features of a file are deleted: who has more photos
        # than features fit still need not read all of them again. Those that were kept first go first.
        files, names = store.execute("SELECT COUNT(*), TOTAL(LENGTH(path)) FROM files").fetchone()
        each = BYTES_OF_FILE + BYTES_PER_LETTER * names / max(files, 1)
        first_kept = "SELECT rowid FROM files ORDER BY rowid LIMIT ?"
        too_many = max(0, files - int(SHARE_OF_FILES * target / each))
        store.execute(f"DELETE FROM files WHERE rowid IN ({first_kept})", (too_many,))
        while (excess := (live := _live_bytes(store)) - target) > 0:
            entries, payload = store.execute("SELECT COUNT(*), TOTAL(bytes) FROM entries").fetchone()
            if entries == 0:
                return
            # The file holds more than vectors: keys, index and margins are shared among the entries.
            values = {"share": (live - payload) / entries, "excess": excess, "now": _now()}
            oldest = store.execute(f"SELECT id FROM ({running}) WHERE before < :excess", values).fetchall()
            store.executemany("DELETE FROM vectors WHERE id = ?", oldest)
            store.executemany("DELETE FROM entries WHERE id = ?", oldest)


def _shrink(store: sqlite3.Connection) -> None:
    """Return free pages to the disk, and leave no old page in the write-ahead log."""
    store.executescript("PRAGMA incremental_vacuum")  # execute() would free a single page
    busy, *_ = store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        logger.warning(
            "The feature cache is being read: deleted features are erased from the disk with the next write"
        )
