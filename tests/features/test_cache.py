"""The cache keeps what it was given, forgets what it is told to, and never stops the work."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from layup.errors import InputError
from layup.features import cache as cache_module
from layup.features.cache import CacheStats, FeatureCache, FileState, NoCache, parse_bytes
from processes import umask

RNG = np.random.default_rng(0)


def digests(*numbers: int) -> list[bytes]:
    return [number.to_bytes(32, "big") for number in numbers]


def vectors(count: int, width: int = 8) -> np.ndarray:
    return RNG.standard_normal((count, width)).astype(np.float32)


def raw(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def numbers_in(cache: FeatureCache, *numbers: int) -> list[int]:
    return [int.from_bytes(digest, "big") for digest in cache.get_many("net", digests(*numbers))]


@pytest.fixture
def cache(tmp_path):
    return FeatureCache(tmp_path / "cache")


@pytest.fixture
def every_use_marked(monkeypatch):
    monkeypatch.setattr(cache_module, "SECONDS_BETWEEN_MARKS", 0)


# Keeping


def test_values_come_back_bit_equal(cache):
    odd = np.array([[0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 1 / 3]], np.float32)
    odd.view(np.uint32)[0, 4] = 0x7FC12345  # a NaN with a payload
    cache.put_many("net", digests(1), odd)
    (found,) = cache.get_many("net", digests(1)).values()
    assert found.tobytes() == odd.tobytes()
    assert found.dtype == np.float32
    assert found.flags.writeable


def test_keys_are_pairs(cache):
    first, second = vectors(2), vectors(2, width=5)
    cache.put_many("one", digests(1, 2), first)
    cache.put_many("two", digests(2, 3), second)
    assert cache.get_many("three", digests(1, 2, 3)) == {}
    assert cache.get_many("one", []) == {}
    found = cache.get_many("two", digests(3, 1, 2, 3))
    assert list(found) == digests(3, 2)
    np.testing.assert_array_equal(found[digests(2)[0]], second[0])
    np.testing.assert_array_equal(cache.get_many("one", digests(2))[digests(2)[0]], first[1])


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["get", "put", "delete", "clear"]),
            st.sampled_from(["a", "b"]),
            st.lists(st.integers(0, 4), max_size=4),
        ),
        max_size=8,
    )
)
def test_it_behaves_as_a_dictionary(tmp_path_factory, steps):
    cache = FeatureCache(tmp_path_factory.mktemp("dictionary"))
    known: dict[tuple[str, bytes], np.ndarray] = {}
    for what, net, numbers in steps:
        keys = digests(*numbers)
        if what == "put":
            values = vectors(len(keys))
            cache.put_many(net, keys, values)
            known.update({(net, key): value for key, value in zip(keys, values, strict=True)})
        elif what == "get":
            found = cache.get_many(net, keys)
            assert found.keys() == {key for key in keys if (net, key) in known}
            assert all(value.tobytes() == known[net, key].tobytes() for key, value in found.items())
        elif what == "delete":
            which = net if len(keys) % 2 else None
            doomed = {pair for pair in known if pair[1] in keys and which in (None, pair[0])}
            assert cache.delete_many(which, keys) == len(doomed)
            known = {pair: value for pair, value in known.items() if pair not in doomed}
        else:
            cache.clear()
            known = {}
        assert cache.stats().entries == len(known)


def test_thousands_at_once(cache):
    many = digests(*range(2500))
    values = vectors(2500, width=3)
    cache.put_many("net", many, values)
    found = cache.get_many("net", many[::-1])
    np.testing.assert_array_equal(np.stack([found[digest] for digest in many]), values)
    assert cache.delete_many("net", many) == 2500


@pytest.mark.parametrize("bad", [np.zeros((2, 3)), np.zeros((3, 3), np.float32), np.zeros(2, np.float32)])
def test_what_is_not_a_row_of_float32_for_each(cache, bad):
    with pytest.raises(InputError, match=r"shape \(.*for 2 images"):
        cache.put_many("net", digests(1, 2), bad)


def test_the_file_is_made_by_the_first_write(cache):
    assert cache.get_many("net", digests(1)) == {}
    assert cache.delete_many(None, digests(1)) == 0
    assert cache.clear() == 0
    assert cache.stats() == CacheStats(cache.path, 0, 10**10, 0, {})
    assert not cache.path.parent.exists()
    cache.put_many("net", digests(1), vectors(1))
    assert cache.path.exists()


def test_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("LAYUP_CACHE", str(tmp_path / "environment"))
    assert FeatureCache().path == tmp_path / "environment" / "features.sqlite"
    assert FeatureCache(tmp_path).path == tmp_path / "features.sqlite"
    monkeypatch.delenv("LAYUP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert "layup" in FeatureCache().path.parts
    assert FeatureCache().path.name == "features.sqlite"
    monkeypatch.chdir(tmp_path)
    relative = FeatureCache("odd #?%20 name")
    relative.put_many("net", digests(1), vectors(1))
    monkeypatch.chdir("/")
    assert numbers_in(relative, 1) == [1]
    assert relative.path == tmp_path / "odd #?%20 name" / "features.sqlite"


def test_stats(cache):
    cache.put_many("one", digests(1, 2), vectors(2))
    cache.put_many("two", digests(2), vectors(1))
    stats = cache.stats()
    assert (stats.entries, stats.fingerprints) == (3, {"one": 2, "two": 1})
    assert stats.bytes == cache.path.stat().st_size > 0
    assert (stats.path, stats.limit) == (cache.path, 10**10)


def test_no_cache():
    cache = NoCache()
    cache.put_many("net", digests(1), vectors(1))
    assert cache.get_many("net", digests(1)) == {}
    assert cache.delete_many(None, digests(1)) == cache.clear() == 0
    assert cache.stats() == CacheStats()
    public = {name for name in vars(FeatureCache) if not name.startswith("_")}
    assert public == {name for name in vars(NoCache) if not name.startswith("_")}


# Limits


@pytest.mark.usefixtures("every_use_marked")
@pytest.mark.parametrize("width", [3, 250, 5000])
def test_the_least_recently_used_go(tmp_path, width):
    limit = max(60 * width * 4, 100_000)
    cache = FeatureCache(tmp_path, limit_bytes=limit)
    kept = limit // (width * 4 + 200) // 2  # so many fit for sure
    values = vectors(kept, width)
    cache.put_many("net", digests(*range(kept)), values)
    used = list(range(0, kept, 2))
    assert numbers_in(cache, *used) == used
    number = kept
    while cache.stats().entries == number:  # put until something is evicted
        more = max(1, kept // 10)
        cache.put_many("net", digests(*range(number, number + more)), vectors(more, width))
        number += more
    assert 0.7 * limit < cache.stats().bytes <= 0.9 * limit
    survivors = numbers_in(cache, *range(number))
    evicted = sorted(set(range(number)) - set(survivors))
    by_age = [*range(1, kept, 2), *used, *range(kept, number)]
    assert set(evicted) == set(by_age[: len(evicted)])
    found = cache.get_many("net", digests(*survivors))
    for survivor in survivors:
        if survivor < kept:
            assert found[digests(survivor)[0]].tobytes() == values[survivor].tobytes()


def test_more_than_the_limit_at_once(tmp_path):
    cache = FeatureCache(tmp_path, limit_bytes=200_000)
    cache.put_many("net", digests(*range(100)), vectors(100, 1000))
    stats = cache.stats()
    assert stats.bytes <= 0.9 * 200_000
    assert 20 < stats.entries < 50
    nothing_fits = FeatureCache(tmp_path / "tiny", limit_bytes=1)
    nothing_fits.put_many("net", digests(1), vectors(1))
    assert nothing_fits.stats().entries == 0


def test_a_use_is_not_noted_twice_in_a_row(cache):
    cache.put_many("net", digests(1), vectors(1))
    before = cache.path.read_bytes()
    assert numbers_in(cache, 1) == [1]
    assert cache.path.read_bytes() == before


# Forgetting


@pytest.mark.parametrize("width", [16, 3000])
def test_deleted_vectors_leave_no_bytes_behind(cache, width):
    folder = cache.path.parent
    values = vectors(40, width)
    cache.put_many("one", digests(*range(40)), values)
    cache.put_many("two", digests(*range(40)), values)
    sentinels = [values[number, -8:].tobytes() for number in range(40)]
    assert all(raw(folder).count(sentinel) >= 2 for sentinel in sentinels)
    # Another process may keep the write-ahead log alive.
    reader = sqlite3.connect(cache.path)
    reader.execute("SELECT COUNT(*) FROM entries").fetchall()
    before = cache.stats().bytes
    assert cache.delete_many(None, digests(*range(10, 30))) == 40
    assert not any(sentinel in raw(folder) for sentinel in sentinels[10:30])
    assert all(sentinel in raw(folder) for sentinel in sentinels[:10] + sentinels[30:])
    reader.close()
    assert cache.stats().bytes < before
    assert cache.delete_many("one", digests(0)) == 1
    assert sentinels[0] in raw(folder)
    assert cache.delete_many("two", digests(0)) == 1
    assert sentinels[0] not in raw(folder)


def test_evicted_vectors_leave_no_bytes_behind(tmp_path):
    cache = FeatureCache(tmp_path, limit_bytes=100_000)
    values = vectors(3000, 16)
    cache.put_many("net", digests(*range(3000)), values)
    left = set(numbers_in(cache, *range(3000)))
    assert 0 < len(left) < 3000
    everything = raw(tmp_path)
    assert {number for number in range(3000) if values[number].tobytes() in everything} == left


def test_replaced_vectors_leave_no_bytes_behind(cache):
    old, new = vectors(1, 3000), vectors(1, 3000)
    cache.put_many("net", digests(1), old)
    cache.put_many("net", digests(1), new)
    assert old[0, :8].tobytes() not in raw(cache.path.parent)
    assert cache.get_many("net", digests(1))[digests(1)[0]].tobytes() == new.tobytes()


def test_a_reader_in_the_way_of_deletion_is_reported(cache, monkeypatch, caplog):
    monkeypatch.setattr(cache_module, "SECONDS_TO_WAIT", 0.1)
    cache.put_many("net", digests(1), vectors(1))
    reader = sqlite3.connect(cache.path)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM entries").fetchall()
    assert cache.delete_many("net", digests(1)) == 1
    assert "is being read" in caplog.text
    reader.close()


def test_clear(cache):
    cache.put_many("net", digests(*range(50)), vectors(50, 1000))
    size = cache.stats().bytes
    assert cache.clear() == size > 200_000
    assert cache.stats().entries == 0
    cache.put_many("net", digests(1), vectors(1))
    assert numbers_in(cache, 1) == [1]


# Processes


def test_torch_is_not_imported():
    code = "import layup.features.cache, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


WRITER = """
import sys, itertools, numpy as np
from layup.features.cache import FeatureCache
folder, start, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
cache = FeatureCache(folder)
for turn in range(rounds):
    numbers = range(start + 20 * turn, start + 20 * turn + 20)
    keys = [number.to_bytes(32, "big") for number in numbers]
    cache.put_many("net", keys, np.array([[number] * 2000 for number in numbers], np.float32))
    print(turn, flush=True)
"""


def writer(folder: Path, start: int, rounds: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(start), str(rounds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_written(cache: FeatureCache, numbers: range) -> int:
    """How many of the writer's vectors are there; each must be right."""
    found = cache.get_many("net", digests(*numbers))
    for digest, vector in found.items():
        np.testing.assert_array_equal(vector, np.full(2000, int.from_bytes(digest, "big"), np.float32))
    return len(found)


@pytest.mark.parametrize("rounds_before", [1, 2, 5])
def test_killed_while_writing(cache, caplog, rounds_before):
    with writer(cache.path.parent, 0, 10_000) as process:
        for _ in range(rounds_before):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    written = check_written(cache, range(20_000))
    assert written >= 20 * rounds_before
    assert written % 20 == 0  # a transaction is there as a whole or not at all
    cache.put_many("net", digests(90_000), np.full((1, 2000), 90_000, np.float32))
    assert check_written(cache, range(90_000, 90_001)) == 1
    assert not caplog.records


def test_processes_writing_at_once(cache, caplog):
    writers = [writer(cache.path.parent, 1000 * number, 10) for number in range(3)]
    for turn in range(5):
        cache.put_many("net", digests(5000 + turn), np.full((1, 2000), 5000 + turn, np.float32))
    for process in writers:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    assert check_written(cache, range(6000)) == 3 * 200 + 5
    assert not caplog.records


def test_threads_share_a_cache(cache, caplog):
    def use(number: int) -> list[int]:
        cache.put_many("net", digests(number), vectors(1))
        return numbers_in(cache, number)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(use, range(40))) == [[number] for number in range(40)]
    assert not caplog.records


def put_and_get(cache: FeatureCache, number: int) -> list[int]:
    cache.put_many("net", digests(number), vectors(1))
    return numbers_in(cache, 1, number)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_children_use_a_cache_of_their_parent(cache, start):
    cache.put_many("net", digests(1), vectors(1))
    with multiprocessing.get_context(start).Pool(2) as pool:
        assert pool.starmap(put_and_get, [(cache, 2), (cache, 3)]) == [[1, 2], [1, 3]]
    assert numbers_in(cache, 1, 2, 3) == [1, 2, 3]
    assert numbers_in(pickle.loads(pickle.dumps(cache)), 2) == [2]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_nothing_is_left_open(cache):
    cache.put_many("net", digests(1), vectors(1))
    cache.get_many("net", digests(1))
    assert not [path for path in open_files() if path.startswith(str(cache.path.parent))]
    assert {path.name for path in cache.path.parent.iterdir()} <= {"features.sqlite", "features.lock"}


def open_files() -> list[str]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(each.readlink()))
        except OSError:
            continue
    return found


# Trouble


def warned(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    (record,) = caplog.records
    return (
        record.levelno == logging.WARNING
        and record.name == "layup.features.cache"
        and words in record.getMessage()
    )


def test_a_folder_that_cannot_be_made(tmp_path, caplog):
    (tmp_path / "file").touch()
    cache = FeatureCache(tmp_path / "file" / "cache")
    for _ in range(3):
        assert cache.get_many("net", digests(1)) == {}
        cache.put_many("net", digests(1), vectors(1))
        assert cache.delete_many(None, digests(1)) == 0
        assert cache.stats().entries == cache.clear() == 0
    assert "Continuing without" in caplog.records[0].getMessage()
    assert str(cache.path) in caplog.text


def test_only_one_warning_for_many_writes(tmp_path, caplog):
    (tmp_path / "file").touch()
    cache = FeatureCache(tmp_path / "file" / "cache")
    for _ in range(3):
        cache.put_many("net", digests(1), vectors(1))
        cache.get_many("net", digests(1))
    assert warned(caplog, "Continuing without")


def test_a_folder_in_the_place_of_the_file(tmp_path, caplog):
    (tmp_path / "features.sqlite").mkdir()
    cache = FeatureCache(tmp_path)
    cache.put_many("net", digests(1), vectors(1))
    assert cache.get_many("net", digests(1)) == {}
    assert warned(caplog, "Continuing without")
    caplog.clear()
    assert cache.clear() == 0
    assert warned(caplog, "was not cleared")


@pytest.mark.parametrize(("free", "left"), [(1000, [1]), (10**12, [])])
def test_a_full_disk(cache, monkeypatch, caplog, free, left):
    """SQLite may also say so of a damaged table, though the disk is not full: then the cache starts anew."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    cache.put_many("net", digests(1), vectors(1, 1000))
    original = FeatureCache._connected

    def filled(self, work):
        def limited(store):
            pages = store.execute("PRAGMA page_count").fetchone()[0]
            store.execute(f"PRAGMA max_page_count = {pages}").fetchall()
            return work(store)

        return original(self, limited)

    monkeypatch.setattr(FeatureCache, "_connected", filled)
    assert numbers_in(cache, 1) == [1]
    cache.put_many("net", digests(*range(2, 50)), vectors(48, 1000))
    assert "database or disk is full" in caplog.text
    assert ("starting anew" in caplog.text) == (left == [])
    monkeypatch.undo()
    assert numbers_in(FeatureCache(cache.path.parent), *range(50)) == left


def test_locked_for_too_long(cache, monkeypatch, caplog):
    monkeypatch.setattr(cache_module, "SECONDS_TO_WAIT", 0.1)
    cache.put_many("net", digests(1), vectors(1))
    other = sqlite3.connect(cache.path)
    other.execute("BEGIN IMMEDIATE")
    assert numbers_in(cache, 1) == [1]  # reading goes on
    cache.put_many("net", digests(2), vectors(1))
    assert warned(caplog, "locked")
    other.rollback()
    other.close()
    assert cache.delete_many("net", digests(1)) == 1  # deletion insists


@pytest.mark.parametrize("content", [b"", b"not a database", bytes(5000), b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_no_database(tmp_path, caplog, content):
    cache = FeatureCache(tmp_path)
    cache.path.write_bytes(content)
    assert cache.get_many("net", digests(1)) == {}
    assert warned(caplog, "starting anew")
    cache.put_many("net", digests(1), vectors(1))
    assert numbers_in(cache, 1) == [1]
    assert len(caplog.records) == 1


def test_another_format_is_replaced(cache, caplog):
    cache.put_many("net", digests(1), vectors(1))
    with sqlite3.connect(cache.path) as store:
        store.execute("PRAGMA user_version = 99")
    store.close()
    assert cache.get_many("net", digests(1)) == {}
    assert warned(caplog, "another version")
    cache.put_many("net", digests(1), vectors(1))
    assert numbers_in(cache, 1) == [1]


def test_a_missing_table_is_replaced(cache, caplog):
    cache.put_many("net", digests(1), vectors(1))
    with sqlite3.connect(cache.path) as store:
        store.execute("DROP TABLE vectors")
    store.close()
    assert cache.get_many("net", digests(1)) == {}
    assert warned(caplog, "another version")


def test_damage_anywhere_never_gives_a_wrong_vector(cache):
    values = vectors(30, 200)
    cache.put_many("net", digests(*range(30)), values)
    whole = cache.path.read_bytes()
    random = np.random.default_rng(1)
    for turn in range(45):
        damaged = bytearray(whole)
        if turn % 3 == 0:
            del damaged[random.integers(1, len(whole)) :]
        else:
            where = random.integers(0, len(whole), 20 if turn % 3 == 1 else 2000)
            for index in where:
                damaged[index] = random.integers(0, 256)
        cache_module._unlink(cache.path)
        cache.path.write_bytes(damaged)
        used = FeatureCache(cache.path.parent, limit_bytes=len(whole))
        for digest, vector in used.get_many("net", digests(*range(30))).items():
            assert vector.tobytes() == values[int.from_bytes(digest, "big")].tobytes()
        used.put_many("net", digests(99), values[:1])
        used.delete_many(None, digests(*range(15)))
        used.stats()
        used.clear()


def test_a_log_without_its_database_is_not_replayed(cache):
    cache.put_many("net", digests(1), vectors(1))
    reader = sqlite3.connect(cache.path)
    reader.execute("SELECT * FROM entries").fetchall()
    cache.put_many("net", digests(2), vectors(1))
    log = Path(f"{cache.path}-wal").read_bytes()
    reader.close()
    assert log
    cache.path.unlink()
    Path(f"{cache.path}-wal").write_bytes(log)
    cache.put_many("net", digests(3), vectors(1))
    assert numbers_in(cache, 1, 2, 3) == [3]


def test_two_who_see_the_same_damage_replace_it_once(cache):
    cache.put_many("net", digests(1), vectors(1))
    seen = cache._identity()
    replacement = cache.path.with_name("replacement")
    replacement.write_bytes(cache.path.read_bytes())
    os.replace(replacement, cache.path)  # noqa: PTH105
    cache._remove(seen)
    assert numbers_in(cache, 1) == [1]


def test_the_limit_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYUP_CACHE_LIMIT", "1.5MB")
    assert FeatureCache(tmp_path).limit_bytes == 1_500_000
    assert FeatureCache(tmp_path, limit_bytes=7).limit_bytes == 7


@pytest.mark.parametrize("text", ["", "lots", "-3MB", "2 PB", "1,5GB"])
def test_a_limit_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a number of bytes"):
        parse_bytes(text)


# Privacy


def modes(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


@contextmanager
def being_read(cache: FeatureCache) -> Iterator[None]:
    """Another process keeps the log of writes, and what belongs to it, alive."""
    reader = sqlite3.connect(cache.path)
    reader.execute("SELECT COUNT(*) FROM entries").fetchall()
    try:
        yield
    finally:
        reader.close()


ALL_FILES = {"features.sqlite", "features.sqlite-wal", "features.sqlite-shm", "features.lock"}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o377])
def test_nobody_else_can_read_a_cache(cache, mask):
    with umask(mask):
        cache.put_many("net", digests(1), vectors(1))
        with being_read(cache):
            cache.put_many("net", digests(2), vectors(1))
            assert modes(cache.path.parent) == dict.fromkeys(ALL_FILES, 0o600)
    assert stat.S_IMODE(cache.path.parent.stat().st_mode) == 0o700


def test_a_cache_that_others_could_read_is_closed_to_them(cache):
    cache.put_many("net", digests(1), vectors(1))
    with being_read(cache):
        cache.put_many("net", digests(2), vectors(1))
        for name in ALL_FILES:
            (cache.path.parent / name).chmod(0o664)
        assert numbers_in(FeatureCache(cache.path.parent), 1, 2) == [1, 2]
        assert modes(cache.path.parent) == dict.fromkeys(ALL_FILES, 0o600)


def test_a_folder_that_the_user_made_is_left_as_it_is(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o755)
    FeatureCache(tmp_path / "mine").put_many("net", digests(1), vectors(1))
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o755


# Clocks


@pytest.mark.parametrize("year", [1969, 1970, 2300, 2500, 9999, 20000])
def test_any_clock_will_do(cache, monkeypatch, caplog, year):
    seconds = (year - 1970) * 31_556_952
    monkeypatch.setattr(time, "time_ns", lambda: seconds * 10**9)
    monkeypatch.setattr(time, "time", lambda: float(seconds))
    cache.put_many("net", digests(1, 2), vectors(2))
    assert numbers_in(cache, 1, 2, 3) == [1, 2]
    assert not caplog.records


def test_what_was_used_in_the_future_is_no_more_recent_than_the_rest(tmp_path, monkeypatch):
    """A clock that was wrong once would else keep what was used then, and throw all newer entries away."""
    cache = FeatureCache(tmp_path, limit_bytes=100_000)
    now = time.time()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now + 10**9)
        cache.put_many("net", digests(*range(10)), vectors(10, 1000))
    assert numbers_in(cache, 3) == [3]  # used now, by a clock that is right
    number = 10
    while cache.stats().entries == number:
        cache.put_many("net", digests(number), vectors(1, 1000))
        number += 1
    left = numbers_in(cache, *range(number))
    assert left[0] == 3
    assert set(range(10, number)) < set(left)


# Any byte


def changed(cache: FeatureCache, whole: bytes, position: int, value: int) -> FeatureCache:
    """A cache whose file differs from `whole` in one byte."""
    cache_module._unlink(cache.path)
    cache.path.write_bytes(whole[:position] + bytes([value]) + whole[position + 1 :])
    return FeatureCache(cache.path.parent, limit_bytes=len(whole))


def positions(whole: bytes) -> list[int]:
    """Some of the head of the file, of the text of its tables, and of the rest."""
    text = whole.index(b"CREATE TABLE entries")
    rest = np.random.default_rng(2).integers(100, len(whole), 20).tolist()
    return [18, 19, 60, 63, *range(0, 100, 5), *range(text - 20, text + 160, 6), *rest]


def test_no_changed_byte_stops_the_work_or_gives_a_wrong_vector(cache):
    values = vectors(12, 100)
    cache.put_many("net", digests(*range(12)), values)
    whole = cache.path.read_bytes()
    for position in positions(whole):
        used = changed(cache, whole, position, 255 - whole[position])
        for digest, vector in used.get_many("net", digests(*range(12))).items():
            assert vector.tobytes() == values[int.from_bytes(digest, "big")].tobytes()
        used.put_many("net", digests(99), values[:1])
        used.stats()
        used.delete_many(None, digests(1))
        again = FeatureCache(cache.path.parent)
        many = [bytes([first]) * 32 for first in range(0, 256, 32)]  # a wrong index can miss some
        again.put_many("net", many, values[:8])
        assert again.get_many("net", many), f"byte {position} made it useless"


# Digests of files


def file(number: int, version: int = 0) -> FileState:
    """A file that has rested for long."""
    return FileState(b"/photos/%d.jpg" % number, 1000 + version, 10**15 + version, 10**15)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["keep", "ask", "delete", "clear"]),
            st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=4),
        ),
        max_size=8,
    )
)
def test_digests_of_files_are_those_of_a_dictionary(tmp_path_factory, steps):
    cache = FeatureCache(tmp_path_factory.mktemp("files"))
    known: dict[bytes, tuple[FileState, bytes]] = {}
    for step, (what, pairs) in enumerate(steps):
        files = [file(*pair) for pair in pairs]
        if what == "keep":
            kept = {each: digests(each.size % 3 + 3 * (step % 2))[0] for each in files}
            cache.keep_file_digests(kept)
            known.update({each.path: (each, digest) for each, digest in kept.items()})
        elif what == "ask":
            expected = {
                each.path: known[each.path][1] for each in files if known.get(each.path, (0,))[0] == each
            }
            assert cache.file_digests(files) == expected
        elif what == "delete":
            gone = digests(*(version for _, version in pairs))
            cache.delete_many("net", gone)  # of one backbone: the file is still known
            cache.delete_many(None, gone)
            known = {path: held for path, held in known.items() if held[1] not in gone}
        else:
            cache.clear()
            known = {}
    paths = {digest: os.fsdecode(path) for path, (_, digest) in known.items()}
    found = cache.paths_of(digests(*range(6)))
    assert found.keys() == paths.keys()
    assert {os.fsencode(path) for path in found.values()} <= known.keys()


def test_a_file_that_changes_is_known_anew(cache):
    cache.keep_file_digests({file(1): digests(1)[0]})
    assert cache.file_digests([file(1, version=1)]) == {}
    cache.keep_file_digests({file(1, version=1): digests(2)[0]})
    assert cache.file_digests([file(1), file(1, version=1)]) == {file(1).path: digests(2)[0]}
    assert cache.paths_of(digests(1, 2)) == {digests(2)[0]: "/photos/1.jpg"}


def test_names_that_are_no_text_come_back(cache):
    odd = FileState(b"/photos/caf\xe9.jpg", 1, 0, 0)
    cache.keep_file_digests({odd: digests(1)[0]})
    assert os.fsencode(cache.paths_of(digests(1))[digests(1)[0]]) == odd.path


def test_digests_are_completed_from_how_they_begin(cache):
    whole = [bytes([7] * 16) + bytes([last] * 16) for last in (0, 255)] + digests(3)
    cache.put_many("net", whole[1:], vectors(2))
    assert cache.completed([each[:16] for each in whole]) == {
        whole[1][:16]: whole[1],
        whole[2][:16]: whole[2],
    }
    assert cache.completed([]) == cache.completed([bytes([7] * 15 + [8])]) == {}
    cache.put_many("other", [b"\xff" * 32], vectors(1))
    assert cache.completed([b"\xff" * 16]) == {b"\xff" * 16: b"\xff" * 32}


def test_digests_of_files_stay_when_features_are_evicted(tmp_path):
    """Who has more photos than fit need not read them again; but they are a tenth of the cache at most."""
    cache = FeatureCache(tmp_path, limit_bytes=400_000)
    files = [file(number) for number in range(2000)]
    cache.keep_file_digests({each: digests(number)[0] for number, each in enumerate(files[:100])})
    cache.put_many("net", digests(*range(60)), vectors(60, 2000))
    assert 0 < cache.stats().entries < 60
    assert len(cache.file_digests(files[:100])) == 100
    for start in range(100, 2000, 100):
        part = {each: digests(start + number)[0] for number, each in enumerate(files[start : start + 100])}
        cache.keep_file_digests(part)
        cache.put_many("net", digests(start), vectors(1, 2000))
    kept = cache.file_digests(files)
    assert 100 < len(kept) < 600
    assert {*kept} == {each.path for each in files[-len(kept) :]}  # the oldest have gone
    assert cache.stats().bytes <= 1.1 * 400_000
    assert cache.stats().entries > 0


def test_deleting_an_image_deletes_where_it_was(cache, tmp_path):
    cache.keep_file_digests({FileState(b"/secret/place.jpg", 1, 0, 0): digests(1)[0]})
    assert b"/secret/place.jpg" in raw(tmp_path / "cache")
    cache.delete_many(None, digests(1))
    assert b"/secret/place.jpg" not in raw(tmp_path / "cache")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE files SET digest = 'text'",
        "UPDATE files SET digest = NULL",
        "UPDATE files SET path = 7",
        "UPDATE files SET size = 'large', modified = NULL",
        "UPDATE entries SET digest = 'text'",
        "DROP TABLE files",
        "ALTER TABLE files RENAME COLUMN digest TO d",
        "DROP INDEX files_by_digest",
    ],
)
def test_damaged_digests_of_files_are_none(cache, statement, caplog):
    cache.put_many("net", digests(1), vectors(1))
    cache.keep_file_digests({file(1): digests(1)[0]})
    with sqlite3.connect(cache.path) as store:
        store.execute(statement)
    store.close()
    right = {file(1).path: digests(1)[0]}
    assert cache.file_digests([file(1)]) in ({}, right)
    assert cache.paths_of(digests(1)) in ({}, {digests(1)[0]: "/photos/1.jpg"})
    assert cache.completed([digests(1)[0][:16]]) in ({}, {digests(1)[0][:16]: digests(1)[0]})
    for _ in range(3):
        FeatureCache(cache.path.parent).keep_file_digests({file(1): digests(1)[0]})
    assert FeatureCache(cache.path.parent).file_digests([file(1)]) == right


def test_no_cache_knows_no_file():
    cache = NoCache()
    cache.keep_file_digests({file(1): digests(1)[0]})
    assert cache.file_digests([file(1)]) == cache.completed(digests(1)) == cache.paths_of(digests(1)) == {}
