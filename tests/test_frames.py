"""Files that grow by records: whatever is cut off or changed, only an unfinished end is left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from layup import frames
from layup.errors import DamagedFileError, StorageError

BODIES = [b"first", b"", b"\x8flayup\r\n" * 3, b"last"]


def written(path: Path) -> bytes:
    """A file of these bodies, and its contents."""
    frames.create(path, BODIES[:1])
    appender = frames.Appender(path, frames.read(path).end)
    for body in BODIES[1:]:
        appender.append(body)
    appender.close()
    return path.read_bytes()


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    whole = written(tmp_path / "file")
    assert frames.read(tmp_path / "file") == frames.Frames(BODIES, len(whole))
    second = len(frames.framed(BODIES[:1]))
    assert frames.read(tmp_path / "file", second).bodies == BODIES[1:]


def test_a_file_that_is_cut_off_anywhere_has_the_frames_that_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    whole = written(path)
    ends = [len(frames.framed(BODIES[:count])) for count in range(len(BODIES) + 1)]
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        count = max(number for number, end in enumerate(ends) if end <= size)
        assert frames.read(path) == frames.Frames(BODIES[:count], ends[count])


def test_any_changed_byte_before_the_last_frame_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    whole = written(path)
    last = len(frames.framed(BODIES[:-1]))
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        if place < last:
            with pytest.raises(DamagedFileError, match="was changed"):
                frames.read(path)
        else:
            assert frames.read(path).bodies == BODIES[:-1]


def test_what_comes_after_an_unfinished_end_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(written(path)[:-1])
    appender = frames.Appender(path, frames.read(path).end)
    appender.append(b"other")
    appender.close()
    assert frames.read(path).bodies == [*BODIES[:-1], b"other"]


def test_a_disk_that_is_full_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    whole = written(path)
    appender = frames.Appender(path, len(whole))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left on device"):
            appender.append(b"more")
    assert path.read_bytes() == whole
    with pytest.raises(StorageError, match="open it again"):  # nor could it be made sure of
        appender.append(b"more")
    appender.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_a_file_is_as_private_as_another(tmp_path: Path) -> None:
    (tmp_path / "model").touch(mode=0o600)
    frames.create(tmp_path / "file", [b"first"], tmp_path / "model")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
