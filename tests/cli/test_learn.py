"""`layup learn` on a folder that grows: a photo counts once."""

from __future__ import annotations

import shutil
from pathlib import Path

from photos import counts_in, name, require_same_sums, sums_of, write_photos

FIRST = {name(0): 5, name(1): 4}


def test_a_folder_that_grew_is_counted_once(here, ok):
    assert "0 new, 9 known." in ok("learn", "first", "--to", "m.layup").out
    write_photos(here / "first", {0: 2, 3: 3}, start=90)
    assert "5 new, 9 known." in ok("learn", "first", "--to", "m.layup").out
    assert counts_in(here / "m.layup") == {name(0): 7, name(1): 4, name(3): 3}
    require_same_sums("m.layup", sums_of("first"))


def test_a_photo_may_have_another_name_and_folder(here, ok):
    shutil.copytree("first", "copy")
    for path in sorted(Path("copy").rglob("*.png")):
        path.rename(path.with_name(f"copy of {path.name}"))
    assert "0 new, 9 known." in ok("learn", "copy", "--to", "m.layup").out
    assert counts_in(here / "m.layup") == FIRST


def test_again_counts_twice_on_purpose(here, ok):
    assert "9 new." in ok("learn", "first", "--to", "m.layup", "--again").out
    assert counts_in(here / "m.layup") == {name(0): 10, name(1): 8}


def test_a_photo_that_is_known_as_another_class_is_reported(here, ok):
    (here / "other" / name(1)).mkdir(parents=True)
    shutil.copy(f"first/{name(0)}/000.png", f"other/{name(1)}/x.png")
    result = ok("learn", "other", "--to", "m.layup")
    assert "0 new." in result.out
    assert f"other/{name(1)}/x.png: given as {name(1)}, known as {name(0)}" in result.err
    assert "--relabel" in result.err
    assert counts_in(here / "m.layup") == FIRST
    assert "1 moved" in ok("learn", "other", "--to", "m.layup", "--relabel").out
    assert counts_in(here / "m.layup") == {name(0): 4, name(1): 5}
    shutil.move(f"first/{name(0)}/000.png", f"first/{name(1)}/100.png")
    require_same_sums("m.layup", sums_of("first"))


def test_one_photo_in_two_folders_of_a_batch_is_learned_as_neither(here, ok):
    write_photos(here / "both", {4: 2, 5: 2})
    shutil.copy(f"both/{name(4)}/000.png", f"both/{name(5)}/twin.png")
    result = ok("learn", "both", "--to", "m.layup")
    assert "1 photo given as two classes, and left out" in result.err
    assert f"{Path('both', name(4), '000.png')} and {Path('both', name(5), 'twin.png')}" in result.err
    assert counts_in(here / "m.layup") == {**FIRST, name(4): 1, name(5): 2}


def test_an_anonymous_model_says_what_it_cannot_do(here, ok, refused):
    ok("learn", "first", "--to", "a.layup", "--backbone", "vit-nano", "--lam", "1", "--anonymous")
    assert "anonymous: no digests" in ok("info", "a.layup").out
    again = ok("learn", "first", "--to", "a.layup")
    assert "9 new." in again.out
    assert "It cannot sync, undo, or forget photos." in again.err
    assert "Accuracy to expect: not known." in again.out
    assert counts_in(here / "a.layup") == {name(0): 10, name(1): 8}
    for command in (
        ["forget", "a.layup", "first"],
        ["undo", "a.layup"],
        ["sync", "first", "--to", "a.layup"],
    ):
        refused(*command, says=["This model is anonymous: it keeps no digests of its photos"])
    refused("learn", "first", "--to", "m.layup", "--anonymous", says=["made without --anonymous"])
    refused("learn", "first", "--to", "b.layup", "--anonymous", "--relabel", says=["cannot move photos"])
    kept = ok("forget", "a.layup", "--class", name(1))
    assert "an anonymous model cannot tell which photos they are of" in kept.err
    assert counts_in(here / "a.layup") == {name(0): 10}


def test_a_model_without_its_key_says_which_one_it_needs(here, ok, refused, monkeypatch, tmp_path):
    monkeypatch.setenv("LAYUP_KEYS", str(tmp_path / "elsewhere"))
    says = ["cannot tell which photos were learned before", ".key", "elsewhere", "The option is --again."]
    refused("learn", "second", "--to", "m.layup", says=says)
    assert "7 new." in ok("learn", "second", "--to", "m.layup", "--again").out
    assert counts_in(here / "m.layup") == {name(0): 7, name(1): 4, name(2): 5}
    ok("predict", "m.layup", "test")


def test_roots_are_kept_on_request(here, ok, refused):
    ok("learn", "first", "--to", "r.layup", "--backbone", "vit-nano", "--lam", "1", "--per-class")
    assert "a class can be forgotten exactly" in ok("info", "r.layup").out
    refused("learn", "second", "--to", "m.layup", "--per-class", says=["made without --per-class"])
