"""`layup forget`: photos of any class, and classes without their photos."""

from __future__ import annotations

import shutil
from pathlib import Path

from layup import FeatureCache, load
from photos import counts_in, name, require_same_sums, sums_of

NANO = ("--backbone", "vit-nano", "--lam", "1")


def test_photos_are_forgotten_whatever_folder_they_are_in(here, ok):
    (here / "withdrawn").mkdir()
    shutil.copy(f"first/{name(0)}/000.png", "withdrawn/a.png")
    shutil.copy(f"first/{name(1)}/001.png", "withdrawn/b.png")
    assert "2 forgotten." in ok("forget", "m.layup", "withdrawn").out
    Path(f"first/{name(0)}/000.png").unlink()
    Path(f"first/{name(1)}/001.png").unlink()
    require_same_sums("m.layup", sums_of("first"))


def test_what_was_never_learned_is_refused_and_nothing_is_forgotten(here, refused):
    before = (here / "m.layup").read_bytes()
    never, known = f"second/{name(2)}/020.png", f"first/{name(0)}/000.png"
    refused(
        "forget",
        "m.layup",
        known,
        never,
        says=["020.png", "it was never learned, or is forgotten already. Nothing was forgotten."],
    )
    assert (here / "m.layup").read_bytes() == before


def test_what_was_forgotten_is_new_again(here, ok):
    ok("forget", "m.layup", f"first/{name(0)}")
    assert "5 new, 4 known." in ok("learn", "first", "--to", "m.layup").out
    require_same_sums("m.layup", sums_of("first"))


def test_a_photo_that_was_moved_is_forgotten_in_its_class(here, ok):
    """Its features stay in the cache while it is learned elsewhere in the model."""
    ok("learn", "first", "--to", "m.layup", "--again")
    cached = FeatureCache().stats().entries
    ok("forget", "m.layup", f"first/{name(0)}/000.png")
    assert FeatureCache().stats().entries == cached - 1


def test_a_class_is_forgotten_exactly_with_what_the_cache_has(here, ok):
    ok("learn", "first", "--to", "c.layup", *NANO)
    shutil.rmtree(f"first/{name(1)}")
    result = ok("forget", "c.layup", "--class", name(1))
    assert "4 forgotten." in result.out
    assert "Gram matrix still holds" not in result.err
    require_same_sums("c.layup", sums_of("first"))


def test_a_class_is_forgotten_exactly_with_its_root(here, ok):
    ok("learn", "first", "--to", "c.layup", *NANO, "--per-class", "--anonymous", "--no-cache")
    shutil.rmtree(f"first/{name(1)}")
    assert "Gram matrix still holds" not in ok("forget", "c.layup", "--class", name(1)).err
    require_same_sums("c.layup", sums_of("first"))


def test_without_either_the_gram_matrix_keeps_a_class(here, ok):
    ok("learn", "first", "--to", "c.layup", *NANO, "--no-cache")
    result = ok("forget", "c.layup", "--class", name(1))
    assert "the Gram matrix still holds its 4 photos" in " ".join(result.err.split())
    assert counts_in(here / "c.layup") == {name(0): 5}
    assert load("c.layup").statistics_.leftover == 4
    assert {*load("c.layup").predict(sorted(Path("test").rglob("*.png"))).tolist()} == {name(0)}
    assert f"G keeps {name(1)}" in ok("log", "c.layup").out


def test_one_of_photos_and_class_is_given(here, refused):
    for more in ([], ["first", "--class", name(0)]):
        refused("forget", "m.layup", *more, says=["Give the photos to forget, or a class: one of the two."])
    refused("forget", "m.layup", "--class", "digit l", says=["Unknown class 'digit l'", "Did you mean"])
