"""`layup log`, `undo` and `rename`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from layup import FeatureCache, load
from photos import counts_in, name, require_same_sums, sums_of

NANO = ("--backbone", "vit-nano", "--lam", "search")


@pytest.fixture
def two(here, ok):
    """A model that has learned two batches, and as it was after the first."""
    ok("learn", "first", "--to", "t.layup", *NANO)
    shutil.copy("t.layup", "before.layup")
    ok("learn", "second", "--to", "t.layup")
    return here


def test_the_log_has_a_row_per_batch(two, ok):
    ok("forget", "t.layup", f"first/{name(1)}")
    rows = [line for line in ok("log", "t.layup").out.splitlines() if re.match(r"│ \d", line)]
    assert [re.search("learn|forget", row)[0] for row in rows] == ["learn", "learn", "forget"]
    assert ["+9" in rows[0], "+7" in rows[1], "−4" in rows[2]] == [True] * 3
    assert all(re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d", row) for row in rows)
    entries = json.loads(ok("log", "t.layup", "--json").out)
    assert [entry["learned"] for entry in entries[:2]] == [
        {name(0): 5, name(1): 4},
        {name(0): 2, name(2): 5},
    ]
    assert entries[2]["forgotten"] == {name(1): 4}
    assert entries[1]["chosen"] == {"lambda": load("t.layup").lambda_}


def test_undo_takes_the_last_batch_back(two, ok, refused):
    assert "7 forgotten." in ok("undo", "t.layup").out
    require_same_sums("t.layup", sums_of("first"))
    before, after = load("before.layup"), load("t.layup")
    assert (after.lambda_, after.log) == (before.lambda_, before.log)
    assert "7 new." in ok("learn", "second", "--to", "t.layup").out
    ok("undo", "t.layup")
    ok("undo", "t.layup")
    assert load("t.layup").counts_ == {}
    refused("undo", "t.layup", says=["There is nothing to undo"])


def test_undo_needs_the_features(two, refused):
    FeatureCache().clear()
    before = Path("t.layup").read_bytes()
    refused("undo", "t.layup", says=["cannot be undone", "7 of its 7 photos are not in the cache"])
    assert Path("t.layup").read_bytes() == before


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["forget", "t.layup", f"first/{name(0)}/000.png"], "cannot be brought back"),
        (["rename", "t.layup", name(0), "zero"], "Rename the class back"),
    ],
)
def test_what_cannot_be_undone_says_why(command, says, two, ok, refused):
    ok(*command)
    refused("undo", "t.layup", says=[says])


@pytest.mark.parametrize("command", [["undo"], ["rename", "a", "b"], ["forget", "--class", "a"]])
def test_a_misspelt_model_leaves_no_lock(here, refused, command):
    before = sorted(Path().iterdir())
    refused(command[0], "mm.layup", *command[1:], says=["Cannot read 'mm.layup'"])
    assert sorted(Path().iterdir()) == before


def test_rename_and_merge_classes(here, ok, refused):
    assert f"'{name(0)}' is now 'zero': 5 photos." in ok("rename", "m.layup", name(0), "zero").out
    assert "is now part of 'zero': 9 photos." in ok("rename", "m.layup", name(1), "zero").out
    assert counts_in(here / "m.layup") == {"zero": 9}
    assert f"{name(0)} → zero" in ok("log", "m.layup").out
    refused("rename", "m.layup", "zer", "one", says=["Unknown class 'zer'", "Did you mean 'zero'?"])
    refused("rename", "m.layup", "zero", "", says=["Labels must be strings that are not empty"])
    refused("rename", "m.layup", "zero", "zero", says=["has this name already"])
    refused("undo", "m.layup", says=["two classes that became one cannot be told apart again"])
    Path("first/zero").mkdir()
    for path in sorted(Path("first").rglob("*.png")):
        path.rename(f"first/zero/{path.parent.name}-{path.name}")
    shutil.rmtree(f"first/{name(0)}")
    shutil.rmtree(f"first/{name(1)}")
    require_same_sums("m.layup", sums_of("first"))
    assert "0 new, 9 known." in ok("learn", "first", "--to", "m.layup").out


def test_names_are_the_same_however_they_are_spelt(here, ok):
    """An é may be one letter, or an e and an accent; folders of a Mac have the second."""
    assert "is now 'café'" in ok("rename", "m.layup", name(0), "cafe\u0301").out
    assert "is now 'tea'" in ok("rename", "m.layup", "cafe\u0301", "tea").out
    ok("rename", "m.layup", "tea", "café")
    ok("forget", "m.layup", "--class", "cafe\u0301")
    assert counts_in(here / "m.layup") == {name(1): 4}


def test_merging_says_nothing_of_what_was_done_before(here, ok):
    ok("rename", "m.layup", name(0), "zero")
    ok("learn", "second", "--to", "other.layup", "--backbone", "vit-nano", "--lam", "1")
    assert "→" not in ok("merge", "m.layup", "other.layup", "--to", "both.layup").err
    for model in ("m.layup", "other.layup"):
        shutil.copy(model, f"empty-{model}")
    ok("undo", "empty-other.layup")
    shutil.copy("empty-other.layup", "twin.layup")
    ok("merge", "empty-other.layup", "twin.layup", "--to", "nothing.layup")
