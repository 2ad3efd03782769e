"""`layup datasets` on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from layup.benchmark.datasets import DATASETS, source_of
from layup.cli.datasets import datasets_app
from layup.errors import InputError


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("LAYUP_DATA", raising=False)
    monkeypatch.chdir(tmp_path)

    def command(*arguments, code=0):
        result = CliRunner().invoke(datasets_app, [str(each) for each in arguments])
        if isinstance(result.exception, InputError):  # `main` prints these
            assert code == 1
            return str(result.exception)
        assert result.exit_code == code, result.output
        return result.output

    return command


def photos(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((2, 2), np.uint8)).save(root / name)
    return root


def line_of(text: str, name: str) -> list[str]:
    rows = ([cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line)
    return next(cells for cells in rows if cells[0] == name)


def test_the_list(run, tmp_path, monkeypatch):
    photos(tmp_path / "data/vtab-cil/vtab", "train/a/1.png", "test/a/1.png")
    text = run()
    assert line_of(text, "cub200") == ["cub200", "cil, ocl", "200", "9,430", "2,358", "10", "no"]
    assert line_of(text, "vtab") == ["vtab", "cil, ocl", "50", "1,796", "8,619", "5", "vtab-cil/vtab"]
    assert line_of(text, "digits-styles")[-1] == "always"
    assert [line_of(text, name)[0] for name in DATASETS] == list(DATASETS)
    assert "folder:PATH" in text
    monkeypatch.setenv("LAYUP_DATA", str(tmp_path / "elsewhere"))
    assert line_of(run(), "vtab")[-1] == "no"
    assert line_of(run("--data", tmp_path / "data"), "vtab")[-1] == "vtab-cil/vtab"


def test_a_folder_of_another_name_is_not_taken_for_seven_datasets(run, tmp_path):
    photos(tmp_path / "mine", "train/a/1.png", "test/a/1.png")
    text = run("--data", tmp_path / "mine")
    assert {line_of(text, name)[-1] for name in DATASETS} == {"no", "always"}


def test_the_list_goes_on_where_a_folder_cannot_be_read(run, tmp_path, monkeypatch):
    photos(tmp_path / "data/cub", "train/a/1.png", "test/a/1.png")

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.scandir", denied)
    assert line_of(run(), "cub200")[-1] == "unreadable"


def test_check_of_what_is_right(run):
    text = run("check", "digits-styles")
    assert "those of scikit-learn's" in text
    assert "1,078 for training, 719 for testing" in text
    assert line_of(text, "outlined") == ["outlined", "210", "140"]
    assert text.endswith("All is well.\n")


def test_check_of_what_is_wrong(run, tmp_path):
    root = photos(tmp_path / "data/cub", "train/a/1.png", "test/a/1.png")
    (root / "test/a/bad.png").write_text("no image")
    text = run("check", "cub200", code=1)
    assert "not the known ones" in text
    assert "bad.png': it is not an image" in text
    assert "There are 1 classes, but CUB-200 has 200." in text
    assert text.endswith("Problems: 3.\n")
    report = json.loads(run("check", "cub200", "--data", root, "--json", code=1))
    assert report["ok"] is False
    assert report["known"]["Zhou et al.'s zip, inferred from logs"] == [9430, 2358]
    assert (report["train"], report["test"], report["folder"]) == (1, 2, str(root))
    assert len(report["problems"]) == 3


def test_not_all_of_a_thousand_problems_are_printed(run, tmp_path):
    root = tmp_path / "photos" / "a"
    root.mkdir(parents=True)
    for i in range(50):
        (root / f"{i}.png").touch()
    text = run("check", f"folder:{tmp_path}/photos", code=1)
    assert text.count("0 bytes") == 40
    assert "… and 10 more; --json lists all." in text
    assert "nothing to compare them with" in text
    assert len(json.loads(run("check", f"folder:{tmp_path}/photos", "--json", code=1))["problems"]) == 50


def test_check_of_what_is_not_there(run):
    text = run("check", "imagenet-r", "--data", "nowhere", code=1)
    assert "There is no folder 'nowhere'" in text
    assert "nowhere/imagenetr/{train,test}/CLASS/IMAGE" in text
    assert "md5 730aa3fb9c7d2ec0b6381c6b23040681" in text
    assert "Did you mean 'imagenet-r'?" in run("check", "imagenetr", code=1)


def test_get(run, tmp_path, monkeypatch):
    assert "nothing to get" in run("get", "digits")
    assert "host is dead" in run("get", "cars196", code=1)
    photos(tmp_path / "data/cub", "train/a/1.png", "test/a/1.png")
    assert run("get", "cub200").startswith("cub200 is in 'data/cub'. Check it with: layup datasets check")

    from dataclasses import replace

    def fetch(data):
        shutil.copytree(tmp_path / "data/cub", Path(data) / "cifar100")

    source = replace(source_of("cifar100"), download=fetch)
    monkeypatch.setitem(DATASETS._factories, "cifar100", lambda: source)
    assert "cifar100 is in 'new/cifar100'" in run("get", "cifar100", "--data", "new")


def test_help_teaches(run):
    assert "layup datasets check cub200" in run("--help")
    assert "LAYUP_DATA" in run("check", "--help")
    assert "layup datasets get cifar100" in run("get", "--help")
