"""`layup suggest`: photos and guesses, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from layup import load
from photos import name


def test_paths_and_guesses(here, ok):
    result = ok("suggest", "m.layup", "second", "--count", "3")
    told = json.loads(ok("suggest", "m.layup", "second", "--count", "3", "--json").out)
    paths = [each["path"] for each in told["photos"]]
    assert len({*paths}) == 3
    assert all(Path(path).is_file() and path in result.out for path in paths)
    assert [result.out.index(path) for path in paths] == sorted(result.out.index(path) for path in paths)
    assert [each["guess"] for each in told["photos"]] == load("m.layup").predict(paths).tolist()
    assert {each["guess"] for each in told["photos"]} <= {name(0), name(1)}


def test_learned_photos_are_left_out(here, ok, refused):
    result = ok("suggest", "m.layup", "first", "second", "--count", "40")
    assert "Left out: 9 photos that the model has learned already." in result.err
    assert "first/" not in result.out
    refused("suggest", "m.layup", "first", says=["All of these photos were learned already"])


def test_what_cannot_be_done_is_a_sentence(here, refused):
    refused("suggest", "second", "m.layup", says=["The model comes first"])
    refused("suggest", "m.layup", "nowhere", says=["There is no file or folder 'nowhere'"])
    refused("suggest", "m.layup", "second", "--count", "0", says=["count"])
