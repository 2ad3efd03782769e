from __future__ import annotations

import errno
import os
import stat
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layup import RidgeClassifier
from layup.algebra.statistics import GramStatistics
from layup.errors import StorageError
from layup.features.spool import Spool

MEMORY, DISK = 10**9, 0
everywhere = pytest.mark.parametrize("limit", [MEMORY, DISK], ids=["memory", "disk"])


def batches(count: int, width: int) -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=(size, width)).astype(np.float32) for size in (3, 0, 1, count - 4)]


@everywhere
def test_rows_come_back_in_order(limit: int, tmp_path: Path) -> None:
    parts = batches(20, 7)
    with Spool(25, 7, tmp_path, limit) as spool:  # some images may be unusable
        for part in parts:
            spool.append(part)
        rows = spool.rows()
        assert (rows.dtype, isinstance(rows, np.memmap)) == (np.float32, limit == DISK)
        np.testing.assert_array_equal(rows, np.concatenate(parts))
        np.testing.assert_array_equal(rows[[19, 0]], np.concatenate(parts)[[19, 0]])


@everywhere
def test_rows_are_stored_as_float32_however_they_lie(limit: int, tmp_path: Path) -> None:
    x = np.arange(12.0).reshape(3, 4)
    with Spool(6, 3, tmp_path, limit) as spool:
        spool.append(x.T[:2])
        spool.append(x.T[::-2].astype(np.float32))
        np.testing.assert_array_equal(spool.rows(), np.concatenate([x.T[:2], x.T[::-2]]))


@everywhere
def test_a_spool_may_stay_empty(limit: int, tmp_path: Path) -> None:
    with Spool(5, 3, tmp_path, limit) as spool:
        assert spool.rows().shape == (0, 3)


def test_what_fits_the_limit_stays_in_memory(tmp_path: Path) -> None:
    with Spool(10, 5, tmp_path, limit=200) as small, Spool(10, 6, tmp_path, limit=200) as large:
        for spool in (small, large):
            spool.append(np.ones((1, spool.width), np.float32))
        assert not isinstance(small.rows(), np.memmap)
        assert isinstance(large.rows(), np.memmap)


def test_no_file_is_left_and_none_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Spool(5, 3, tmp_path, DISK) as spool:  # noqa: PT012
        spool.append(np.ones((2, 3), np.float32))
        assert not list(tmp_path.iterdir())  # so that a killed process leaves none either
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_without_a_folder_of_its_own_the_file_is_where_temporary_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    temporary = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda dir: used.append(dir) or temporary(dir=dir))
    for folder in (tmp_path, None, tmp_path / "not there"):
        Spool(5, 3, folder, DISK).close()
    assert used == [tmp_path, Path(tempfile.gettempdir()), Path(tempfile.gettempdir())]


@pytest.mark.parametrize("at", ["opening", "writing", "flushing"])
def test_a_full_disk_is_told_in_a_sentence(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, dir: Path) -> None:
            if at == "opening":
                self.fail()

        def write(self, data: Any) -> None:
            if at == "writing":
                self.fail()

        def flush(self) -> None:
            self.fail()

        def close(self) -> None:
            pass

        def fail(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    with (  # noqa: PT012
        pytest.raises(StorageError, match=r"take 4\.0 MB on the disk .*cannot hold them \(No space left"),
        Spool(1000, 1000, tmp_path, DISK) as spool,
    ):
        spool.append(np.ones((2, 1000), np.float32))
        spool.rows()


@pytest.mark.parametrize("way", ["sums", "number", "gcv"])
def test_memory_while_learning_does_not_grow_with_samples(way: str, tmp_path: Path) -> None:
    width, classes = 300, 10

    def peak(count: int) -> int:
        rng = np.random.default_rng(0)
        with Spool(count, width, tmp_path, DISK) as spool:
            for _ in range(count // 1000):
                spool.append(rng.normal(size=(1000, width)).astype(np.float32))
            rows, labels = spool.rows(), np.arange(count) % classes
            tracemalloc.start()
            if way == "sums":
                GramStatistics(width).update(rows, labels)
            else:
                RidgeClassifier(1.0 if way == "number" else "gcv").fit(rows, labels)
            highest = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return highest

    peak(1000)  # what is imported at first use
    few, many = peak(2_000), peak(20_000)
    # Labels are checked and counted, some bytes each; the features would be 1,200 bytes a sample.
    assert many - few < 200 * 18_000


def test_nobody_else_can_read_what_is_on_the_disk(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Spool(10, 6, tmp_path, DISK) as spool:
            spool.append(np.zeros((1, 6), np.float32))
            (ours,) = [
                file for file in Path("/proc/self/fd").iterdir() if str(tmp_path) in os.path.realpath(file)
            ]
            assert stat.S_IMODE(ours.stat().st_mode) == 0o600
    finally:
        os.umask(before)
