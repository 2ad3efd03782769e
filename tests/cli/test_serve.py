"""`layup serve`: a process that serves, and all that can be in its way."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from layup import Client, load
from layup.cli import serve
from layup.errors import ServerError
from layup.serving import RequestLimits, listening
from photos import write_photos

SMALL = ("--backbone", "vit-nano", "--k", "2", "--port", "0")


@contextlib.contextmanager
def serving(*arguments: object, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """A server as a process, its address, and the lines before that."""
    command = [sys.executable, "-m", "layup", "serve", *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as process:
        try:
            assert process.stdout
            lines: list[str] = []
            for line in process.stdout:
                if line.startswith("http"):
                    break
                lines.append(line.strip())
            else:
                pytest.fail(process.stderr.read() if process.stderr else "")
            yield process, line.strip(), lines
        finally:
            process.kill()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = write_photos(tmp_path_factory.mktemp("photos"), {0: 2, 1: 2})
    return sorted(folder.rglob("*.png"))


def labels(paths: list[Path]) -> list[str]:
    return [path.parent.name for path in paths]


def test_what_is_taught_is_in_the_file_when_the_server_has_ended(photos, tmp_path):
    with serving("m.layup", *SMALL, "--token", "secret", cwd=tmp_path) as (process, url, lines):
        assert lines == ["'m.layup': 0 classes from 0 photos."]
        client = Client(url, token="secret")
        client.teach(photos, labels(photos))
        assert [each["label"] for each in client.predict(photos)] == labels(photos)
        expected = client.info()["state_hash"]
        with pytest.raises(ServerError, match="asks for a token"):
            Client(url).classes()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert err == "Stopped. All that was acknowledged is done.\n"
    assert load(tmp_path / "m.layup").state_hash == expected


@pytest.mark.slow
def test_a_model_in_memory_is_saved_nowhere(photos, tmp_path):
    with serving(*SMALL, cwd=tmp_path) as (process, url, lines):
        assert "in memory alone" in lines[0]
        client = Client(url)
        client.teach(photos[0], "zero")
        assert "download it to keep it" in client.info()["keeps"]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_demo_knows_digits_and_shows_others(tmp_path):
    with serving("--demo", "--port", "0", cwd=tmp_path) as (_, url, lines):
        assert "3 classes from 36 photos" in lines[0]
        assert {each["label"] for each in Client(url).classes()["classes"]} == {"0", "1", "2"}


@pytest.mark.slow
def test_a_copy_follows_and_changes_nothing(photos, tmp_path):
    with serving("m.layup", *SMALL, cwd=tmp_path) as (_, first, _lines):
        Client(first).teach(photos[:2], "zero")
        with serving("m.layup", "--follow", "--port", "0", cwd=tmp_path) as (_, second, _lines):
            copy = Client(second)
            assert copy.info()["read_only"]
            assert copy.predict(photos[0])[0]["label"] == "zero"
            with pytest.raises(ServerError) as refused:
                copy.teach(photos[3], "one")
            assert refused.value.code == "read-only"


@pytest.mark.slow
def test_without_the_cache_nothing_of_a_photo_is_written_but_the_model(photos, tmp_path, own_cache):
    with serving("m.layup", *SMALL, "--no-cache", cwd=tmp_path) as (process, url, _):
        Client(url).teach(photos, labels(photos))
        assert "feature vector in the cache" not in Client(url).info()["keeps"]
        assert "in the journal beside the model" in Client(url).info()["keeps"]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert list(own_cache.iterdir()) == []


def code_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_what_a_server_takes_by_default_is_what_the_library_takes():
    defaults = {name: each.default for name, each in inspect.signature(serve.serve).parameters.items()}
    options = ("max_request", "max_photo", "max_pixels", "rate")
    assert serve._limits(*(defaults[name] for name in options)) == RequestLimits()


@pytest.mark.slow
def test_what_a_server_takes_can_be_chosen(photos, tmp_path):
    big = tmp_path / "big.png"
    Image.new("1", (2000, 1000)).save(big)
    limits = ("--max-request", "2", "--max-photo", "1", "--max-pixels", "1", "--rate", "2")
    with serving("m.layup", *SMALL, *limits, cwd=tmp_path) as (_, url, _lines):
        found = Client(url).teach([big, photos[0], bytes(1_500_000)], "zero")
        assert [each["status"] for each in found] == ["bad", "learned", "bad"]
        assert "1,000,000 pixels" in found[0]["error"]["message"]
        assert "larger than 1.0 MB" in found[2]["error"]["message"]
        with pytest.raises(ServerError, match=r"2\.0 MB"):
            Client(url).teach(bytes(2_500_000), "zero")
        codes = {code_of(f"{url}/classes") for _ in range(20)}
        assert codes == {200, 429}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["m.layup", "--host", "0.0.0.0"], ["needs a token", "The option is --token"]),
        (["m.layup", "--read-token", "x"], ["none for teaching"]),
        (["m.layup", "--host", "192.0.2.1", "--token", "x"], ["not an address of this machine", "--host"]),
        (["--follow"], ["needs the file of another one"]),
        (["m.layup", "--follow", "--demo"], ["needs the file of another one"]),
        (["m.layup", "--follow", "--port", "0"], ["m.layup"]),
        (["damaged.layup", "--demo"], ["a model already", "Leave --demo out"]),
        (["damaged.layup", "--k", "3"], ["a model already", "--per-class"]),
        (["damaged.layup", "--port", "0"], ["'damaged.layup' is damaged, or not a layup file"]),
        (["folder", "--port", "0"], ["folder"]),
        (["nowhere/m.layup", *SMALL], ["nowhere"]),
        (["m.layup", "--port", "99999"], ["65535"]),
        (["m.layup", "--max-photo", "300"], ["300 MB would not fit", "--max-request"]),
        (["m.layup", "--rate", "0"], ["--rate"]),
    ],
)
def test_what_is_in_the_way_is_a_sentence(refused, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    Path("damaged.layup").write_bytes(b"no model")
    Path("folder").mkdir()
    refused("serve", *arguments, says=says)
    assert not Path("m.layup").exists()


def test_a_port_in_use_is_noticed_before_a_network_is_loaded(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with listening("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        refused("serve", "m.layup", "--port", port, says=[f"Port {port} is in use", "--port"])
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_are_named(refused, monkeypatch):
    monkeypatch.setattr("layup.serving.installed.PACKAGES", ("fastapi", "no_such_package"))
    refused("serve", says=["other packages (no_such_package)", "pip install 'layup-cl[serve]'"])


def test_tokens_may_come_from_the_environment(refused, monkeypatch):
    """Not everybody should see them in the list of processes."""
    monkeypatch.setenv("LAYUP_TOKEN", "two\nlines")
    refused("serve", says=["A token must have", "--token"])


@pytest.mark.slow
def test_it_works_with_a_label_studio_whose_annotations_are_noted_beside_the_model(tmp_path):
    with serving("m.layup", *SMALL, "--label-studio", "http://127.0.0.1:1", cwd=tmp_path) as (_, url, _):
        with urllib.request.urlopen(f"{url}/label-studio/health", timeout=30) as answer:
            assert json.loads(answer.read())["status"] == "UP"
        assert (tmp_path / "m.layup.label-studio").is_file()


@pytest.mark.slow
def test_an_address_of_no_label_studio_is_refused(tmp_path):
    command = [sys.executable, "-m", "layup", "serve", *SMALL, "--label-studio", "localhost:8080"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "is not an address of a Label Studio" in done.stderr
    assert "--label-studio" in done.stderr
