"""Without a connection, or with a hub that does not answer, one request is made, and a sentence says so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import huggingface_hub.constants
import pytest

import layup.backbones.hub
from layup.backbones import load_backbone
from layup.backbones.hub import unreachable
from layup.errors import LayupError, UnknownNameError

TEMPLATE = "/{repo_id}/resolve/{revision}/{filename}"
Point = Callable[[int], None]


@contextmanager
def listening(answer: bytes | None) -> Iterator[tuple[int, list[bytes]]]:
    """A server on this machine that gives every caller the same answer (or hangs up).

    Yields its port, and the requests for files: the hub's library may ask for other things, once.
    """
    asked: list[bytes] = []

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                caller, _ = server.accept()
                with caller:
                    request = caller.recv(65536)
                    asked.extend([request] if b"/resolve/" in request else [])
                    if answer is not None:
                        caller.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=[server], daemon=True)
        thread.start()
        yield server.getsockname()[1], asked
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.fixture
def hub_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Point:
    """Puts the hub on a port of this machine, with an empty cache."""

    def point(port: int) -> None:
        endpoint = f"http://127.0.0.1:{port}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + TEMPLATE)

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return point


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def answering(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


def test_weights_that_cannot_be_downloaded_are_asked_for_once(hub_at: Point) -> None:
    with listening(None) as (port, asked):
        hub_at(port)
        with pytest.raises(LayupError, match=r"'resnet18.a1_in1k' could not be downloaded: ") as caught:
            load_backbone("resnet18")
    assert len(asked) == 1
    assert b"timm/resnet18.a1_in1k" in asked[0]
    for words in (
        "needs the internet",
        "a local copy of the weights",
        "'bundled' and 'vit-nano' need no download",
    ):
        assert words in str(caught.value)
    assert caught.value.about == "weights"


def test_a_model_of_hugging_face_is_asked_for_once(hub_at: Point) -> None:
    pytest.importorskip("transformers")
    with listening(None) as (port, asked):
        hub_at(port)
        with pytest.raises(LayupError, match=r"'somebody/something' could not be downloaded: .*internet"):
            load_backbone("hf:somebody/something")
    assert len(asked) == 1


def test_without_a_connection_it_says_why(hub_at: Point) -> None:
    hub_at(closed_port())
    assert "refused" in (unreachable("timm/resnet18.a1_in1k", "model.safetensors") or "")


def test_a_hub_that_does_not_answer_is_not_waited_for(hub_at: Point, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layup.backbones.hub, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hub_at(silent.getsockname()[1])
        assert "timed out" in (unreachable("timm/resnet18.a1_in1k", "model.safetensors") or "")


@pytest.mark.parametrize("status", ["404 Not Found", "401 Unauthorized", "503 Service Unavailable"])
def test_a_hub_that_answers_is_there(hub_at: Point, status: str) -> None:
    with listening(answering(status)) as (port, asked):
        hub_at(port)
        assert unreachable("timm/resnet18.a1_in1k@main", "model.safetensors") is None
    assert b"/resolve/main/model.safetensors" in asked[0]


def test_an_unknown_name_is_refused_without_a_request(hub_at: Point) -> None:
    with listening(None) as (port, asked):
        hub_at(port)
        with pytest.raises(UnknownNameError, match="Did you mean 'resnet18'"):
            load_backbone("resnett18")
        with pytest.raises(UnknownNameError, match="Unknown resnet18 weights 'a1_in2k'"):
            load_backbone("resnet18.a1_in2k")
    assert asked == []
