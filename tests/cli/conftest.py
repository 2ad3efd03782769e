"""What tests of commands for photos share."""

from __future__ import annotations

import shutil

import pytest

from layup import LayUP
from photos import write_photos


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Photos and a model, made once; tests work on copies."""
    folder = tmp_path_factory.mktemp("shelf")
    write_photos(folder / "first", {0: 5, 1: 4})
    write_photos(folder / "second", {2: 5, 0: 2}, start=20)
    write_photos(folder / "test", {0: 3, 1: 3, 2: 3}, start=60)
    model = LayUP("vit-nano", lam=1.0, cache=False)
    paths = sorted((folder / "first").rglob("*.png"))
    model.learn(paths, [path.parent.name for path in paths])
    model.save(folder / "m.layup")
    return folder


@pytest.fixture
def here(shelf, tmp_path, monkeypatch):
    """The working directory, with first/, second/, test/ and m.layup, which has learned first/."""
    folder = tmp_path / "here"
    shutil.copytree(shelf, folder, ignore=shutil.ignore_patterns(".*"))
    monkeypatch.chdir(folder)
    return folder
