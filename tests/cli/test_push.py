"""`layup push`, into a folder; `tests/model/test_hub.py` has the hub."""

from __future__ import annotations

import pytest

from photos import save_crops


@pytest.fixture
def model(ok, tmp_path):
    path = tmp_path / "m.layup"
    ok("learn", save_crops(tmp_path / "photos", 12, 2), "--to", path, "--backbone", "vit-nano")
    return path


def test_a_model_is_shared_and_asked(ok, model, tmp_path):
    said = ok("push", model, f"{tmp_path}/pets", "--license", "mit").out
    assert said == f"'{model}' is shared predict-only: {tmp_path}/pets\n"
    assert 'license: "mit"' in (tmp_path / "pets" / "README.md").read_text()
    ok("predict", tmp_path / "pets" / "model.layup", tmp_path / "photos")
    assert "shared whole" in ok("push", model, f"{tmp_path}/pets", "--whole").out
    assert "class 0" in ok("info", tmp_path / "pets" / "model.layup").out


def test_a_shared_model_is_evaluated_and_exported(ok, model, tmp_path, monkeypatch):
    ok("push", model, f"{tmp_path}/pets")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert "Accuracy" in ok("evaluate", f"hf:{tmp_path}/pets", tmp_path / "photos").out
    assert (tmp_path / "here" / "pets-confusion.png").exists()
    ok("export", f"hf:{tmp_path}/pets", "--to", "m.layup")
    assert (tmp_path / "here" / "m.layup").read_bytes() == (tmp_path / "pets" / "model.layup").read_bytes()


def test_what_cannot_be_shared_or_fetched_is_said(refused, model):
    refused("push", model, "a b", says=["'a b' is no name of a repository on the hub", "user/name"])
    refused("predict", "hf:a b", "1.jpg", says=["'a b' is no name of a repository on the hub"])
    refused("push", "hf:none", "user/name", says=["hf:none"])
