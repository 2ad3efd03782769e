"""The feature cache on a disk that went wrong: what it gives is right to the bit, or it gives nothing."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from layup import FeatureCache
from torture import raw_bytes
from torture.promise import BrokenError, Promise, Tries, about, require

ENTRIES, WIDTH = 60, 300
FINGERPRINT = "network"
DIGESTS = [f"image {i}".encode() for i in range(ENTRIES)]
PAGE = 4096
MENDED = 8
"""Commands after which a damaged cache must be as good as a new one."""

Vectors = NDArray[np.float32]


def vectors() -> Vectors:
    """What was computed, and what would be computed again."""
    return np.random.default_rng(7).normal(size=(ENTRIES, WIDTH)).astype(np.float32)


def check(cache: FeatureCache, truth: Vectors) -> None:
    """Use a cache as layup does: nothing that it gives may be wrong, and nothing may stop the work."""
    for _ in range(2):
        found = cache.get_many(FINGERPRINT, DIGESTS)
        missing = [i for i, digest in enumerate(DIGESTS) if digest not in found]
        for i, digest in enumerate(DIGESTS):
            right = i in missing or found[digest].tobytes() == truth[i].tobytes()
            require(right, "features are wrong", digest)
        if missing:
            cache.put_many(FINGERPRINT, [DIGESTS[i] for i in missing], truth[missing])
    cache.stats()
    cache.delete_many(None, DIGESTS[:5])
    left = cache.get_many(FINGERPRINT, DIGESTS[:5])
    require(not left, "features that were deleted are still there")


def require_mended(folder: Path, truth: Vectors) -> None:
    """After a few commands that compute what is missing, each with its own cache, nothing is missing."""
    for _ in range(MENDED):
        cache = FeatureCache(folder)
        found = cache.get_many(FINGERPRINT, DIGESTS)
        missing = [i for i, digest in enumerate(DIGESTS) if digest not in found]
        if not missing:
            return
        cache.put_many(FINGERPRINT, [DIGESTS[i] for i in missing], truth[missing])
    raise BrokenError("what was put is never found", [DIGESTS[i] for i in missing])


# ---- what happens to its file


def _bytes_of_file(folder: Path, chance: Random) -> None:
    _change(folder / "features.sqlite", chance)


def _bytes_of_log(folder: Path, chance: Random) -> None:
    log = folder / f"features.sqlite-{chance.choice(('wal', 'shm'))}"
    if log.exists() and chance.random() < 0.7:
        _change(log, chance)
    else:
        log.write_bytes(
            chance.choice((b"", b"\0" * PAGE, chance.randbytes(10_000), b"\x37\x7f\x06\x82" * 500))
        )


def _change(path: Path, chance: Random) -> None:
    data = path.read_bytes()
    for _ in range(chance.choice((1, 1, 5))):
        data, _said = raw_bytes.mutated(data, chance)
    path.write_bytes(data)


def _pages(folder: Path, chance: Random) -> None:
    """Swapped, repeated, emptied or gone."""
    path = folder / "features.sqlite"
    data = path.read_bytes()
    pages = [data[start : start + PAGE] for start in range(0, len(data), PAGE)]
    for _ in range(chance.choice((1, 2, 10))):
        one, other = chance.randrange(len(pages)), chance.randrange(len(pages))
        way = chance.choice(("swap", "copy", "zero", "noise", "drop"))
        if way == "swap":
            pages[one], pages[other] = pages[other], pages[one]
        elif way == "drop" and len(pages) > 1:
            del pages[one]
        else:
            pages[one] = {"copy": pages[other], "zero": bytes(PAGE)}.get(way, chance.randbytes(PAGE))
    path.write_bytes(b"".join(pages))


STATEMENTS = (
    "PRAGMA user_version = 0",
    "PRAGMA user_version = 2147483647",
    "UPDATE vectors SET vector = zeroblob(1200)",
    "UPDATE vectors SET vector = 'text' WHERE id % 2",
    "UPDATE vectors SET id = id + 1000",
    "UPDATE vectors SET vector = (SELECT vector FROM vectors WHERE id = 1)",
    "UPDATE entries SET checksum = 0",
    "UPDATE entries SET checksum = 'text'",
    "UPDATE entries SET used = 9223372036854775807",
    "UPDATE entries SET used = NULL, bytes = -1",
    "UPDATE entries SET fingerprint = X'00FF'",
    "UPDATE entries SET fingerprint = NULL",
    "DROP TABLE vectors",
    "DROP TABLE entries",
    "ALTER TABLE entries RENAME COLUMN checksum TO sum",
    "DELETE FROM vectors",
    "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
    "CREATE TRIGGER t BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'no'); END",
    "PRAGMA journal_mode = DELETE",
)


def _another_database(folder: Path, chance: Random) -> None:
    """Sound for SQLite, but not what layup wrote."""
    with closing(sqlite3.connect(folder / "features.sqlite")) as store, store:
        for statement in chance.sample(STATEMENTS, chance.choice((1, 1, 2))):
            try:
                store.execute(statement)
            except sqlite3.DatabaseError:
                continue  # the first has made the second impossible


WAYS: Sequence[Callable[[Path, Random], None]] = (
    *(_bytes_of_file, _bytes_of_file, _bytes_of_log, _pages, _pages, _another_database),
)


def prepare(folder: Path) -> Tries:
    """Two caches: one at rest, and one whose last writes are in the log still."""
    truth = vectors()
    rest, busy = folder / "rest", folder / "busy"
    FeatureCache(rest).put_many(FINGERPRINT, DIGESTS, truth)
    cache = FeatureCache(folder / "open")
    cache.put_many(FINGERPRINT, DIGESTS[:30], truth[:30])
    with closing(sqlite3.connect(cache.path)) as reader:
        reader.execute("SELECT COUNT(*) FROM entries").fetchone()  # while one reads, the log is not put away
        cache.put_many(FINGERPRINT, DIGESTS[30:], truth[30:])
        shutil.copytree(cache.path.parent, busy)

    def attempt(index: int, chance: Random, home: Path) -> None:
        shutil.copytree(chance.choice((rest, busy)), home, dirs_exist_ok=True)
        way = chance.choice(WAYS)
        way(home, chance)
        with about(way.__name__.strip("_")):
            check(FeatureCache(home), truth)
            require_mended(home, truth)

    return Tries(attempt)


PROMISE = Promise(
    "caches",
    "A damaged feature cache gives features that are right to the bit, or none; it never stops the work.",
    10_000,
    prepare,
)
