"""Models on the hub, on this machine: pushed with a card, fetched as one file, checked like any other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import yaml
from PIL import Image

import fake_hub
import layup
from fake_hub import TOKEN
from layup import LayUP, from_pretrained
from layup.errors import (
    ConsentError,
    DamagedFileError,
    InputError,
    LayupError,
    NotEnoughMemoryError,
    StorageError,
)
from layup.model import PredictOnly
from models import small_network
from photos import batch, digits

# The hub's library uploads in a way that its own HTTP library no longer likes.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")

TEMPLATE = "/{repo_id}/resolve/{revision}/{filename}"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """An empty hub, and an empty cache of it; nobody has logged in."""
    constants = huggingface_hub.constants
    with fake_hub.running() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.endpoint + TEMPLATE)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)
        huggingface_hub.utils.disable_progress_bars()
        yield hub


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAYUP_CACHE", str(tmp_path_factory.mktemp("cache")))
        model = LayUP("vit-nano")
        model.learn(*batch({0: 8, 1: 7}))
        model.expect()
    return model


def make(images, labels, **options):
    model = LayUP("vit-nano", lam=1.0, **options)
    model.learn(images, labels)
    return model


ASKED = digits(0, 2, start=20) + digits(1, 2, start=20)


def test_a_model_is_pushed_and_fetched(hub, taught):
    where = taught.push_to_hub("somebody/pets", token=TOKEN)
    assert where == f"{hub.endpoint}/somebody/pets"
    files = hub.repositories["somebody/pets"].commits[hub.repositories["somebody/pets"].head]
    assert sorted(files) == ["README.md", "model.layup"]
    found = from_pretrained("somebody/pets")
    assert isinstance(found, PredictOnly)
    np.testing.assert_allclose(found.scores(ASKED), taught.scores(ASKED), rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="A predict-only model cannot learn"):
        found.learn(ASKED, ["a"] * 4)
    assert not [line for line in hub.asked if "/resolve/" in line and not line.endswith("/model.layup")]


def test_a_whole_model_can_be_taught_further(hub, taught):
    taught.push_to_hub("somebody/whole", whole=True, token=TOKEN)
    found = from_pretrained("somebody/whole")
    assert found.counts_ == taught.counts_
    assert found.state_hash == taught.state_hash
    found.learn(digits(2, 3), ["digit 2"] * 3, again=True)
    assert len(found.classes_) == 3


def test_pushing_again_makes_a_new_commit_and_old_ones_can_be_had(hub, taught, tmp_path):
    taught.push_to_hub("somebody/pets", token=TOKEN)
    first = hub.repositories["somebody/pets"].head
    more = make(digits(2, 3), ["digit 2"] * 3)
    more.push_to_hub("somebody/pets", token=TOKEN)
    assert from_pretrained("somebody/pets").classes_ == ["digit 2"]
    assert from_pretrained("somebody/pets", revision=first).classes_ == ["digit 0", "digit 1"]
    with pytest.raises(InputError, match=r"'somebody/pets' has no revision 'v9'. Give a branch"):
        from_pretrained("somebody/pets", revision="v9")


def test_private_models_need_a_token(hub, taught):
    taught.push_to_hub("somebody/secret", private=True, token=TOKEN)
    with pytest.raises(InputError, match="no repository 'somebody/secret' on the hub, or it is private"):
        from_pretrained("somebody/secret")
    assert from_pretrained("somebody/secret", token=TOKEN).classes_ == taught.classes_


def test_who_may_not_write_is_told(hub, taught):
    with pytest.raises(
        LayupError, match=r"could not be pushed to 'somebody/pets': .*401.* log in to the hub"
    ):
        taught.push_to_hub("somebody/pets", token="hf_of_nobody")
    assert hub.repositories == {}


def test_what_is_not_there_is_said(hub, taught):
    with pytest.raises(InputError, match="There is no repository 'somebody/none' on the hub"):
        from_pretrained("somebody/none")
    hub.repositories["somebody/bert"] = fake_hub.Repository()
    with pytest.raises(InputError, match=r"'somebody/bert' has no model.layup: it is no model of layup's"):
        from_pretrained("somebody/bert")
    for name in ("a b", "a/b/c", "", "somebody/pets.git", "../pets/../x"[2:]):
        with pytest.raises(InputError):
            from_pretrained(name)


def test_a_file_from_a_stranger_is_checked_like_any_other(hub, taught):
    commits = {"1" * 40: {"model.layup": b"\x80\x04cos\nsystem\n", "model.layup.journal": b"x"}}
    hub.repositories["stranger/pets"] = fake_hub.Repository(commits=commits)
    with pytest.raises(DamagedFileError):
        from_pretrained("stranger/pets")
    assert not [line for line in hub.asked if "journal" in line]


def test_the_network_is_not_downloaded_without_consent(hub):
    model = LayUP(small_network(), k=2, lam=1.0, cache=False)
    model.learn(digits(0, 3), ["digit 0"] * 3)
    about = dict(model.network.state()[0])
    spec = {"name": "resnet10t.c3_in1k", "weights": None, "input_size": None}
    named = {**about, "name": spec["name"], "spec": spec}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model.network), "state", lambda _: (named, {}))
        model.push_to_hub("stranger/pets", token=TOKEN)
    card = hub.repositories["stranger/pets"].commits[hub.repositories["stranger/pets"].head]["README.md"]
    assert b'base_model: "timm/resnet10t.c3_in1k"' in card
    assert b'from_pretrained("stranger/pets", allow_backbone=True)' in card
    asked = len(hub.asked)
    with pytest.raises(ConsentError, match=r"a download of timm's 'resnet10t.c3_in1k'"):
        from_pretrained("stranger/pets").predict(digits(0, 1))
    assert all("/somebody" in line or "/stranger/pets/" in line for line in hub.asked[asked:])


def test_a_file_too_large_for_this_machine_is_refused_before_it_is_downloaded(hub, taught, monkeypatch):
    taught.push_to_hub("somebody/pets", token=TOKEN)
    hub.asked.clear()
    monkeypatch.setattr("layup.memory.available", lambda: 1000)
    with pytest.raises(NotEnoughMemoryError, match="Loading 'somebody/pets' would take about"):
        from_pretrained("somebody/pets")
    assert not [line for line in hub.asked if line.startswith("GET")]


def test_without_a_connection_the_last_download_is_used(hub, taught, monkeypatch):
    taught.push_to_hub("somebody/pets", token=TOKEN)
    from_pretrained("somebody/pets")
    monkeypatch.setattr(
        huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9" + TEMPLATE
    )
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    assert from_pretrained("somebody/pets").classes_ == taught.classes_
    with pytest.raises(
        StorageError, match=r"'somebody/other' could not be downloaded: .* not downloaded before"
    ):
        from_pretrained("somebody/other")
    with pytest.raises(LayupError, match="could not be pushed"):
        taught.push_to_hub("somebody/pets", token=TOKEN)


@pytest.mark.slow
def test_from_the_command_line(hub, taught, tmp_path):
    """In a process of its own, which is told where the hub is as anybody would."""
    taught.save(tmp_path / "m.layup")
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.endpoint,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1",
    }
    environment.pop("HF_HUB_OFFLINE", None)

    def run(*arguments):
        command = [sys.executable, "-m", "layup", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "is shared predict-only" in run("push", tmp_path / "m.layup", "somebody/pets")
    assert "vit-nano" in run("info", "hf:somebody/pets")


# Folders


def test_a_folder_is_like_a_repository(taught, tmp_path):
    where = taught.push_to_hub(tmp_path / "pets", licence="mit")
    assert where == str(tmp_path / "pets")
    assert sorted(path.name for path in (tmp_path / "pets").iterdir() if path.name[0] != ".") == [
        "README.md",
        "model.layup",
    ]
    assert from_pretrained(tmp_path / "pets").predict(ASKED).tolist() == taught.predict(ASKED).tolist()
    assert 'from_pretrained("./pets")' in (tmp_path / "pets" / "README.md").read_text("utf-8")
    taught.push_to_hub(tmp_path / "pets", whole=True)
    assert from_pretrained(str(tmp_path / "pets")).counts_ == taught.counts_


def test_folders_that_do_not_fit_are_refused(taught, tmp_path):
    with pytest.raises(InputError, match=r"There is no model.layup in the folder"):
        from_pretrained(tmp_path)
    with pytest.raises(InputError, match="is a folder, which has no revisions"):
        from_pretrained(tmp_path, revision="main")
    (tmp_path / "README.md").write_text("# My own\n")
    with pytest.raises(InputError, match="is there already, and is no card of a model"):
        taught.push_to_hub(tmp_path)
    assert (tmp_path / "README.md").read_text() == "# My own\n"
    with pytest.raises(InputError, match="predict-only: there is no whole model in it"):
        taught.predict_only().push_to_hub(tmp_path / "x", whole=True)


# Cards


def card_of(model, folder, **options):
    return (Path(model.push_to_hub(folder, **options)) / "README.md").read_text()


def test_what_a_card_says(taught, tmp_path):
    text = card_of(taught, tmp_path / "pets", licence="cc-by-4.0")
    _, about, rest = text.split("---\n", 2)
    assert yaml.safe_load(about) == {
        "library_name": "layup",
        "pipeline_tag": "image-classification",
        "tags": ["layup", "image-classification", "continual-learning"],
        "license": "cc-by-4.0",
    }
    assert "| digit 0 | 8 |\n| digit 1 | 7 |\n| all | 15 |" in rest
    expected = taught.log[-1].expected
    assert f"**{100 * expected['accuracy']:.0f} %** (95 % interval: {100 * expected['low']:.0f} % to" in rest
    assert f"on its own photos: {expected['tested']} of them" in rest
    assert "Licence of its weights: mit" in rest
    assert "No photo, count, sum, list of photos or log is in it." in rest
    whole = card_of(taught, tmp_path / "whole", whole=True)
    assert "Gram matrix of all photos" in whole
    assert "test whether it was probably learned" in whole


def test_the_code_of_a_card_runs(taught, tmp_path, monkeypatch, capsys):
    text = card_of(taught, tmp_path / "pets")
    monkeypatch.chdir(tmp_path)
    Image.fromarray(ASKED[0]).save("photo.jpg")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out == "['digit 0']\n"


def test_a_card_says_what_is_not_known(tmp_path):
    model = make(*batch({0: 3, 1: 3}))
    text = card_of(model, tmp_path / "one")
    assert "It was not measured for this model as it is." in text
    alone = card_of(model.predict_only(), tmp_path / "two")
    assert "- digit 0\n- digit 1" in alone
    assert "photos learned" not in alone
    assert "counts" in text
    assert "counts" not in alone


def test_names_cannot_change_a_card(tmp_path):
    evil = ["a|b", "<script>alert(1)</script>", "x](http://y)", "`rm`"]
    model = make(digits(0, 4), evil)
    text = card_of(model, tmp_path / "pets", licence='mit"\nevil: yes')
    assert set(yaml.safe_load(text.split("---\n")[1])) == {"library_name", "pipeline_tag", "tags", "license"}
    assert "<script>" not in text.replace(r"\<script", "")
    assert r"a\|b" in text


def test_networks_of_ones_own_are_said(backbone, tmp_path):
    model = LayUP(backbone, lam=1.0, cache=False)
    model.learn(digits(0, 3), ["digit 0"] * 3)
    text = card_of(model, tmp_path / "own")
    assert "The network is one of the maker's own" in text
    assert "not known to layup; ask its makers" in text
    with pytest.raises(LayupError):
        layup.from_pretrained(tmp_path / "own").predict(digits(0, 1))
    found = layup.from_pretrained(tmp_path / "own", backbone=backbone)
    assert found.predict(digits(0, 1)).tolist() == ["digit 0"]
