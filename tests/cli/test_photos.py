"""The whole command line on real, small images: what it prints, and what can go wrong."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from commands import Result
from layup import NMC, FeatureCache, FirstSession, LayUP, __version__, load, memory, storage
from layup.cli import console
from layup.formats import has_controls
from photos import counts_in, digits, name, write_photos
from processes import COMMAND, Quick

NANO = ("--backbone", "vit-nano", "--lam", "1")
FIRST = {name(0): 5, name(1): 4}
SECOND = {name(2): 5, name(0): 2}


def numbers(text):
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


# From the first photo to the last


def test_learn_makes_a_model_and_learn_extends_it(here, ok):
    first = ok("learn", "first", "--to", "new.layup", *NANO)
    assert "2 classes from 9 photos" in first.out
    assert re.search(rf"{name(0)}\W+5\W+5", first.out)
    assert first.err == ""
    assert counts_in(here / "new.layup") == FIRST
    second = ok("learn", "second", "--to", "new.layup")
    assert "3 classes from 16 photos" in second.out
    assert re.search(rf"{name(0)}\W+2\W+7", second.out)
    assert counts_in(here / "new.layup") == {name(0): 7, name(1): 4, name(2): 5}
    direct = LayUP("vit-nano", lam=1.0)
    for folder in ("first", "second"):
        paths = sorted((here / folder).rglob("*.png"))
        direct.learn(paths, [path.parent.name for path in paths])
    tests = sorted((here / "test").rglob("*.png"))
    scores = load("new.layup").scores(tests)
    np.testing.assert_allclose(scores, direct.scores(tests), atol=1e-5)


def test_learn_may_repeat_the_options_of_the_model(here, ok):
    again = ("--backbone", "vit-nano", "--k", 6, "--input-size", 64)
    ok("learn", "second", "--to", "m.layup", *again)
    assert counts_in(here / "m.layup")[name(2)] == 5


def test_learn_can_change_lambda_and_balance(here, ok):
    assert "λ = 0.5" in ok("learn", "second", "--to", "m.layup", "--lam", "0.5", "--no-balance").out
    settings = storage.read_header(here / "m.layup", "model")["classifier"]
    assert settings == {**settings, "kind": "ridge", "lam": 0.5, "balance": False}
    ok("learn", "second", "--to", "m.layup", "--lam", "gcv")
    settings = storage.read_header(here / "m.layup", "model")["classifier"]
    assert settings == {**settings, "kind": "ridge", "lam": "gcv", "balance": False}
    assert load("m.layup").predict(sorted((here / "test").rglob("*.png"))).size == 9


def test_learn_chooses_all_by_itself_unless_told_otherwise(here, ok, refused):
    wanted = ("--backbone", "vit-nano", "--k", "2")
    ok("learn", "first", "--to", "new.layup", *wanted)
    assert storage.read_header(here / "new.layup", "model")["classifier"] == {
        "kind": "auto",
        "strength": "search",
    }
    refused("learn", "first", "--to", "new.layup", "--lam", "1", says=["no use for --lam", "from the sums"])
    result = ok("learn", "first", "--to", "paper.layup", "--lam", "search", *wanted)
    header = storage.read_header(here / "paper.layup", "model")
    assert header["classifier"]["lam"] == "search"
    assert f"λ = {header['chosen']['lambda']:g}" in result.out


def test_many_classes_of_few_photos_give_no_warnings(tmp_path, ok):
    for i in range(25):
        write_photos(tmp_path / "many", {i % 10: 1}, start=i)
        (tmp_path / "many" / name(i % 10)).rename(tmp_path / "many" / f"class {i}")
    assert ok("learn", tmp_path / "many", "--to", tmp_path / "m.layup", "--backbone", "vit-nano").err == ""


def test_images_larger_than_memory_are_refused_before_a_network_is_built(here, refused, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 20 * 10**9)
    says = ["20000 × 20000 pixels would take", "What would fit: a smaller input size."]
    refused("learn", "first", "--to", "new.layup", "--input-size", "20000", says=says)
    monkeypatch.setattr(memory, "available", lambda: 8 * 10**8)
    refused("learn", "first", "--to", "new.layup", "--input-size", "500", says=["a batch in the network"])
    assert not Path("new.layup").exists()


def test_learning_what_would_not_fit_is_refused_and_changes_nothing(here, refused, monkeypatch):
    before = (here / "m.layup").read_bytes()
    monkeypatch.setattr(memory, "available", lambda: 25_000_000)
    says = ["This batch would take about", "25.0 MB are free"]
    refused("learn", "second", "--to", "m.layup", says=says)
    assert (here / "m.layup").read_bytes() == before


def test_screens_do_not_overflow(capsys, monkeypatch):
    monkeypatch.setattr(console, "out", Console(force_terminal=True, highlight=False))
    console.table(["a"], [[f"row {i}"] for i in range(50)])
    printed = capsys.readouterr().out
    assert "row 39" in printed
    assert "row 40" not in printed
    assert "10 more rows" in printed


@pytest.mark.slow
def test_names_of_all_kinds(here, ok):
    """Brackets, which rich would take for its markup, spaces, quotes and other alphabets."""
    for i, label in enumerate(("[bold]red", "käse 日本", "a,b\"c'd", "$\\x $")):
        folder = here / "odd" / label / "["
        folder.mkdir(parents=True)
        Image.fromarray(digits(3, 1, start=i)[0]).save(folder / "x] é.png")
    (here / "odd" / "[bold]red" / "[" / "red].jpg").write_text("Dear diary")
    target = here / "[old] [" / "b]" / "m[red].layup"
    target.parent.mkdir(parents=True)
    learned = ok("learn", "odd", "--to", target, *NANO)
    assert str(target) in learned.out.replace("\n", "")
    assert "[bold]red/[/red].jpg" in learned.err
    assert set(counts_in(target)) == {"[bold]red", "käse 日本", "a,b\"c'd", "$\\x $"}
    assert "[bold]red/[/x] é.png" in ok("predict", target, "odd").out
    predictions = json.loads(ok("predict", target, "odd", "--json").out)
    assert {prediction["path"] for prediction in predictions} == {
        str(path) for path in Path("odd").rglob("*.png")
    }
    assert "[bold]red" in ok("info", target).out
    both = target.with_name("[red]both.layup")
    assert str(both) in ok("merge", target, "m.layup", "--to", both).out.replace("\n", "")
    picture = target.with_name("[red]p.png")
    evaluated = ok("evaluate", target, "odd", "--picture", picture)
    assert str(picture) in evaluated.out.replace("\n", "")
    assert "Warning" not in evaluated.err
    assert "[bold]red" in ok("forget", target, "odd").out


def test_forget(here, ok):
    ok("learn", "second", "--to", "m.layup")
    assert FeatureCache().stats().entries == 7
    result = ok("forget", "m.layup", "second")
    assert re.search(rf"{name(2)}\W+5\W+0", result.out)
    assert "λ is kept: 1" in result.out
    assert counts_in(here / "m.layup") == FIRST
    assert FeatureCache().stats().entries == 0
    shutil.copytree("first", "all")
    ok("forget", "m.layup", "all")
    assert counts_in(here / "m.layup") == {}


def test_forgetting_without_the_cache_still_deletes_from_it(here, ok):
    """Who forgets a photo does not want its features to stay on the disk."""
    ok("learn", "second", "--to", "m.layup")
    ok("forget", "m.layup", "second", "--no-cache")
    assert FeatureCache().stats().entries == 0


def test_forget_tells_when_cached_features_could_not_be_deleted(here, ok, own_cache, caplog):
    """Warnings of the log go to standard error, except here, where pytest has them."""
    (own_cache / "features.sqlite").mkdir()
    ok("learn", "second", "--to", "m.layup")
    caplog.clear()
    ok("forget", "m.layup", "second")
    assert "without the feature cache" in caplog.text


def test_merge(here, ok):
    ok("learn", "second", "--to", "other.layup", *NANO)
    assert "3 classes from 16 photos" in ok("merge", "m.layup", "other.layup", "--to", "both.layup").out
    ok("learn", "second", "--to", "m.layup")
    paths = sorted((here / "test").rglob("*.png"))
    both, joint = (load(path).scores(paths) for path in ("both.layup", "m.layup"))
    np.testing.assert_allclose(both, joint, atol=1e-5)


@pytest.mark.slow
def test_engines(here, ok, refused, monkeypatch, caplog):
    ok("learn", "second", "--to", "f.layup", *NANO, "--engine", "folded")
    assert re.search(r"engine +folded", ok("info", "f.layup").out)
    assert re.search(r"engine +eager", ok("info", "m.layup").out)
    ok("merge", "m.layup", "f.layup", "--to", "mixed.layup")
    assert "different engines, 'eager' and 'folded'" in caplog.text  # commands print what is logged
    refused("learn", "first", "--to", "f.layup", "--engine", "eager", says=["--engine folded", "not eager"])
    ok("learn", "first", "--to", "f.layup", "--engine", "folded")
    ok("learn", "second", "--to", "other.layup", *NANO)
    caplog.clear()
    ok("merge", "m.layup", "other.layup", "--to", "same.layup")
    assert "engines" not in caplog.text
    refused("learn", "first", "--to", "x.layup", *NANO, "--engine", "onyx", says=["Did you mean 'onnx'?"])
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    refused("learn", "first", "--to", "x.layup", *NANO, "--engine", "onnx", says=["layup-cl[onnx]"])
    assert not Path("x.layup").exists()


def test_merge_over_a_base(here, ok, refused):
    for copy in ("left.layup", "right.layup"):
        shutil.copy("m.layup", copy)
    ok("learn", "second", "--to", "left.layup")
    ok("learn", "test", "--to", "right.layup")
    refused("merge", "left.layup", "right.layup", "--to", "new.layup", says=["share 9 photos", "--base"])
    assert not Path("new.layup").exists()
    ok("merge", "left.layup", "right.layup", "--base", "m.layup", "--to", "new.layup")
    assert counts_in(here / "new.layup") == {name(0): 10, name(1): 7, name(2): 8}


def test_merge_overwrites_when_told_to(here, ok, refused):
    ok("learn", "second", "--to", "other.layup", *NANO)
    ok("learn", "test", "--to", "old.layup", *NANO)
    before = Path("old.layup").read_bytes()
    refused("merge", "m.layup", "other.layup", "--to", "old.layup", says=["exists already", "--overwrite"])
    assert Path("old.layup").read_bytes() == before
    ok("merge", "m.layup", "other.layup", "--to", "old.layup", "--overwrite")
    assert sum(counts_in(here / "old.layup").values()) == 16
    ok("merge", "m.layup", "other.layup", "--to", "m.layup")
    assert sum(counts_in(here / "m.layup").values()) == 16


def test_info(here, ok):
    told = ok("info", "m.layup").out
    for fact in ("m.layup", "vit-nano", "blocks.6", "blocks.11", "9 images of 2 classes", "torch"):
        assert fact in told
    assert re.search(rf"{name(1)}\W+4\W", told)
    learned = load("m.layup").state_hash
    assert learned in told
    header = json.loads(ok("info", "m.layup", "--json").out)
    assert header.pop("state_hash") == learned
    assert header.pop("classes") == FIRST
    assert header.pop("expected") is None
    assert header == storage.read_header("m.layup", "model")


def test_info_warns_of_single_photos(here, ok):
    write_photos(here / "one", {5: 1})
    ok("learn", "one", "--to", "m.layup")
    assert "one photo" in ok("info", "m.layup").err.lower()


def test_backbones(ok, refused):
    told = ok("backbones").out
    for fact in ("bundled", "vit-nano", "64 × 64", "12"):
        assert fact in told
    assert "vit_base_patch16_224.augreg_in21k" in ok("backbones", "vit_base_patch16_224").out
    refused("backbones", "no_such_network", says=["no_such_network"])


def test_cache(here, ok, own_cache):
    assert re.search(r"images\s+0", ok("cache").out)
    ok("learn", "second", "--to", "m.layup")
    told = ok("cache").out
    assert re.search(r"images\s+7", told)
    assert str(own_cache) in told
    assert "Freed" in ok("cache", "clear").out
    assert re.search(r"images\s+0", ok("cache").out)
    assert FeatureCache().stats().entries == 0
    ok("learn", "test", "--to", "m.layup", "--no-cache")
    assert FeatureCache().stats().entries == 0


def test_the_limit_of_the_cache_is_set_as_its_help_says(layup, ok, monkeypatch):
    told = layup("cache", "--help").out
    if "LAYUP_CACHE_LIMIT" in told:
        monkeypatch.setenv("LAYUP_CACHE_LIMIT", "2GB")
        assert "2.0 GB" in ok("cache").out


def test_a_cache_that_cannot_be_cleared_is_reported(own_cache):
    (own_cache / "features.sqlite").mkdir()
    (own_cache / "features.sqlite" / "x").touch()
    assert "not cleared" in finished(script("cache", "clear", cwd=own_cache)).err


def test_version_and_help(ok, layup):
    assert __version__ in ok("--version").out
    told = ok("--help").out
    for command in ("learn", "predict", "evaluate", "forget", "merge", "info", "backbones", "cache", "demo"):
        assert command in told
        assert "Usage" in ok(command, "--help").out


def test_bad_photos_are_skipped_and_named(here, ok, refused):
    broken = here / "second" / name(2)
    whole = (broken / "020.png").read_bytes()
    (broken / "notes.txt").write_text("Dear diary")
    (broken / "half.png").write_bytes(whole[:-30])
    (broken / "zero.png").touch()
    before = Path("m.layup").read_bytes()
    refused("learn", "second", "--to", "m.layup", "--strict", says=["half.png"])
    refused("evaluate", "m.layup", "second", "--strict", says=["half.png"])
    assert Path("m.layup").read_bytes() == before
    result = ok("learn", "second", "--to", "m.layup")
    assert counts_in(here / "m.layup")[name(2)] == 5
    assert "Skipped 3 of 10" in result.err
    for file, reason in (("notes.txt", "not an image"), ("half.png", "incomplete"), ("zero.png", "0 bytes")):
        assert re.search(rf"{file}.*{reason}", result.err)
    result = ok("predict", "m.layup", "second", "--json")
    assert len(json.loads(result.out)) == 7
    assert "Skipped 3 of 10" in result.err
    assert "Skipped 3 of 10" in ok("evaluate", "m.layup", "second").err
    refused("predict", "m.layup", "second", "--strict", says=["half.png"])
    refused("forget", "m.layup", "second", "--strict", says=["half.png"])
    assert "Skipped 3 of 10" in ok("forget", "m.layup", "second").err
    assert counts_in(here / "m.layup") == FIRST


def bad_entries(folder):
    """A folder of photos with everything that is not a photo, by what is said of it."""
    here = folder / name(2)
    (here / "a").symlink_to("b")
    (here / "b").symlink_to("a")
    (here / "gone.png").symlink_to("nowhere")
    (here / "up").symlink_to("..")
    os.mkfifo(here / "pipe.png")
    (folder / os.fsdecode(b"caf\xe9")).mkdir()
    (folder / "\x1b[2J").mkdir()
    for odd in (os.fsdecode(b"caf\xe9"), "\x1b[2J"):
        shutil.copy(here / "020.png", folder / odd)
    (folder / "unmounted").symlink_to("nowhere")
    return {
        f"{name(2)}/a": "Too many levels of symbolic links",
        f"{name(2)}/b": "Too many levels of symbolic links",
        "gone.png": "no such file",
        "pipe.png": "not a regular file",
        "caf\\\\udce9": "cannot be a label",
        "\\\\x1b\\[2J": "cannot be a label",
        "unmounted": "no such file",
    }


def test_one_bad_entry_does_not_stop_the_others(here, ok, refused):
    photos = here / "second"
    (photos / name(2) / "020.png").rename(photos / name(2) / os.fsdecode(b"2\xff0\n.png"))
    write_photos(photos, {2: 1}, start=70)
    (photos / name(2) / "070.png").rename(photos / name(2) / "020.png")
    reasons = bad_entries(photos)
    total = 6 + 2 + len(reasons)
    unread = {entry: reason for entry, reason in reasons.items() if "label" not in reason}
    for command, bad in (
        (("evaluate", "m.layup", "second"), reasons),
        (("learn", "second", "--to", "m.layup"), reasons),
        (("forget", "m.layup", "second"), unread),  # whatever the label
    ):
        refused(*command, "--strict", says=["Cannot use 'second/"])
        done = ok(*command)
        assert f"Skipped {len(bad)} of {total} files" in done.err
        for entry, reason in bad.items():
            assert re.search(rf"{entry}'.*{reason}", done.err), entry
        assert not has_controls((done.out + done.err).replace("\n", ""))
    assert counts_in(here / "m.layup") == FIRST


def test_photos_whose_names_are_not_utf8_are_predicted(here, ok, monkeypatch):
    photo = here / "odd" / os.fsdecode(b"=caf\xe9\n\x1b[2J.png")
    photo.parent.mkdir()
    shutil.copy(here / "first" / name(0) / "000.png", photo)
    done = ok("predict", "m.layup", "odd")
    assert r"odd/=caf\udce9\n\x1b[2J.png" in done.out
    (prediction,) = json.loads(ok("predict", "m.layup", "odd", "--json").out)
    assert os.fsencode(prediction["path"]) == b"odd/=caf\xe9\n\x1b[2J.png"
    monkeypatch.chdir(photo.parent)
    printed = ok("predict", "../m.layup", photo.name, "--csv").out
    _, row = csv.reader(io.StringIO(printed))
    assert row[:2] == [r"'=caf\udce9\n\x1b[2J.png", name(0)]
    assert not has_controls(printed.replace("\n", "") + done.out.replace("\n", ""))


@pytest.mark.slow
def test_folders_by_any_name(here, ok, monkeypatch):
    (here / "link").symlink_to("first")
    expected = [
        prediction["label"] for prediction in json.loads(ok("predict", "m.layup", "first", "--json").out)
    ]
    assert len(expected) == 9
    monkeypatch.chdir(here / "first")
    for folder in (".", "../first", "../link", "../link/.", here / "link", "../second/../first"):
        predictions = json.loads(ok("predict", "../m.layup", folder, "--json").out)
        assert [prediction["label"] for prediction in predictions] == expected
        assert all(Path(prediction["path"]).exists() for prediction in predictions)
        ok("evaluate", "../m.layup", folder)


# What goes wrong


def bad_photos(folder):
    """All the folders that cannot be learned from, with what is said of them."""
    (folder / "empty").mkdir()
    yield "empty", ["'empty' has no class folders"]
    yield "no-such-folder", ["no folder 'no-such-folder'"]
    yield "frist", ["no folder 'frist'", "Did you mean 'first'?"]
    yield f"first/{name(0)}", ["no class folders", "5 files"]
    yield "m.layup", ["m.layup"]
    (folder / "hollow" / "cats").mkdir(parents=True)
    yield "hollow", ["all empty: cats"]
    for kind, content in (
        ("text", b"Dear diary"),
        ("zero", b""),
        ("half", b"\x89PNG\r\n\x1a\n"),
    ):
        (folder / kind / "cats").mkdir(parents=True)
        (folder / kind / "cats" / "a.jpg").write_bytes(content)
        yield kind, ["None of the 1 given images can be used", "a.jpg"]


def test_photos_that_cannot_be_learned(here, refused):
    before = Path("m.layup").read_bytes()
    for photos, says in bad_photos(here):
        for command in (
            ("learn", photos, "--to", "m.layup"),
            ("learn", photos, "--to", "new.layup", *NANO),
        ):
            refused(*command, says=says)
        refused("evaluate", "m.layup", photos, says=says[-1:])
        assert Path("m.layup").read_bytes() == before
        assert not Path("new.layup").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--backbone", "bundeld"), ["'bundeld'", "Did you mean 'bundled'?"]),
        (("--bakcbone", "bundled"), ["--bakcbone", "--backbone"]),
        (("--lam", "serch"), ["'serch'", "Did you mean 'search'?"]),
        (("--lam", "-1"), ["-1", "≥ 0"]),
        (("--lam", "nan"), ["nan", "≥ 0"]),
        (("--k", "13"), ["k = 13", "12"]),
        (("--k", "0"), ["k = 0", "between 1 and 12"]),
        (("--k", "many"), ["--k", "integer"]),
        (("--input-size", "32"), ["64 × 64"]),
        (("--weights", "none.safetensors"), ["weights"]),
        (("--workers", "-1"), ["--workers"]),
    ],
)
def test_options_that_cannot_be_used(here, refused, options, says):
    refused("learn", "first", "--to", "new.layup", "--backbone", "vit-nano", *options, says=says)
    assert not Path("new.layup").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--k", "3"), ["--k 6, not 3", "leave --k out"]),
        (("--backbone", "bundled"), ["--backbone vit-nano, not bundled"]),
        (("--input-size", "128"), ["--input-size 64, not 128"]),
        (("--weights", "other.safetensors"), ["weights", "other.safetensors"]),
        (("--lam", "-1"), ["≥ 0"]),
        (("--lam", "gvc"), ["Did you mean 'gcv'?"]),
    ],
)
def test_an_old_model_keeps_its_ways(here, refused, options, says):
    before = Path("m.layup").read_bytes()
    refused("learn", "second", "--to", "m.layup", *options, says=says)
    assert Path("m.layup").read_bytes() == before


@pytest.mark.parametrize("backbone", ["test_vit.r160_in1k", "test_vit"])
def test_the_same_command_twice(here, ok, backbone):
    """Relative paths are common, and timm's names without a tag have one by default."""
    import layup.compat  # noqa: F401, I001 - first, as everywhere
    import timm
    from safetensors.torch import save_file

    network = timm.create_model("test_vit.r160_in1k")
    save_file(network.state_dict(), "w.safetensors")
    options = ("--backbone", backbone, "--weights", "w.safetensors", "--lam", "1")
    for photos in ("first", "second"):
        ok("learn", photos, "--to", "timm.layup", *options)
    assert sum(counts_in(here / "timm.layup").values()) == 16


def damaged(folder):
    """Files that are not models, with what is said of them."""
    whole = (folder / "m.layup").read_bytes()
    middle = len(whole) // 2
    yield "missing.layup", None, "No such file"
    yield "zero.layup", b"", "empty"
    yield "text.layup", b"Dear diary, " * 100, "damaged"
    yield "half.layup", whole[:middle], "damaged"
    yield "bit.layup", whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], "checksum"
    yield "newer.layup", whole.replace(rb"\"format\": 1,", rb"\"format\": 9,"), "upgrade layup-cl"


def test_files_that_are_no_models(here, refused):
    for file, content, says in damaged(here):
        if content is not None:
            Path(file).write_bytes(content)
        commands = [
            ("predict", file, "test"),
            ("evaluate", file, "test"),
            ("forget", file, "first"),
            ("merge", "m.layup", file, "--to", "new.layup"),
        ]
        if content is not None:
            commands.append(("learn", "second", "--to", file))
        commands.append(("info", file))
        for command in commands:
            refused(*command, says=[file, says])
        assert not Path("new.layup").exists()
        assert content is None or Path(file).read_bytes() == content


def test_targets_that_cannot_be_written(here, refused, ok):
    refused("learn", "first", "--to", "m.layup/below.layup", *NANO, says=["m.layup/below.layup"])
    refused("learn", "first", "--to", "no/such/m.layup", *NANO, says=["no/such/m.layup"])
    refused("learn", "first", "--to", "first", *NANO, says=["first"])
    ok("learn", "second", "--to", "other.layup", *NANO)
    refused("merge", "m.layup", "other.layup", "--to", "m.layup/x.layup", says=["m.layup/x.layup"])
    assert counts_in(here / "m.layup") == FIRST


BAD_TARGETS = ["", ".", "/", "first", "nowhere/m.layup", "m.layup/x.layup", "pipe", "/proc/m.layup"]


@pytest.fixture
def no_photo_is_read(monkeypatch):
    """Nothing may take long before a path is refused."""

    def read(*_):
        raise AssertionError("a photo was read")

    for function in ("image_digest", "open_image"):
        monkeypatch.setattr(f"layup.features.extract.{function}", read)
    monkeypatch.setattr("layup.cli.digits.digits_scenario", read)


@pytest.mark.usefixtures("no_photo_is_read")
@pytest.mark.parametrize("target", BAD_TARGETS)
def test_a_target_that_cannot_be_written_is_refused_before_the_work(here, refused, target):
    os.mkfifo("pipe")
    shutil.copy("m.layup", "other.layup")
    before = {file.name for file in here.iterdir()}
    # Root may write anywhere, it is said: then it is noticed when the lock is made.
    says = [f"'{Path(target)}'" if target.startswith("/proc") else f"Cannot write '{Path(target)}'"]
    refused("learn", "second", "--to", target, *NANO, says=says)
    refused("merge", "m.layup", "other.layup", "--to", target, says=says)
    refused("evaluate", "m.layup", "test", "--picture", target, says=says)
    assert {file.name for file in here.iterdir()} == before


@pytest.mark.usefixtures("no_photo_is_read")
def test_a_picture_or_a_folder_that_cannot_be_made_is_refused_before_the_work(here, refused):
    for picture in ("x.docx", "x.pgf", "x"):  # pgf would need TeX
        refused("evaluate", "m.layup", "test", "--picture", picture, says=[picture, "png"])
    for folder in ("m.layup", "m.layup/demo", "/proc/demo"):
        refused("demo", "--out", folder, says=[folder])
    refused("demo", "--out", "/proc/self", says=["/proc/self"])


def test_a_pipe_is_no_model(here, refused):
    os.mkfifo("pipe")
    for command in (
        ("info", "pipe"),
        ("predict", "pipe", "test"),
        ("evaluate", "pipe", "test"),
        ("merge", "m.layup", "pipe", "--to", "new.layup"),
        ("learn", "second", "--to", "new.layup", *NANO, "--weights", "pipe"),
    ):
        refused(*command, says=["pipe"])
    refused("forget", "pipe", "first", says=["pipe", "not a file"])


def test_forgetting_what_was_not_learned(here, refused):
    before = Path("m.layup").read_bytes()
    refused("forget", "m.layup", "second", says=["never learned", "Nothing was forgotten", "6 others"])
    write_photos(here / "more", {0: 6})
    refused(
        "forget",
        "m.layup",
        "more",
        says=["005.png", "never learned, or is forgotten already. Nothing was forgotten."],
    )
    assert Path("m.layup").read_bytes() == before


def test_merges_that_make_no_sense(here, refused, ok):
    refused("merge", "m.layup", "--to", "new.layup", says=["at least two"])
    refused("merge", "m.layup", "m.layup", "--to", "new.layup", says=["count twice"])
    ok("learn", "second", "--to", "k2.layup", *NANO, "--k", 2)
    refused("merge", "m.layup", "k2.layup", "--to", "new.layup", says=["(k): 6 and 2"])
    ok("learn", "second", "--to", "other.layup", *NANO)
    refused("merge", "m.layup", "other.layup", "--base", "k2.layup", "--to", "new.layup", says=["layers (k)"])
    refused(
        "merge", "m.layup", "other.layup", "--base", "m.layup", "--to", "new.layup", says=["base must hold"]
    )
    assert not Path("new.layup").exists()


def test_an_empty_model_cannot_prediction(here, ok, refused):
    ok("forget", "m.layup", "first")
    ok("info", "m.layup")
    refused("predict", "m.layup", "test", says=["knows no class"])
    refused("evaluate", "m.layup", "test", says=["knows no class"])
    ok("learn", "first", "--to", "m.layup")
    assert counts_in(here / "m.layup") == FIRST


def test_other_kinds_of_models_are_used_alike(here, ok, refused):
    model = NMC("vit-nano")
    model.learn(digits(0, 2), ["a", "b"])
    model.save("nmc.layup")
    assert "nearest mean" in ok("info", "nmc.layup").out
    assert "a" in ok("predict", "nmc.layup", "test").out
    assert "λ" not in ok("learn", "second", "--to", "nmc.layup").out
    ok("forget", "nmc.layup", "second")
    refused("learn", "second", "--to", "nmc.layup", "--lam", "1", says=["no use for --lam", "from the sums"])


def test_wrong_commands_get_a_guess(refused):
    refused("lern", says=["lern", "learn"])
    refused("learn", "first", says=["--to"])


# In processes of their own


def script(*arguments, cwd, **settings):
    """The installed command, as a process."""
    command = Path(sysconfig.get_path("scripts")) / "layup"
    return subprocess.Popen(
        [command, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,
    )


def finished(process):
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    return Result(process.returncode, out, err)


def test_the_installed_command(here):
    told = finished(script("info", "m.layup", cwd=here))
    assert told.code == 0
    assert "9 images of 2 classes" in told.out
    lost = finished(script("info", "none.layup", cwd=here))
    assert lost.code == 1
    assert lost.out == ""
    assert lost.err.startswith("Error: ")


def test_info_and_help_need_no_torch(here):
    code = (
        "import sys; from layup.cli import main\n"
        "sys.argv = ['layup', *sys.argv[1:]]\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print(sorted({'torch', 'timm', 'sklearn', 'matplotlib'} & set(sys.modules)), file=sys.stderr)"
    )
    for arguments in (["info", "m.layup"], ["--help"], ["cache"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_terminals_without_greek(here, encoding, monkeypatch):
    """Windows' pipes, for one: what cannot be shown must not stop the work."""
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    result = finished(script("info", "m.layup", cwd=here))
    assert result.code == 0
    assert "vit-nano" in result.out


@pytest.mark.parametrize("style", [(), ("--json",)])
def test_output_cut_off_by_a_pipe(here, style):
    """`layup info … | head -1` ends without a traceback."""
    process = script("info", "m.layup", *style, cwd=here)
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert "Traceback" not in told
    assert "Exception ignored" not in told


def at_once(*arguments, cwd, **settings):
    """The same command as a process that has PyTorch from the beginning: only its work takes time."""
    return Quick(COMMAND, *arguments, cwd=cwd, **settings)


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_model(here):
    before = Path("m.layup").read_bytes()
    limit = 1_000_000  # the model needs 2.4 MB
    with at_once("learn", "second", "--to", "m.layup", cwd=here, file_limit=limit) as process:
        result = process.finished()
    assert result.code == 1
    assert result.err.startswith("Error: Cannot write 'm.layup'")
    assert Path("m.layup").read_bytes() == before
    assert list(here.glob(".*.tmp")) == []


def test_two_batches_at_once_are_both_learned(here):
    write_photos(here / "third", {7: 4})
    with (
        at_once("learn", "second", "--to", "m.layup", cwd=here) as one,
        at_once("learn", "third", "--to", "m.layup", cwd=here) as other,
    ):
        assert [process.finished().code for process in (one, other)] == [0, 0]
    assert counts_in(here / "m.layup") == {name(0): 7, name(1): 4, name(2): 5, name(7): 4}
    assert len(load("m.layup").log) == 3


def test_a_model_that_came_while_merge_waited_is_not_overwritten(here):
    """Whether it exists is looked at under the lock, or a `layup learn` in between would be lost."""
    model = LayUP("vit-nano", lam=1.0, cache=False)
    model.save("other.layup")
    model.learn(digits(5, 3), ["five"] * 3)
    with storage.locked("new.layup"):
        merge = at_once("merge", "m.layup", "other.layup", "--to", "new.layup", cwd=here)
        said = merge.stderr.readline().decode()
        model.save("new.layup")  # as `layup learn` does, which has the lock
    with merge:
        result = merge.finished()
    assert result.code == 1
    assert "'new.layup' exists already" in result.err
    assert counts_in(here / "new.layup") == {"five": 3}
    assert f"'new.layup' is in use by process {os.getpid()} on " in said
    assert re.search(r", since \d{4}-", said)


# Killed

OLD, NEW = FIRST, {name(0): 7, name(1): 4, name(2): 5}


def files_of(model):
    """The model and the files next to it, as seen from outside; not its lock."""
    others = [file for file in model.parent.glob(f"*{model.name}*") if file.suffix != ".lock"]
    with contextlib.suppress(FileNotFoundError):  # gone between the listing and the look
        return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in others}
    return {}


def assert_old_or_new(model):
    counts = load(model).counts_  # reads all of the file, with its checksums
    assert counts in (OLD, NEW)
    return counts


@pytest.mark.slow
def test_killed_at_any_time_a_model_is_the_old_one_or_the_new_one(here):
    """Half of the kills come at moments spread over a run, half as soon as anything is being written.

    A few, as `make torture` makes two thousand.
    """
    model = here / "m.layup"
    old = model.read_bytes()
    began = time.monotonic()
    with at_once("learn", here / "second", "--to", here / "new.layup", *NANO, cwd=here) as process:
        assert process.finished().code == 0
    duration = time.monotonic() - began
    left = []
    for trial in range(10):
        model.write_bytes(old)
        before = files_of(model)
        with at_once("learn", here / "second", "--to", model, cwd=here) as process:
            deadline = time.monotonic() + (duration * (0.1 + trial / 10) if trial % 2 else 5 * duration)
            while time.monotonic() < deadline and (trial % 2 or files_of(model) == before):
                time.sleep(0.0002)
            process.kill()
            assert process.wait() in (0, -signal.SIGKILL)
        left.append(assert_old_or_new(model))
    assert OLD in left
    model.write_bytes(old)
    with at_once("learn", here / "second", "--to", model, cwd=here) as process:
        assert process.finished().code == 0
    assert assert_old_or_new(model) == NEW
    assert list(files_of(model)) == [model.name]  # nothing that the killed ones had left


@pytest.mark.slow
def test_the_whole_command_killed(shelf, tmp_path):
    """As above, but with all that comes before the work."""

    def copied(number):
        folder = tmp_path / f"copy {number}"
        shutil.copytree(shelf, folder, ignore=shutil.ignore_patterns(".*"))
        return folder

    def killed(share):
        folder = copied(share)
        process = script("learn", "second", "--to", "m.layup", cwd=folder)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=duration * share)
        process.kill()
        process.communicate()
        assert_old_or_new(folder / "m.layup")

    began = time.monotonic()
    assert finished(script("learn", "second", "--to", "m.layup", cwd=copied("whole"))).code == 0
    duration = time.monotonic() - began
    with ThreadPoolExecutor(2) as two_at_a_time:
        list(two_at_a_time.map(killed, [0.5, 0.8, 0.95, 1.05]))


def children(process):
    with contextlib.suppress(FileNotFoundError):
        return list(map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()))
    return []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("later", [0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_a_killed_worker_loses_nothing(here, later):
    """As the system does when memory runs out: while it reads, and while the network computes."""
    write_photos(here / "many", {3: 170, 4: 170})
    before = Path("m.layup").read_bytes()
    process = script("learn", "many", "--to", "m.layup", "--workers", "2", cwd=here)
    for pause in (later, 0):
        while process.poll() is None and len(children(process)) < 2:
            time.sleep(0.005)
        time.sleep(pause)
    os.kill(children(process)[0], signal.SIGKILL)
    result = finished(process)
    assert result.code == 1
    assert re.fullmatch(
        r"Error: A process that decodes images was killed.* The option is --workers\.\n", result.err
    )
    assert Path("m.layup").read_bytes() == before
    known = FeatureCache().stats().entries
    assert known % 32 == 0
    assert known < 340


def test_merging_says_which_settings_are_kept_and_may_change_them(here, ok):
    ok("learn", "second", "--to", "other.layup", *NANO, "--lam", "gcv", "--no-balance")
    result = ok("merge", "m.layup", "other.layup", "--to", "both.layup")
    assert "different rules" in result.err
    assert "λ = 1" in result.out
    ok("merge", "m.layup", "other.layup", "--to", "gcv.layup", "--lam", "gcv")
    assert storage.read_header(here / "gcv.layup", "model")["classifier"]["lam"] == "gcv"


def test_a_path_that_was_named_must_exist(here, refused):
    refused("predict", "m.layup", "test", "typo.png", says=["typo.png", "no file or folder"])


def test_inputs_beyond_memory(here, refused):
    refused("learn", "first", "--to", "new.layup", "--input-size", "1000000", says=["1000000 × 1000000"])


def test_interrupting_says_that_nothing_is_lost(here):
    before = Path("m.layup").read_bytes()
    with Quick(INTERRUPTED_LEARNING, cwd=here) as process:
        result = process.finished()
    assert result.code == 130
    assert "Interrupted. What was saved before is unchanged." in result.err
    assert "Traceback" not in result.err
    assert Path("m.layup").read_bytes() == before


INTERRUPTED_LEARNING = """
import os, signal, sys, time
import layup.model.image_model

def learn(*given, **options):
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(600):  # another thread may get the signal first, and this one a moment later
        time.sleep(0.1)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what runs in its background ignore it
layup.model.image_model.ImageModel.learn = learn
sys.argv = ["layup", "learn", "second", "--to", "m.layup"]
from layup.cli import main
main()
"""


BRIEF = ("--adapt", "vpt", "--epochs", "2")


def test_learn_tunes_the_network_first(here, ok):
    result = ok("learn", "first", "--to", "n.layup", *NANO, *BRIEF)
    assert "Adapted with vpt (tokens 5, depth deep, start uniform, tuned values 7,680)" in result.out
    assert "held-out accuracy" in result.out
    with Image.open("n-adaptation.png") as picture:
        assert min(picture.size) > 300
    assert sorted(path.name for path in Path().glob("*adapting*")) == []
    info = " ".join(ok("info", "n.layup").out.split())
    assert "of 2 kept, loss" in info
    assert "preset default, optimizer adamw, learning rate 0.003, weight decay 0.0005, batch size 48" in info
    assert ok("predict", "n.layup", "test").out
    assert "Adapted" not in ok("learn", "second", "--to", "n.layup").out
    assert "cannot be forgotten" in ok("forget", "n.layup", "second").err


def test_info_prints_all_values_of_a_preset(here, ok):
    ok("learn", "first", "--to", "n.layup", *NANO, *BRIEF, "--preset", "paper", "--seed", "7")
    info = " ".join(ok("info", "n.layup").out.split())
    assert (
        "preset paper, optimizer adam, learning rate 0.03, weight decay 0.0, batch size 48, epochs 2, "
        "patience none, held out 0.0, head linear, preprocessing squash, augmentation mild, trial no, seed 7"
    ) in info
    assert "held-out accuracy" not in info


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--adapt", "vtp"],
            "Known: auto, adaptformer, ssf, vpt, lora, full. Did you mean 'vpt'?",
        ),
        (["--adapt", "vpt", "--preset", "papers"], "Did you mean 'paper'?"),
        (["--adapt", "adaptformer"], "not to EfficientNetLite0. Use 'ssf' or 'full'"),
        (["--preset", "paper"], "--preset says how to tune the network: give --adapt as well."),
        (["--seed", "0"], "--seed says how to tune the network: give --adapt as well."),
        (["--learning-rate", "1"], "--learning-rate says how to tune the network: give --adapt as well."),
        (
            ["--adapt", "ssf", "--learning-rate", "nan"],
            "learning_rate = nan is impossible. Use a number > 0.",
        ),
        (["--adapt", "ssf", "--seed", "9" * 30], "Use a whole number from 0 to 2^63 - 1."),
    ],
)
def test_tuning_that_cannot_be_done(here, refused, options, says):
    refused("learn", "first", "--to", "n.layup", *options, says=[says])
    assert not Path("n.layup").exists()


def test_one_class_cannot_be_tuned_to(here, refused):
    write_photos(here / "one", {0: 4})
    refused("learn", "one", "--to", "n.layup", *NANO, *BRIEF, says=["a single class ('digit 0')"])


def test_a_model_that_has_learned_cannot_be_tuned(here, refused):
    before = Path("m.layup").read_bytes()
    refused("learn", "second", "--to", "m.layup", *BRIEF, says=["'m.layup' is a model already"])
    assert Path("m.layup").read_bytes() == before


def test_tuning_that_was_killed_goes_on(here, ok, monkeypatch):
    """Killed after the last epoch, before anything is learned: nothing is trained again."""
    with monkeypatch.context() as patch:
        patch.setattr("layup.model.photo_features.PhotoFeatures.visit", None)
        with pytest.raises(TypeError):
            ok("learn", "first", "--to", "n.layup", *NANO, *BRIEF)
    assert Path("n.layup.adapting").exists()
    monkeypatch.setattr("layup.tuning.trainer.Trainer.train", None)
    ok("learn", "first", "--to", "n.layup", *NANO, *BRIEF)
    assert not Path("n.layup.adapting").exists()


def test_what_is_left_of_a_tuning_that_was_given_up_goes_with_the_next_batch(here, ok):
    Path("m.layup.adapting").write_text("weights tuned to photos")
    ok("learn", "second", "--to", "m.layup")
    assert not Path("m.layup.adapting").exists()


def test_a_wish_for_an_adapter_in_a_file_is_fulfilled(here, ok):
    LayUP("vit-nano", lam=1.0, adapter=FirstSession("vpt", epochs=1)).save("n.layup")
    assert "Adapted with vpt" in ok("learn", "first", "--to", "n.layup").out
    assert Path("n-adaptation.png").exists()
