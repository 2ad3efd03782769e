"""A model file says which network it wants; what is not here already, a person has to allow."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from layup import LayUP, load, load_backbone, storage
from layup.backbones import elsewhere
from layup.errors import ConsentError, LayupError
from layup.model.file import KIND
from photos import batch, write_photos

import layup.compat  # noqa: F401  # isort: skip  (before timm)
import timm  # isort: skip

IMAGES, LABELS = batch({0: 4, 1: 4})
TINY = "test_vit.r160_in1k"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Connecting to another machine fails, and nothing was downloaded before."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "no downloads"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "no downloads"))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Weights for a small network of timm."""
    torch.manual_seed(0)
    save_file(timm.create_model("test_vit", num_classes=0).state_dict(), tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


@pytest.fixture
def model(tmp_path: Path, weights: Path) -> Path:
    """A model that was made with them."""
    made = LayUP(load_backbone(TINY, weights=weights), k=2, lam=1.0, cache=False)
    made.learn(IMAGES, LABELS)
    made.save(tmp_path / "m.layup")
    return tmp_path / "m.layup"


def asking_for(model: Path, **spec: Any) -> Path:
    """The file of a stranger, which wants something else."""
    header, arrays = storage.read(model, KIND)
    header["backbone"]["spec"] |= spec
    header["backbone"]["name"] = header["backbone"]["spec"]["name"]
    storage.write(model, KIND, header, arrays)
    return model


def test_a_path_in_a_file_is_not_opened(model: Path, tmp_path: Path) -> None:
    """Not even opened: opening a pipe would wait without end."""
    os.mkfifo(tmp_path / "pipe")
    asking_for(model, weights=str(tmp_path / "pipe"))
    loaded = load(model, cache=False)
    with pytest.raises(ConsentError) as caught:
        loaded.predict(IMAGES)
    for words in (str(model), str(tmp_path / "pipe"), TINY, "(allow_backbone)"):
        assert words in str(caught.value)
    assert caught.value.about == "allow_backbone"


@pytest.mark.parametrize(
    "name",
    [
        *(TINY, "resnet18.of_a_later_timm"),
        *("hf:somebody/something", "hf:/etc", "hf:../secrets", "hf:~/models", "hf:a b", "hf:" + 4000 * "a"),
    ],
    ids=lambda name: name[:30],
)
@pytest.mark.usefixtures("offline")
def test_nothing_from_elsewhere_is_loaded_unless_it_is_allowed(model: Path, name: str) -> None:
    asking_for(model, weights=None, name=name)
    with pytest.raises(ConsentError, match="asks for"):
        load(model, cache=False).predict(IMAGES)
    with pytest.raises(ConsentError):
        load(model, cache=False).learn(IMAGES, LABELS, again=True)
    with pytest.raises(ConsentError):
        load(model, cache=False).forget(IMAGES, LABELS)


def test_what_is_allowed_is_loaded(model: Path, weights: Path, tmp_path: Path) -> None:
    allowed = load(model, allow_backbone=True, cache=False)
    expected = allowed.scores(IMAGES)
    moved = weights.rename(tmp_path / "mine.safetensors")
    mine = load(model, weights=moved, cache=False)  # who names a file has allowed it
    np.testing.assert_array_equal(mine.scores(IMAGES), expected)
    given = load(model, backbone=load_backbone(TINY, weights=moved), cache=False)
    np.testing.assert_array_equal(given.scores(IMAGES), expected)


def test_what_comes_with_layup_needs_no_consent(tmp_path: Path) -> None:
    for name in ("vit-nano", "bundled"):
        assert elsewhere(load_backbone(name).spec or {}) is None
    made = LayUP("vit-nano", k=1, lam=1.0, cache=False)
    made.learn(IMAGES, LABELS)
    made.save(tmp_path / "n.layup")
    assert load(tmp_path / "n.layup", cache=False).predict(IMAGES[:1]).tolist() == LABELS[:1]
    asking_for(tmp_path / "n.layup", weights="/etc/passwd")
    with pytest.raises(ConsentError):
        load(tmp_path / "n.layup", cache=False).predict(IMAGES[:1])


def hub_cache(folder: Path, repository: str, files: dict[str, Path]) -> Path:
    """A cache of Hugging Face's hub, as a download leaves it."""
    home = folder / f"models--{repository.replace('/', '--')}"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("abc123")
    (home / "snapshots" / "abc123").mkdir(parents=True)
    for name, file in files.items():
        (home / "snapshots" / "abc123" / name).write_bytes(file.read_bytes())
    return folder


@pytest.mark.usefixtures("offline")
def test_weights_of_timm_that_were_downloaded_before_are_used_without_asking_anybody(
    model: Path, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load(model, allow_backbone=True, cache=False).scores(IMAGES)
    cache = hub_cache(tmp_path / "hub", f"timm/{TINY}", {"model.safetensors": weights})
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    asking_for(model, weights=None)
    assert elsewhere({"name": TINY, "weights": None}) is None
    found = load(model, cache=False)
    np.testing.assert_array_equal(found.scores(IMAGES), expected)
    assert found.backbone_.spec == {"name": TINY, "weights": None, "input_size": None}


def test_half_a_download_is_none(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"name": "hf:somebody/something", "weights": None}
    for number, files in enumerate((["config.json"], ["config.json", "model.safetensors"])):
        cache = hub_cache(tmp_path / str(number), "somebody/something", dict.fromkeys(files, weights))
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
        assert (elsewhere(spec) is None) == ("model.safetensors" in files)


@pytest.mark.usefixtures("offline")
def test_what_was_not_downloaded_before_is_not_downloaded_for_a_file() -> None:
    with pytest.raises(LayupError, match="were not downloaded before"):
        load_backbone("resnet18.a1_in1k", local_only=True)


def malicious(folder: Path, marker: Path) -> Path:
    """A repository of transformers that brings code of its own."""
    folder.mkdir()
    code = f"open({str(marker)!r}, 'w').close()\nfrom transformers import PretrainedConfig, PreTrainedModel\n"
    code += "class C(PretrainedConfig):\n    model_type = 'mine'\n"
    code += "class M(PreTrainedModel):\n    config_class = C\n"
    (folder / "code.py").write_text(code)
    auto = {"AutoConfig": "code.C", "AutoModel": "code.M", "AutoImageProcessor": "code.M"}
    (folder / "config.json").write_text(json.dumps({"model_type": "mine", "auto_map": auto}))
    (folder / "preprocessor_config.json").write_text(json.dumps({"auto_map": auto}))
    return folder


@pytest.mark.parametrize("answer", ["y", "n"])
def test_code_in_a_repository_is_never_run_and_nobody_is_asked(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr("builtins.input", lambda *text: asked.append(text) or answer)
    folder = malicious(tmp_path / "evil", tmp_path / "ran")
    with pytest.raises(LayupError, match="could not be loaded"):
        load_backbone(f"hf:{folder}")
    assert not (tmp_path / "ran").exists()
    assert asked == []


def test_the_command_line_asks_for_consent(
    model: Path, tmp_path: Path, refused: Callable[..., Any], ok: Callable[..., Any]
) -> None:
    photos = write_photos(tmp_path / "photos", {0: 4, 1: 4})
    for command in (("predict", model, photos), ("evaluate", model, photos)):
        refused(*command, "--no-cache", says=["asks for the file or folder", "--allow-backbone"])
    refused("learn", photos, "--to", model, "--no-cache", says=["--allow-backbone"])
    ok("predict", model, photos, "--no-cache", "--allow-backbone")
    assert TINY in ok("info", model).out  # which loads no network
