"""`layup predict`: what it takes, what it prints, and a process that goes on predicting."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from layup import load
from photos import name, save_crops, write_photos
from processes import COMMAND, Quick

KEYS = ["path", "label", "confidence", "unknown", "none_of_these", "score", "second", "margin"]


def test_predict_prints_a_table(here, ok):
    result = ok("predict", "m.layup", f"first/{name(0)}", f"first/{name(1)}/000.png")
    assert result.err == ""
    for file in ("000", "001", "002", "003", "004"):
        assert re.search(rf"first/{name(0)}/{file}\.png\W+{name(0)}\W", result.out)
    assert re.search(rf"first/{name(1)}/000\.png\W+{name(1)}\W", result.out)


def expected_of(paths):
    """What should be printed of each prediction, by a sort of all scores."""
    model = load("m.layup")
    for path, scores in zip(paths, model.scores(paths), strict=True):
        (first, label), (second, other) = sorted(zip(scores, model.classes_, strict=True))[::-1]
        yield {"path": str(path), "label": label, "score": first, "second": other, "margin": first - second}


def same(printed, expected):
    """Equal names and numbers; numbers up to rounding."""
    assert list(printed) == KEYS
    assert [printed[key] for key in ("path", "label", "second")] == [
        expected[key] for key in ("path", "label", "second")
    ]
    for key in ("score", "margin"):
        assert float(printed[key]) == pytest.approx(expected[key], abs=1e-9)


def test_json_and_csv_are_compact(here, ok):
    paths = sorted(Path("test").rglob("*.png"))
    expected = list(expected_of(paths))
    printed = json.loads(ok("predict", "m.layup", "test", "--json").out)
    rows = list(csv.DictReader(io.StringIO(ok("predict", "m.layup", "test", "--csv").out)))
    assert len(printed) == len(rows) == 9
    for one, other, wanted in zip(printed, rows, expected, strict=True):
        same(one, wanted)
        same(other, wanted)


def test_all_scores_on_request(here, ok):
    paths = sorted(Path("test").rglob("*.png"))
    model = load("m.layup")
    scores = model.scores(paths)
    printed = json.loads(ok("predict", "m.layup", "test", "--json", "--scores").out)
    assert [list(row) for row in printed] == [[*KEYS, "scores"]] * 9
    assert [list(row["scores"]) for row in printed] == [model.classes_] * 9
    np.testing.assert_allclose([list(row["scores"].values()) for row in printed], scores, atol=1e-9)
    head, *rows = csv.reader(io.StringIO(ok("predict", "m.layup", "test", "--csv", "--scores").out))
    assert head == [*KEYS, *(f"score:{label}" for label in model.classes_)]
    values = [[float(score) for score in row[len(KEYS) :]] for row in rows]
    np.testing.assert_allclose(values, scores, atol=1e-9)


@pytest.fixture
def auto(here, ok):
    """A model with the default classifier, of two classes of handwritten digits with 12 photos each."""
    write_photos(here / "more", {0: 12, 1: 12})
    ok("learn", "more", "--to", "auto.layup", "--backbone", "vit-nano")
    return "auto.layup"


def test_confidence_is_a_probability_and_noise_is_unknown(here, ok, auto):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save("noise.png")
    seen, strange = json.loads(ok("predict", auto, f"more/{name(0)}/000.png", "noise.png", "--json").out)
    found = load(auto).predictions(["noise.png"])
    assert (seen["label"], seen["unknown"], strange["unknown"]) == (name(0), False, True)
    assert 0 <= seen["none_of_these"] < 0.5 < strange["none_of_these"] <= 1
    assert 0.5 < seen["confidence"] <= 1
    assert strange["confidence"] == pytest.approx(found.probabilities.max())
    assert found.probabilities.sum(axis=1) == pytest.approx(1)
    printed = ok("predict", auto, f"more/{name(0)}/000.png", "noise.png").out
    assert strange["none_of_these"] > 0.995
    assert re.search(rf"noise\.png\W+unknown \({strange['label']}\?\)\W+> 99 %", printed)
    assert re.search(r"000\.png.* %", printed)


def test_sets_of_labels_on_request(here, ok, auto):
    paths = sorted(Path("test").rglob("*.png"))
    sets = load(auto).predictions(paths).sets(0.9)
    printed = json.loads(ok("predict", auto, "test", "--json", "--coverage", "0.9").out)
    assert [row["labels"] for row in printed] == sets
    assert [row["label"] for row in printed] == [labels[0] for labels in sets]
    rows = list(csv.DictReader(io.StringIO(ok("predict", auto, "test", "--csv", "--coverage", "0.9").out)))
    assert [row["labels"] for row in rows] == [" | ".join(labels) for labels in sets]
    assert "labels" in ok("predict", auto, "test", "--coverage", "0.9").out


def test_sets_need_a_share_and_photos_that_were_judged(here, ok, refused, auto):
    refused("predict", auto, "test", "--coverage", "1.5", says=["coverage = 1.5 is impossible"])
    ok("learn", "more", "--to", "none.layup", "--backbone", "vit-nano", "--no-cache")
    refused(
        "predict",
        "none.layup",
        "test",
        "--coverage",
        "0.9",
        says=["fewer than ten of its own photos were judged"],
    )
    (row, *_) = json.loads(ok("predict", "none.layup", "test", "--json").out)
    assert row["confidence"] is not None  # by rule of thumb
    assert row["none_of_these"] is not None


def test_a_table_has_no_room_for_all_scores(here, refused):
    refused("predict", "m.layup", "test", "--scores", says=["do not fit into a table", "--csv or --json"])


@pytest.mark.parametrize("command", ["evaluate", "forget"])
def test_other_commands_notice_swapped_arguments_too(here, refused, command):
    refused(command, "first", "m.layup", says=[f"Did you mean: layup {command} m.layup first?"])


def test_one_class_has_no_second(here, ok):
    shutil.rmtree(here / "first" / name(1))
    ok("learn", "first", "--to", "one.layup", "--backbone", "vit-nano", "--lam", "1")
    (row, *_) = json.loads(ok("predict", "one.layup", "test", "--json").out)
    assert (row["label"], row["second"], row["margin"]) == (name(0), None, None)
    (row, *_) = csv.DictReader(io.StringIO(ok("predict", "one.layup", "test", "--csv").out))
    assert (row["label"], row["second"], row["margin"]) == (name(0), "", "")
    assert name(0) in ok("predict", "one.layup", "test").out


def test_files_hold_all_predictions(here, ok):
    write_photos(here / "lots", {0: 50})
    assert len(json.loads(ok("predict", "m.layup", "lots", "--json").out)) == 50
    assert ok("predict", "m.layup", "lots").out.count(".png") == 50


def test_archives_and_manifests_give_what_the_folder_gives(here, ok):
    with tarfile.open("test.tar", "w") as tar:
        tar.add("test")
    shutil.make_archive("test", "zip", ".", "test")
    paths = sorted(Path("test").rglob("*.png"))
    Path("test.csv").write_text("\n".join(["file", *map(str, paths)]))
    rows = {}
    for source in ("test", "test.tar", "test.zip", "test.csv"):
        rows[source] = json.loads(ok("predict", "m.layup", source, "--json").out)
        for row in rows[source]:
            row["path"] = row["path"].removeprefix("test.tar/").removeprefix("test.zip/")
        assert rows[source] == rows["test"]
    assert len(ok("predict", "m.layup", "test.zip/test/digit 0/060.png").out.splitlines()) == 5


def test_learn_evaluate_and_forget_take_archives_and_mention_what_they_leave_out(here, ok):
    shutil.copy(here / "first" / name(0) / "000.png", here / "first" / "loose.png")
    shutil.make_archive("first", "zip", ".", "first")
    learned = ok("learn", "first.zip", "--to", "new.layup", "--backbone", "vit-nano", "--lam", "1")
    assert learned.err == "Left out: 1 photo beside the class folders in 'first.zip/first': loose.png.\n"
    assert "2 classes from 9 photos" in learned.out
    for model in ("new.layup", "m.layup"):
        assert "Accuracy 1.000 on 9 photos" in ok("evaluate", model, "first.zip").out
    Path("some.csv").write_text(f"path,label\nfirst/{name(0)}/000.png,{name(0)}\n")
    assert "2 classes from 8 photos" in ok("forget", "new.layup", "some.csv").out


def test_images_that_cannot_be_predicted(here, refused):
    (here / "empty").mkdir()
    (here / "note.txt").write_text("Dear diary")
    refused("predict", "m.layup", "empty", says=["no image files"])
    refused("predict", "m.layup", "note.txt", says=["note.txt", "not an image"])
    refused("predict", "m.layup", "none.jpg", says=["none.jpg", "no file or folder"])
    refused("predict", "m.layup", "https://host/1.jpg", says=["'https://host/1.jpg' is an address"])
    refused("predict", "m.layup", "--json", "--csv", "test", says=["one of --json, --csv and --fiftyone"])
    refused("predict", "m.layup", says=["Missing argument"])


@pytest.mark.parametrize("given", [("photo.jpg", "m.layup"), ("test", "a b.png", "m.layup")])
def test_swapped_arguments_are_noticed_before_anything_is_loaded(here, given):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", COMMAND, "predict", *given],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    others = " ".join(f"'{each}'" if " " in each else each for each in given[:-1])
    assert said == (
        f"Error: The model comes first, but '{given[0]}' is not one. "
        f"Did you mean: layup predict m.layup {others}?"
    )
    assert not re.search(r"\| +(torch|PIL)$", done.stderr, re.MULTILINE)


# Line by line


@pytest.fixture
def process(here):
    """A `layup predict m.layup -` to talk to."""
    with Quick(COMMAND, "predict", "m.layup", "-", cwd=here) as started:
        yield started


def ask(process, path: bytes) -> dict[str, object]:
    process.stdin.write(path + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_a_process_goes_on_predicting(here, process):
    """Each line is answered before the next is written, bad ones too."""
    paths = sorted(Path("test").rglob("*.png"))
    first, second, *_ = expected_of(paths)
    same(ask(process, os.fsencode(paths[0])), first)
    assert ask(process, b"no.jpg") == {
        "path": "no.jpg",
        "error": "Cannot use 'no.jpg': there is no such file.",
    }
    assert "it is a folder" in ask(process, b"test")["error"]
    assert "is an address" in ask(process, b"https://host/1.jpg")["error"]
    assert "cannot be a file's name" in ask(process, b"a\0b")["error"]
    assert ask(process, b"\xff.jpg")["path"] == "\udcff.jpg"
    process.stdin.write(b"\n  \n")
    same(ask(process, os.fsencode(paths[1]) + b"\r"), second)
    process.stdin.close()
    assert process.stdout.read() == b""
    assert process.wait(60) == 0
    assert process.stderr.read() == b""


def test_a_line_may_be_an_address_if_that_is_allowed(here, layup, monkeypatch):
    path = sorted(Path("test").rglob("*.png"))[0].absolute()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"file://{path}\n".encode())))
    told = json.loads(layup("predict", "m.layup", "-", "--allow-addresses").out)
    (expected,) = expected_of([path])
    assert told["label"] == expected["label"]


@pytest.mark.slow
def test_who_reads_may_leave(here):
    """With an interpreter of its own: what cannot be written is also noticed when that ends."""
    path = b"first/digit 0/000.png"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", COMMAND, "predict", "m.layup", "-"], **pipes) as process:
        assert ask(process, path)["label"] == name(0)
        process.stdout.close()
        process.stdin.write(path + b"\n" + path + b"\n")
        process.stdin.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_lines_with_all_scores(here, layup, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"first/digit 0/000.png\nno.jpg")))
    result = layup("predict", "m.layup", "-", "--scores", "--json")
    one, other = map(json.loads, result.out.splitlines())
    assert (result.code, result.err) == (0, "")
    assert list(one["scores"]) == [name(0), name(1)]
    assert one["scores"][one["label"]] == one["score"]
    assert set(other) == {"path", "error"}


def test_what_does_not_go_with_lines_is_refused(here, refused):
    for others in (("first",), ("--csv",), ("--strict",)):
        refused("predict", "m.layup", "-", *others, says=["With -, each line gets a JSON object. Leave"])
    refused("predict", "none.layup", "-", says=["none.layup"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray has its own
def test_many_workers_print_what_one_process_prints(local, here, ok, refused):
    write_photos(here / "many", dict.fromkeys(range(3), 100), start=20)
    (here / "many" / "bad.jpg").write_bytes(b"no image")
    command = ("predict", "m.layup", "many")
    for style in ("--csv", "--json"):
        one, many = ok(*command, style), ok(*command, style, "--ray")
        assert len(one.out.splitlines()) > 300
        assert (many.out, many.err) == (one.out, one.err)
    refused(*command, "--ray", "--strict", says=["bad.jpg"])
    refused("predict", "m.layup", "-", "--ray", says=["With -", "--ray"])


def test_predictions_for_fiftyone(ok, refused, tmp_path):
    photos = save_crops(tmp_path / "photos", 8, 2)
    model = tmp_path / "m.layup"
    ok("learn", photos, "--to", model, "--backbone", "vit-nano")
    found = json.loads(ok("predict", model, photos, "--fiftyone").out)
    rows = json.loads(ok("predict", model, photos, "--json", "--scores").out)
    assert found["classes"] == ["class 0", "class 1"]
    assert [*found["labels"]] == [row["path"] for row in rows]
    for label, row in zip(found["labels"].values(), rows, strict=True):
        assert found["classes"][label["label"]] == row["label"]
        assert label["confidence"] == row["confidence"]
        parts = np.exp(np.array(label["attributes"]["logits"]) - max(label["attributes"]["logits"]))
        np.testing.assert_allclose(parts.max() / parts.sum(), row["confidence"])
        assert label["attributes"]["none_of_these"] == row["none_of_these"]
    (tmp_path / "labels.json").write_text(json.dumps(found))
    assert ok("evaluate", model, tmp_path / "labels.json", "--json").out  # it is a list of photos as well
    refused(
        "predict", model, photos, "--fiftyone", "--csv", says=["Give one of --json, --csv and --fiftyone."]
    )
    refused("predict", model, photos, "--fiftyone", "--scores", says=["FiftyOne's labels have all logits."])
    refused("predict", model, "-", "--fiftyone", says=["Leave other images, --csv, --fiftyone"])


def test_photos_of_an_export_are_found_below_a_root(ok, refused, tmp_path):
    photos = save_crops(tmp_path / "photos", 8, 2)
    names = sorted(path.relative_to(photos) for path in photos.rglob("*.png"))
    row = {"annotator": 1, "annotation_id": 1, "lead_time": 1.0, "updated_at": "2026-01-01"}
    rows = [
        {"image": f"/data/local-files/?d={name}", "id": i, "kind": name.parent.name, "other": "x", **row}
        for i, name in enumerate(names)
    ]
    export = tmp_path / "export.json"
    export.write_text(json.dumps(rows))
    model = tmp_path / "m.layup"
    new = ("learn", export, "--to", model, "--backbone", "vit-nano", "--root", photos)
    refused(*new, says=["which column of labels is meant", "kind or other", "The option is --label."])
    assert "8 new" in ok(*new, "--label", "kind").out
    assert "8 known" in ok("learn", photos, "--to", model).out
    assert len(json.loads(ok("predict", model, export, "--root", photos, "--json").out)) == 8
    assert ok("evaluate", model, export, "--root", photos, "--label", "kind").out
    assert ok("sync", export, "--to", model, "--root", photos, "--label", "kind").out
