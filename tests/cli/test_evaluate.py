"""`layup evaluate` on real, small images: its numbers, what it writes, and photos that were learned."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from layup import LayUP, load
from layup.model import ImageModel
from photos import name, write_photos


@pytest.fixture
def photos_of_three(here, ok):
    """The model knows two digits; the photos are of three, and some of them are wrong."""
    write_photos(here / "many", {0: 12, 1: 12, 2: 6}, start=80)
    paths = sorted((here / "many").rglob("*.png"))
    return [path.relative_to(here) for path in paths]


def predicted(paths):
    model = load("m.layup")
    return model.classes_, model.scores(paths), model.predict(paths).tolist()


def test_evaluate(here, ok, photos_of_three):
    paths = photos_of_three
    _, _, labels = predicted(paths)
    right = np.array([path.parent.name == label for path, label in zip(paths, labels, strict=True)])
    result = ok("evaluate", "m.layup", "many")
    assert f"Accuracy {right.mean():.3f} on 30 photos (95 % interval: " in result.out
    assert f"Accuracy {right[:24].mean():.3f} on the 24 photos of classes that the model knows." in result.out
    assert f"Never learned, so always wrong: {name(2)}." in result.err
    for digit, span in ((0, right[:12]), (1, right[12:24]), (2, right[24:])):
        assert re.search(rf"{name(digit)}\W+{span.size}\W+{span.sum()}\W+{span.mean():.3f}", result.out)
    assert result.out.index(name(2)) < result.out.index(name(1))  # the worst is first
    for guess in (0, 1):
        count = labels[24:].count(name(guess))
        assert not count or re.search(rf"{name(2)}\W+{name(guess)}\W+{count}\W+6\W", result.out)
    with Image.open("m-confusion.png") as picture:
        picture.verify()
        assert min(picture.size) > 300


def test_evaluate_of_known_classes_has_one_accuracy(here, ok):
    shutil.rmtree(f"test/{name(2)}")
    result = ok("evaluate", "m.layup", "test")
    assert result.err == ""
    assert result.out.count("Accuracy") == 1


def test_evaluate_as_json(here, ok, photos_of_three):
    paths = photos_of_three
    _, _, labels = predicted(paths)
    truth = [path.parent.name for path in paths]
    told = json.loads(
        ok("evaluate", "m.layup", "many", "--json", "--picture", "p.svg", "--wrong", "w.csv").out
    )
    right = [label == guess for label, guess in zip(truth, labels, strict=True)]
    assert told["accuracy"] == pytest.approx(np.mean(right))
    assert told["interval"][0] < told["accuracy"] < told["interval"][1]
    assert told["accuracy_known_classes"] == pytest.approx(np.mean(right[:24]))
    assert (told["images"], told["images_of_known_classes"], told["learned"]) == (30, 24, 0)
    assert told["per_class"][name(1)] == {
        "accuracy": pytest.approx(np.mean(right[12:24])),
        "images": 12,
        "right": sum(right[12:24]),
    }
    pairs = {(pair["truth"], pair["predicted"]): (pair["count"], pair["of"]) for pair in told["confused"]}
    wrong = [pair for pair in zip(truth, labels, strict=True) if pair[0] != pair[1]]
    assert pairs == {pair: (wrong.count(pair), truth.count(pair[0])) for pair in wrong}
    assert (told["picture"], told["wrong"], told["sheet"]) == ("p.svg", "w.csv", "w.png")
    assert "<svg" in Path("p.svg").read_text()
    without = json.loads(ok("evaluate", "m.layup", "many", "--json").out)
    assert without == {**told, "picture": "m-confusion.png", "wrong": None, "sheet": None}


def test_wrong_photos_are_listed_and_shown(here, ok, photos_of_three):
    paths = photos_of_three
    classes, scores, labels = predicted(paths)
    result = ok("evaluate", "m.layup", "many", "--wrong", "wrong.csv")
    with Path("wrong.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert f"Wrong photos ({len(rows)}): wrong.csv; the worst of them: wrong.png" in result.out
    by_path = {row["path"]: row for row in rows}
    assert len(by_path) == len(rows) >= 6
    for path, row, label in zip(paths, scores, labels, strict=True):
        truth = path.parent.name
        assert (str(path) in by_path) == (truth != label)
        if truth != label:
            told = by_path[str(path)]
            assert (told["truth"], told["prediction"]) == (truth, label)
            assert float(told["score"]) == pytest.approx(row.max())
            if truth in classes:
                assert float(told["truth_score"]) == pytest.approx(row[classes.index(truth)])
                assert float(told["margin"]) == pytest.approx(row.max() - row[classes.index(truth)])
            else:
                assert told["truth_score"] == told["margin"] == ""
    margins = [float(row["margin"]) for row in rows if row["margin"]]
    assert margins == sorted(margins, reverse=True)
    with Image.open("wrong.png") as sheet:
        sheet.verify()
        assert sheet.width > 1000


def test_nothing_wrong_is_listed_too(here, ok):
    Path("wrong.png").write_text("an old one")
    shutil.rmtree(f"first/{name(1)}")
    assert "Wrong photos (0)" in ok("evaluate", "m.layup", "first", "--wrong", "wrong.csv").out
    assert len(Path("wrong.csv").read_text().splitlines()) == 1
    with Image.open("wrong.png") as sheet:
        sheet.verify()


def test_outputs_are_checked_before_the_work(here, refused, monkeypatch):
    def predict(*_):
        raise AssertionError("the work began")

    monkeypatch.setattr(ImageModel, "predictions", predict)
    monkeypatch.setattr(ImageModel, "learned_as", predict)
    Path("folder.png").mkdir()
    before = sorted(path.name for path in here.iterdir())
    for wrong, says in {
        "nowhere/w.csv": "Cannot write 'nowhere/w.csv'",
        "w.txt": "must end with .csv",
        "folder.csv": "Cannot write 'folder.png'",
        "m-confusion.csv": "both the confusion matrix and the contact sheet",
    }.items():
        refused("evaluate", "m.layup", "test", "--wrong", wrong, says=[says])
    refused(
        "evaluate", "m.layup", "test", "--picture", "nowhere/p.png", says=["Cannot write 'nowhere/p.png'"]
    )
    refused("evaluate", "nowhere/m.layup", "test", says=["nowhere/m.layup"])
    Path("m-confusion.png").mkdir()
    refused("evaluate", "m.layup", "test", says=["Cannot write 'm-confusion.png'"])
    Path("m-confusion.png").rmdir()
    assert sorted(path.name for path in here.iterdir()) == before


# Photos that were learned


@pytest.fixture
def mixed(here):
    """Two photos that were learned, one of them under another name, and six that were not."""
    for i in (0, 1):
        shutil.copy(f"first/{name(0)}/00{i}.png", f"test/{name(0)}/copy {i}.png")
    shutil.rmtree(f"test/{name(2)}")
    return here / "test"


def test_photos_that_were_learned_are_reported(mixed, ok):
    result = ok("evaluate", "m.layup", "test")
    assert result.err.startswith("2 of these 8 photos were learned: accuracy on them says little. --unseen")
    assert "on 8 photos" in result.out
    (mixed / name(0) / "copy 1.png").unlink()
    assert (
        "1 of these 7 photos was learned: accuracy on it says little."
        in ok("evaluate", "m.layup", "test").err
    )


def test_unseen_leaves_them_out(mixed, ok):
    result = ok("evaluate", "m.layup", "test", "--unseen", "--wrong", "wrong.csv")
    assert "on 6 photos" in result.out
    assert result.err == "Left out: 2 of 8 photos, which were learned.\n"
    told = json.loads(ok("evaluate", "m.layup", "test", "--unseen", "--json").out)
    assert (told["images"], told["learned"]) == (6, 2)
    for each in mixed.rglob("copy*"):
        each.unlink()
    same = json.loads(ok("evaluate", "m.layup", "test", "--unseen", "--json").out)
    assert same == {**told, "learned": 0}
    assert ok("evaluate", "m.layup", "test", "--unseen").err == ""


def test_nothing_unseen_is_a_sentence(here, refused):
    refused(
        "evaluate", "m.layup", "first", "--unseen", says=["All 9 photos were learned", "--unseen leaves none"]
    )
    assert not Path("m-confusion.png").exists()


def test_unseen_with_files_that_cannot_be_read(mixed, ok):
    (mixed / name(0) / "notes.txt").write_text("Dear diary")
    result = ok("evaluate", "m.layup", "test", "--unseen")
    assert "Left out: 2 of 9 photos" in result.err
    assert "Skipped 1 of 7 files" in result.err


def test_an_anonymous_model_cannot_tell(here, ok, refused):
    model = LayUP("vit-nano", k=6, lam=1.0, anonymous=True, cache=False)
    paths = sorted(Path("first").rglob("*.png"))
    model.learn(paths, [path.parent.name for path in paths])
    model.save("anonymous.layup")
    assert ok("evaluate", "anonymous.layup", "first").err == ""
    assert json.loads(ok("evaluate", "anonymous.layup", "first", "--json").out)["learned"] is None
    refused("evaluate", "anonymous.layup", "first", "--unseen", says=["anonymous", "which were learned"])


def test_a_model_from_elsewhere_cannot_tell(here, ok, refused, monkeypatch, tmp_path):
    monkeypatch.setenv("LAYUP_KEYS", str(tmp_path / "another home"))
    told = ok("evaluate", "m.layup", "first").err
    assert "has learned 9 photos that it cannot recognise on this machine" in told
    refused(
        "evaluate", "m.layup", "first", "--unseen", says=["cannot tell which photos were learned", ".key"]
    )


def test_a_model_that_was_merged_with_an_anonymous_one_cannot_tell(here, refused):
    other = LayUP("vit-nano", k=6, lam=1.0, anonymous=True, cache=False)
    paths = sorted(Path("second").rglob("*.png"))
    other.learn(paths, [path.parent.name for path in paths])
    model = load("m.layup")
    model.merge(other)
    model.save("both.layup")
    says = ["cannot tell which photos were learned", "knows 9 of 16", "anonymous"]
    refused("evaluate", "both.layup", "test", "--unseen", says=says)


def test_names_of_all_kinds_on_the_sheet(here, ok):
    model = LayUP("vit-nano", lam=1.0, cache=False)
    paths = sorted(Path("first").rglob("*.png"))
    model.learn(paths, ["日本" if path.parent.name == name(0) else "[b]$x" for path in paths])
    model.save("odd.layup")
    Path("odd").mkdir()
    Path(f"test/{name(0)}").rename("odd/[b]$x")
    Path(f"test/{name(1)}").rename("odd/日本")
    result = ok("evaluate", "odd.layup", "odd", "--wrong", "w.csv")
    assert "Warning" not in result.err
    assert re.search(r"日本\W+\[b\]\$x\W+\d", result.out)
    assert Path("w.png").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray has its own
def test_many_workers_find_what_one_process_finds(local, here, ok, photos_of_three):
    one, many = (ok("evaluate", "m.layup", "many", *more) for more in ((), ("--ray",)))
    assert "Accuracy" in one.out
    assert (many.out, many.err) == (one.out, one.err)
