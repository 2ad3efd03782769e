"""`layup sync`: the model is that of the folder."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from layup import FeatureCache
from photos import counts_in, name, require_same_sums, sums_of, write_photos
from processes import COMMAND, Quick

NANO = ("--backbone", "vit-nano")


@pytest.fixture
def synced(here, ok):
    """A folder and its model, whose λ is the 1 of m.layup."""
    ok("sync", "first", "--to", "m.layup")
    ok("learn", "first", "--to", "m.layup", "--again")  # into the cache
    shutil.copy(here / "m.layup", here / "twice.layup")
    ok("sync", "first", "--to", "m.layup")
    return here


def test_a_new_model(here, ok):
    assert "9 new." in ok("sync", "first", "--to", "new.layup", *NANO).out
    assert counts_in(here / "new.layup") == {name(0): 5, name(1): 4}


def test_a_second_run_does_nothing(synced, ok):
    before = (synced / "m.layup").read_bytes()
    result = ok("sync", "first", "--to", "m.layup")
    assert "0 new, 9 known." in result.out
    assert (synced / "m.layup").read_bytes() == before


def test_photos_that_counted_twice_count_once_again(synced):
    assert counts_in(synced / "twice.layup") == {name(0): 10, name(1): 8}
    require_same_sums("m.layup", sums_of("first"))


def test_what_is_new_moved_and_gone(synced, ok):
    write_photos(synced / "first", {2: 3}, start=50)
    shutil.move(f"first/{name(0)}/000.png", f"first/{name(1)}/renamed.png")
    Path(f"first/{name(1)}/001.png").unlink()
    before = (synced / "m.layup").read_bytes()
    foreseen = ok("sync", "first", "--to", "m.layup", "--dry-run")
    assert "Nothing was changed." in foreseen.out
    assert "3 new, 7 known, 1 moved, 1 forgotten." in foreseen.out
    assert (synced / "m.layup").read_bytes() == before
    done = ok("sync", "first", "--to", "m.layup")
    table = done.out[: done.out.index("m.layup knows")]
    assert table in foreseen.out
    require_same_sums("m.layup", sums_of("first"))
    assert "0 new, 11 known." in ok("sync", "first", "--to", "m.layup").out


def test_a_class_that_is_gone_is_forgotten(synced, ok):
    shutil.rmtree(f"first/{name(1)}")
    assert "5 known, 4 forgotten." in ok("sync", "first", "--to", "m.layup").out
    assert counts_in(synced / "m.layup") == {name(0): 5}


def test_what_is_gone_and_not_in_the_cache_is_named_and_stays(synced, ok, layup):
    FeatureCache().clear()
    ok("sync", "first", "--to", "m.layup")  # keeps where photos are
    Path(f"first/{name(1)}/001.png").unlink()
    result = layup("sync", "first", "--to", "m.layup")
    assert result.code == 1  # the model is not equal to the folder
    assert "1 photo cannot be forgotten, because the cache" in " ".join(result.err.split())
    assert name(1) in result.err
    assert counts_in(synced / "m.layup") == {name(0): 5, name(1): 4}


def test_a_photo_in_two_folders_is_told_every_time(synced, layup):
    shutil.copy(f"first/{name(0)}/000.png", f"first/{name(1)}/twin.png")
    for _ in range(2):
        result = layup("sync", "first", "--to", "m.layup")
        assert result.code == 1
        assert "1 photo given as two classes, and left out; delete one of the two files" in result.err
        assert "--relabel" not in result.err


def test_a_folder_that_lost_most_photos_is_refused(synced, ok, refused):
    for path in sorted(Path("first").rglob("*.png")):
        if path.stem != "000":
            path.unlink()
    before = (synced / "m.layup").read_bytes()
    says = ["This would forget 7 of 9 photos", "Nothing was changed", "The option is --yes."]
    refused("sync", "first", "--to", "m.layup", says=says)
    assert (synced / "m.layup").read_bytes() == before
    ok("sync", "first", "--to", "m.layup", "--yes")
    require_same_sums("m.layup", sums_of("first"))


def test_an_empty_or_missing_folder_is_refused(synced, refused):
    (synced / "empty").mkdir()
    refused("sync", "empty", "--to", "m.layup", "--yes", says=["has no class folders"])
    refused(
        "sync", "firsst", "--to", "m.layup", "--yes", says=["There is no folder", "Did you mean 'first'?"]
    )


def test_watching_goes_on_until_interrupted(synced):
    watch = ("sync", "first", "--to", "m.layup", "--watch", "--every", "0.2")
    with Quick(COMMAND, *watch, cwd=synced) as process:
        assert b"0 new, 9 known." in process.stdout.readline()
        write_photos(synced / "first", {2: 3}, start=50)
        deadline = time.monotonic() + 120
        while counts_in(synced / "m.layup").get(name(2)) != 3:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.interrupt()
        result = process.finished()
    assert (result.code, result.err) == (0, "")
    assert "Watching 'first' every 0.2 s. Stop with Ctrl-C." in result.out
    assert "Stopped watching." in result.out


def test_what_g_still_holds_is_told(synced, ok, layup):
    FeatureCache().clear()
    ok("forget", "m.layup", "--class", name(1))
    shutil.rmtree(f"first/{name(1)}")
    result = layup("sync", "first", "--to", "m.layup")
    assert result.code == 1
    assert "still holds photos of a class that was forgotten" in result.err


def test_a_broken_link_keeps_what_it_may_be(synced, layup):
    Path(f"first/{name(1)}/001.png").unlink()
    Path(f"first/{name(1)}/link.png").symlink_to("nowhere.png")
    result = layup("sync", "first", "--to", "m.layup")
    assert result.code == 1
    assert "1 photo no longer in the folder, but kept" in result.err
    assert counts_in(synced / "m.layup") == {name(0): 5, name(1): 4}


def test_only_what_is_there_can_be_watched(synced, refused):
    refused("sync", "photos-{1..3}.tar", "--to", "m.layup", "--watch", says=["can be watched"])
