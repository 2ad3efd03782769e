"""`layup audit`: what it prints and writes, and that `layup sync` applies what it suggests."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from photos import counts_in, name, write_photos

NANO = ("--backbone", "vit-nano")


@pytest.fixture
def mixed(tmp_path, monkeypatch, ok):
    """Photos of two digits and their model; three photos are in the wrong folder."""
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "photos", {0: 15, 1: 15})
    for number in ("003", "007", "011"):
        shutil.move(f"photos/{name(0)}/{number}.png", f"photos/{name(1)}/moved{number}.png")
    ok("learn", "photos", "--to", "m.layup", *NANO)
    return tmp_path


def test_wrong_labels_come_first(mixed, ok):
    result = ok("audit", "m.layup", "photos")
    assert result.err == ""
    suspects = result.out.partition("nearly the same")[0]
    for number in ("003", "007", "011"):
        assert f"moved{number}.png" in suspects
    assert "Accuracy to expect on photos like these" in result.out


def test_as_json(mixed, ok):
    told = json.loads(ok("audit", "m.layup", "photos", "--json").out)
    first = {each["path"]: (each["label"], each["suggested"]) for each in told["suspects"][:3]}
    assert first == {
        str(Path("photos", name(1), f"moved{number}.png")): (name(1), name(0))
        for number in ("003", "007", "011")
    }
    assert (told["judged"], told["unknown"], told["alone"], told["bad"]) == (30, 0, 0, [])
    assert (told["sheet"], told["move"], told["conflicts"]) == (None, None, [])
    assert told["expected"]["tested"] == 30


def test_sync_applies_what_was_suggested(mixed, ok):
    result = ok("audit", "m.layup", "photos", "--move", "labels.csv", "--sheet", "suspects.png")
    assert "layup sync labels.csv --to m.layup" in result.out
    with Path("labels.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    assert [Path(row["path"]).name[:5] for row in rows[:3]] == ["moved"] * 3
    assert {row["was"] for row in rows[:3]} == {name(1)}
    with Image.open("suspects.png") as sheet:
        sheet.verify()
    assert counts_in(mixed / "m.layup") == {name(0): 12, name(1): 18}
    moved = sum(bool(row["was"]) for row in rows)
    assert f"{moved} moved" in ok("sync", "labels.csv", "--to", "m.layup").out
    labels = [row["label"] for row in rows]
    assert counts_in(mixed / "m.layup") == {each: labels.count(each) for each in (name(0), name(1))}
    again = json.loads(ok("audit", "m.layup", "labels.csv", "--json").out)
    assert "moved" not in " ".join(each["path"] for each in again["suspects"])
    assert again["judged"] == 30


def test_what_is_left_out_is_told(mixed, ok):
    write_photos(mixed / "photos", {2: 2, 0: 2}, start=40)
    shutil.copy(f"photos/{name(0)}/000.png", f"photos/{name(1)}/copy.png")
    result = ok("audit", "m.layup", "photos")
    assert "Left out: 4 photos that the model has not learned." in result.err
    assert "1 photo known as another class, and not judged" in result.err


def test_what_cannot_be_done_is_a_sentence(mixed, refused):
    refused("audit", "photos", "m.layup", says=["The model comes first", "layup audit m.layup photos"])
    refused("audit", "m.layup", "photos", "--sheet", "s.jpg", says=["must end with .png"])
    refused("audit", "m.layup", "photos", "--move", "s.txt", says=["must end with .csv"])
    refused("audit", "none.layup", "photos", says=["Cannot read 'none.layup'"])
    write_photos(mixed / "others", {4: 2})
    refused("audit", "m.layup", "others", says=["None of these 2 photos was learned"])


def test_photos_in_an_archive_are_listed_and_moved(mixed, ok):
    shutil.make_archive("all", "zip", "photos")
    assert "probably wrong" in ok("audit", "m.layup", "all.zip", "--move", "labels.csv").out
    with Path("labels.csv").open(encoding="utf-8", newline="") as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    ok("sync", "labels.csv", "--to", "m.layup")
    assert counts_in(mixed / "m.layup") == {each: labels.count(each) for each in (name(0), name(1))}
