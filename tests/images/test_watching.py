"""A folder is watched: what has changed, and has settled, is told once."""

from __future__ import annotations

import contextlib
from itertools import islice

from layup.images import changes
from layup.images.watching import listing


class StopWatching(Exception):
    pass


def watched(folder, *steps):
    """At how many looks a change was told, when these steps happen one after another, one look each."""
    waiting = iter(steps)
    look = 0
    told = []

    def sleep(_seconds):
        nonlocal look
        look += 1
        step = next(waiting, None)
        if step is None:
            raise StopWatching
        step()

    with contextlib.suppress(StopWatching):
        for _ in changes(folder, 5.0, sleep):
            told.append(look)
    assert told[0] == 0
    return told[1:]


def nothing():
    pass


def test_a_change_is_told_once_when_it_has_settled(tmp_path):
    cat = tmp_path / "cat"
    cat.mkdir()
    (cat / "1.jpg").write_bytes(b"1")
    steps = [nothing, lambda: (cat / "2.jpg").write_bytes(b"half"), nothing, nothing, nothing]
    assert watched(tmp_path, *steps) == [3]


def test_a_file_that_still_grows_is_waited_for(tmp_path):
    file = tmp_path / "1.jpg"
    grow = [lambda size=size: file.write_bytes(b"x" * size) for size in (1, 2, 3)]
    assert watched(tmp_path, *grow, nothing, nothing) == [4]


def test_what_is_deleted_or_moved_is_a_change(tmp_path):
    file = tmp_path / "1.jpg"
    file.touch()
    steps = [lambda: file.rename(tmp_path / "2.jpg"), nothing, (tmp_path / "2.jpg").unlink, nothing]
    assert watched(tmp_path, *steps) == [2, 4]


def test_a_folder_that_goes_away_and_returns(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "1.jpg").touch()
    away = tmp_path / "away"
    steps = [lambda: folder.rename(away), nothing, lambda: away.rename(folder), nothing]
    assert watched(folder, *steps) == [2, 4]
    assert [*listing(folder)] == [str(folder / "1.jpg")]


def test_one_file_can_be_watched(tmp_path):
    file = tmp_path / "photos.csv"
    file.write_text("a")
    assert watched(file, lambda: file.write_text("ab"), nothing) == [2]


def test_it_never_ends_by_itself(tmp_path):
    file = tmp_path / "1.jpg"
    sizes = iter(range(1, 1000))
    looks = iter(range(1000))

    def sleep(_seconds):
        if next(looks) % 2:
            file.write_bytes(b"x" * next(sizes))

    assert len([*islice(changes(tmp_path, 1.0, sleep), 20)]) == 20
