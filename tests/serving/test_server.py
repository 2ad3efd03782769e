"""The server itself, over real connections: slow, broken and many clients, and how it ends."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from layup import Client
from layup.errors import InputError, ServerError
from layup.serving import RequestLimits, create_app, listening
from servers import photo, running, service

LIMITS = RequestLimits(header=0.3, upload=0.5, body=100_000)


@pytest.fixture(scope="module")
def address():
    with service(limits=LIMITS) as found, running(create_app(found), LIMITS) as url:
        yield urlsplit(url).hostname, urlsplit(url).port


def connected(address) -> socket.socket:
    return socket.create_connection(address, timeout=20)


def everything(connection: socket.socket) -> bytes:
    """All that comes until the server hangs up."""
    found = b""
    while data := connection.recv(65536):
        found += data
    return found


def refusal(answer: bytes) -> tuple[int, str]:
    """The status and the code of an answer as it came."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def test_who_says_nothing_is_not_waited_for(address):
    with connected(address) as connection:
        assert everything(connection) == b""


def test_a_header_that_does_not_end_is_not_waited_for(address):
    with connected(address) as connection:
        connection.sendall(b"GET /classes HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        for _ in range(200):  # a byte now and then does not keep it open
            time.sleep(0.02)
            try:
                connection.sendall(b"x")
            except OSError:
                return
        pytest.fail("the connection stayed open")


def test_a_body_that_does_not_come_is_not_waited_for(address):
    with connected(address) as connection:
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\n"
            b"Content-Length: 9\r\n\r\nabc"
        )
        assert refusal(everything(connection)) == (408, "too-slow")


@pytest.mark.parametrize("length", [b"-1", b"1e3", b"9" * 30, b"1, 2"])
def test_a_length_that_cannot_be_is_refused(address, length):
    with connected(address) as connection:
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\nContent-Length: "
            + length
            + b"\r\n\r\nabc"
        )
        assert refusal(everything(connection))[0] in (400, 408, 413)


@pytest.mark.parametrize(
    "text",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n",
        b"GET /\r\n\r\n",
    ],
)
def test_what_is_not_http_is_a_sentence_too(address, text):
    with connected(address) as connection:
        connection.sendall(text)
        assert refusal(everything(connection)) == (400, "bad-request")


def test_more_than_is_allowed_is_refused_after_it_was_heard(address):
    with pytest.raises(ServerError) as refused:
        Client(f"http://{address[0]}:{address[1]}").predict(bytes(150_000))
    assert (refused.value.status, refused.value.code) == (413, "too-large")


def test_a_client_that_goes_away_harms_nobody(address):
    for _ in range(3):
        with connected(address) as connection:
            connection.sendall(
                b"POST /teach HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999\r\n"
                b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
            )
    assert Client(f"http://{address[0]}:{address[1]}").classes()["classes"] == []


def test_beyond_the_queue_a_server_says_when_to_come_again(monkeypatch):
    limits = RequestLimits(threads=1, waiting=1)
    go, entered = threading.Event(), threading.Semaphore(0)
    with service(limits=limits) as found, running(create_app(found), limits) as url:
        client = Client(url)
        client.teach(photo(0), "cat")
        predict = found.live.predict

        def slow(images):
            entered.release()
            assert go.wait(20)
            return predict(images)

        monkeypatch.setattr(found.live, "predict", slow)
        monkeypatch.setattr("layup.client.TRIES", 1)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(client.predict, photo(0))
            assert entered.acquire(timeout=20)
            second = pool.submit(client.predict, photo(0))
            while found.asking.inside < 2:
                time.sleep(0.01)
            with pytest.raises(ServerError) as refused:
                client.predict(photo(0))
            assert (refused.value.status, refused.value.code) == (503, "busy")
            assert client.teach(photo(1), "dog")[0]["status"] == "learned"  # another lane
            with urlopen(f"{url}/v2/health/ready", timeout=20) as answer:  # and another one
                assert json.load(answer) == {"ready": True}
            go.set()
            assert [each.result(20)[0]["label"] for each in (first, second)]


def test_what_was_accepted_is_finished_before_the_end(monkeypatch):
    """The server is asked to end while a photo is being taught: the answer still comes."""
    entered, go = threading.Event(), threading.Event()
    with service() as found, ThreadPoolExecutor(1) as pool:
        teach = found.live.teach

        def slow(*args, **kwargs):
            entered.set()
            assert go.wait(20)
            return teach(*args, **kwargs)

        monkeypatch.setattr(found.live, "teach", slow)
        with running(create_app(found)) as url:
            waiting = pool.submit(Client(url).teach, photo(0), "cat")
            assert entered.wait(20)
            threading.Timer(0.3, go.set).start()
        assert waiting.result(20)[0]["status"] == "learned"
        assert found.live.facts().counts == {"cat": 1}


def test_a_port_in_use_is_a_sentence():
    with listening("127.0.0.1", 0) as bound, pytest.raises(InputError, match="is in use") as refused:
        listening("127.0.0.1", bound.getsockname()[1])
    assert refused.value.about == "port"


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host", "x" * 300])
def test_an_address_of_another_machine_is_a_sentence(host):
    with pytest.raises(InputError, match="address") as refused:
        listening(host, 0)
    assert refused.value.about == "host"
