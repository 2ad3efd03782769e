"""What is fetched, from where alone, and with whose key."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler

import pytest

from label_studios import KEY, SmallStudio, answering, small_studio
from layup.errors import InputError
from layup.serving.label_studio import Studio, studio as module

HERE = "http://127.0.0.1:1"
"""Nothing answers there: what is tried fails in another way than what is refused."""


@pytest.fixture
def small():
    with small_studio() as found:
        yield found


def test_photos_come_by_path_by_address_or_inside_the_task(small: SmallStudio) -> None:
    small.files["/data/upload/1/a%20b.png"] = b"spaced"
    small.files["/data/local-files/?d=photos/1.png"] = b"local"
    studio = Studio(f"{small.address}/", KEY)
    assert studio.photo("/data/upload/1/a b.png") == studio.photo("/data/upload/1/a%20b.png") == b"spaced"
    assert studio.photo(f"{small.address}/data/local-files/?d=photos/1.png") == b"local"
    assert studio.photo("data:image/png;base64,aGVsbG8=") == b"hello"
    assert Studio().photo("DATA:,hello%21") == b"hello!"


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:2/data/upload/1/1.png",
        "https://127.0.0.1:1/data/upload/1/1.png",
        "http://127.0.0.1:1@evil.example/data/upload/1/1.png",
        "//evil.example/data/upload/1/1.png",
        "http://[/data/upload/",
        "file:///data/upload/1.png",
        "ftp://127.0.0.1:1/data/upload/1.png",
        "s3://bucket/1.png",
        "/api/users",
        "/data/upload/../../api/users",
        "/data/upload/%2e%2e/%2e%2e/api/users",
        "data/upload/1.png",
        "/etc/passwd",
        "",
        "x" * 10_000,
    ],
)
def test_nothing_else_is_fetched(reference: str) -> None:
    with pytest.raises(InputError, match="not of the Label Studio"):
        Studio(HERE, KEY).photo(reference)


def test_without_an_address_nothing_is_fetched() -> None:
    with pytest.raises(InputError, match="not of the Label Studio"):
        Studio().photo("/data/upload/1.png")


@pytest.mark.parametrize("reference", [None, 7, ["/data/upload/1.png"], {}])
def test_what_is_no_text_is_no_photo(reference: object) -> None:
    with pytest.raises(InputError, match="in place of its photo"):
        Studio(HERE).photo(reference)


@pytest.mark.parametrize(
    "reference", ["data:image/png;base64,%%%", "data:image/png;base64", "data:;base64,é"]
)
def test_a_damaged_photo_inside_a_task_is_told(reference: str) -> None:
    with pytest.raises(InputError, match="cannot be decoded"):
        Studio().photo(reference)


@pytest.mark.parametrize(
    "reference", ["/data/upload/\n1.png", "/data/upload/é\ud800.png", "/data/upload/1.png"]
)
def test_where_nothing_answers_it_is_told_what_to_check(reference: str) -> None:
    with pytest.raises(InputError, match=r"does not give|is not of"):
        Studio(HERE).photo(reference)


def test_a_refusal_says_which_key_is_asked_for(small: SmallStudio) -> None:
    with pytest.raises(InputError, match=r"answers 401\. Give a key that it accepts in LABEL_STUDIO_API_KEY"):
        Studio(small.address, "another key").photo("/data/upload/1.png")
    with pytest.raises(InputError, match=r"answers 404\.$"):
        Studio(small.address, KEY).photo("/data/upload/1.png")


def test_too_much_is_not_read(small: SmallStudio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    studio = Studio(small.address, KEY)
    small.files |= {"/data/upload/1.png": bytes(100), "/data/upload/2.png": bytes(101)}
    assert len(studio.photo("/data/upload/1.png")) == 100
    with pytest.raises(InputError, match="more than 100 bytes"):
        studio.photo("/data/upload/2.png")
    with pytest.raises(InputError, match="more than 100 bytes"):
        studio.photo(f"data:,{'x' * 201}")


def test_what_takes_too_long_is_given_up(small: SmallStudio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_IN_ALL", -1.0)
    small.files["/data/upload/1.png"] = b"photo"
    with pytest.raises(InputError, match="not sent within"):
        Studio(small.address, KEY).photo("/data/upload/1.png")


def test_no_redirect_is_followed(small: SmallStudio) -> None:
    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"{small.address}/data/upload/1.png")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    small.files["/data/upload/1.png"] = b"photo"
    with answering(Elsewhere) as address, pytest.raises(InputError, match="answers 302"):
        Studio(address, KEY).photo("/data/upload/1.png")
    assert small.authorizations == set()


def test_a_personal_access_token_is_exchanged_once() -> None:
    asked: list[str] = []

    class Exchanging(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(f"{self.path} {body['refresh']} {self.headers['Authorization']}")
            self._send(json.dumps({"access": "pass"}).encode())

        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers['Authorization']}")
            self._send(b"photo")

        def _send(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    with answering(Exchanging) as address:
        studio = Studio(address, "a.b.c")
        assert studio.photo("/data/upload/1.png") == studio.photo("/data/upload/1.png") == b"photo"
    photo = "/data/upload/1.png Bearer pass"
    assert asked == ["/api/token/refresh a.b.c None", photo, photo]


def test_tasks_are_listed_with_a_key_alone(small: SmallStudio) -> None:
    small.add(b"photo")
    listed, total = Studio(small.address, KEY).tasks(1, 1, 100)
    assert (listed[0]["data"], total) == ({"image": "/data/upload/1/1.png"}, 1)
    assert Studio(small.address, KEY).task(1)["id"] == 1
    for blind in (Studio(small.address), Studio("", KEY)):
        with pytest.raises(InputError, match="LABEL_STUDIO_API_KEY"):
            blind.tasks(1, 1, 100)


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"tasks": 1, "total": 2}', b"[" * 100_000, b"\xff"])
def test_what_is_no_label_studio_is_found_out(small: SmallStudio, answer: bytes) -> None:
    small.answer = lambda path: answer  # type: ignore[method-assign]
    with pytest.raises(InputError, match="Is this the address of a Label Studio"):
        Studio(small.address, KEY).tasks(1, 1, 100)


@pytest.mark.parametrize(
    "address",
    [
        "localhost:8080",
        "ftp://host",
        "http://",
        "http://user:secret@host",
        "http://host/?q",
        "http://h:x",
        "http://[",
    ],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="is not an address of a Label Studio"):
        Studio(address)
