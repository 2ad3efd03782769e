"""The client, against a real server on loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

from layup import Client, client as client_module, load
from layup.errors import InputError, ServerError
from layup.serving import RequestLimits, Tokens, create_app
from models import picture, small_network
from servers import photo, running, service


@pytest.fixture
def server() -> Iterator[Client]:
    with service() as found, running(create_app(found)) as url:
        yield Client(url)


def test_it_does_all_that_the_api_does(server, tmp_path):
    paths = []
    for number in range(2):
        paths.append(tmp_path / f'a "{number}" ä.png')
        paths[-1].write_bytes(photo(number))
    told = server.teach([*paths, photo(2), Image.fromarray(picture(3))], ["cat", "cat", "dog", "dog"])
    assert [each["status"] for each in told] == ["learned"] * 4
    assert told[1]["name"] == "a %22" + "1%22 ä.png"
    assert [each["learned_as"] for each in server.predict([str(paths[0]), photo(2)])] == [["cat"], ["dog"]]
    assert len(server.predict(photo(9), top=1)[0]["probabilities"]) == 1
    assert server.explain(photo(0), heat=False)["heat"] is None
    assert server.suggest([photo(9), photo(0)], count=5)["known"] == 1
    assert [each["count"] for each in server.classes()["classes"]] == [2, 2]
    assert server.info()["classes"] == {"cat": 2, "dog": 2}
    path = server.download(tmp_path / "m.layup")
    assert load(path, backbone=small_network()).counts_ == {"cat": 2, "dog": 2}
    assert server.rename("cat", "tabby")["counts"] == {"dog": 2, "tabby": 2}
    assert server.teach(photo(5), "eel")[0]["status"] == "learned"
    assert server.undo()["forgotten"] == {"eel": 1}
    assert server.teach(photo(2), "tabby", relabel=True)[0]["status"] == "moved"
    assert server.forget(photo(2))[0]["forgotten"] == {"tabby": 1}
    assert server.forget_class("dog")["counts"] == {"tabby": 2}
    assert [each["action"] for each in server.log()][-1] == "forget"


def test_many_photos_are_several_requests(server):
    contents = [photo(number) for number in range(40)]
    told = server.teach(contents, [f"class {number % 4}" for number in range(40)])
    assert [each["label"] for each in told] == [f"class {number % 4}" for number in range(40)]
    assert len(server.predict(contents)) == 40
    assert server.classes()["version"] == 2


def test_what_the_server_refuses_is_its_sentence(server):
    with pytest.raises(ServerError, match="knows no class yet") as refused:
        server.predict(photo(0))
    assert (refused.value.code, refused.value.status) == ("nothing-learned", 409)
    server.teach(photo(0), "cat")
    with pytest.raises(ServerError, match="Unknown class 'dog'"):
        server.forget_class("dog")


def test_what_cannot_be_sent_is_noticed_first(server, tmp_path):
    for image, said in ((tmp_path / "no.png", "Cannot read"), (tmp_path, "Cannot read"), (3, "is a int")):
        with pytest.raises(InputError, match=said):
            server.predict([image])
    with pytest.raises(InputError, match="2 photos, but 1 labels"):
        server.teach([photo(0), photo(1)], ["cat"])
    for url in ("127.0.0.1:8000", "ftp://127.0.0.1", "file:///etc/passwd", ""):
        with pytest.raises(InputError, match="not the address"):
            Client(url)


def test_tokens_open_what_they_are_for():
    tokens = Tokens("full", "read")
    with service(tokens=tokens) as found, running(create_app(found)) as url:
        Client(url, token="full").teach(photo(0), "cat")
        assert Client(url, token="read").predict(photo(0))[0]["label"] == "cat"
        for token, status in (("read", 403), ("wrong", 401), (None, 401)):
            with pytest.raises(ServerError) as refused:
                Client(url, token=token).teach(photo(1), "cat")
            assert refused.value.status == status
        assert found.live.facts().counts == {"cat": 1}


class Moody(BaseHTTPRequestHandler):
    """Fails in given ways, one after another, and notes the requests."""

    moods: list[str]
    keys: list[str | None]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.keys.append(self.headers["Idempotency-Key"])
        mood = self.moods.pop(0) if self.moods else "well"
        if mood == "hangs up":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif mood == "busy":
            self._answer(503, b'{"error": {"code": "busy", "message": "Busy."}}')
        elif mood == "leads away":
            self.send_response(307)
            self.send_header("Location", "http://127.0.0.1:9/undo")
            self.end_headers()
        else:
            self._answer(200, b"[]" if mood == "strange" else b'{"version": 1}')

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def moody(monkeypatch):
    """Makes a client of a server with these moods, and gives the list of keys that arrive."""
    monkeypatch.setattr(client_module, "PAUSE", 0.001)
    handler = type("Handler", (Moody,), {"moods": [], "keys": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Client(f"http://127.0.0.1:{server.server_port}"), handler
        server.shutdown()
        thread.join()


def test_a_change_is_sent_again_with_the_same_key(moody):
    client, handler = moody
    handler.moods[:] = ["hangs up", "busy", "hangs up", "busy"]
    assert client.undo() == {"version": 1}
    assert len(handler.keys) == 5
    assert len(set(handler.keys)) == 1
    client.undo()
    assert len(set(handler.keys)) == 2  # another change, another key


def test_it_gives_up_in_the_end(moody):
    client, handler = moody
    handler.moods[:] = ["busy"] * 5
    with pytest.raises(ServerError, match="Busy"):
        client.undo()
    handler.moods[:] = ["hangs up"] * 5
    with pytest.raises(ServerError, match="Is the server running there"):
        client.undo()
    assert len(handler.keys) == 10


def test_a_token_does_not_follow_a_redirect(moody):
    client, handler = moody
    handler.moods[:] = ["leads away"]
    with pytest.raises(ServerError) as refused:
        client.undo()
    assert refused.value.status == 307
    assert len(handler.keys) == 1


def test_what_is_no_server_of_layup_is_noticed(moody):
    client, handler = moody
    handler.moods[:] = ["strange"]
    with pytest.raises(ServerError, match="not what a server of layup answers"):
        client.undo()


def test_a_download_is_whole_or_not_there(tmp_path):
    class Short(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"only this")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    path = tmp_path / "m.layup"
    path.write_bytes(b"what was there before")
    with ThreadingHTTPServer(("127.0.0.1", 0), Short) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with pytest.raises(ServerError, match="cut off"):
            Client(f"http://127.0.0.1:{server.server_port}").download(path)
        server.shutdown()
        thread.join()
    assert [each.name for each in tmp_path.iterdir()] == ["m.layup"]
    assert path.read_bytes() == b"what was there before"


def test_it_needs_nothing_but_python():
    code = "import sys, layup; layup.Client('http://127.0.0.1:1'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & {"torch", "numpy", "PIL", "fastapi", "pydantic", "httpx", "requests"} == set()


def test_limits_of_the_server_hold_for_it():
    limits = RequestLimits(image=1000)
    with service(limits=limits) as found, running(create_app(found), limits) as url:
        small, large = Client(url).teach([photo(0), bytes(1001)], "cat")
        assert (small["status"], large["status"]) == ("learned", "bad")
        assert large["error"]["code"] == "too-large"
