"""Malformed requests to a server: each is answered, or refused in a sentence, and others notice nothing."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fastapi import FastAPI
from PIL import Image

from layup import LayUP
from layup.errors import LayupError
from layup.serving import Hosts, LiveModel, RequestLimits, Service, Tokens, create_app
from torture import image_files, raw_bytes, samples
from torture.guard import kept_inside
from torture.promise import Promise, Tries, about, require, require_sentence

LIMITS = RequestLimits(
    body=200_000, image=60_000, images=8, field=200, held=400_000, upload=2, rate=1e9, burst=10**9, threads=2
)
"""Small, so that requests go beyond them."""
BOUNDARY = b"--part"
REFUSED = range(400, 500)
EDGES = (
    b"",
    b"a",
    b"-1",
    b"0",
    b"99999999999999999999",
    b"\xff\xfe",
    b"%00",
    b"..",
    b"\\",
    b'"',
    b"x" * 5000,
)
"""Values that nobody expects."""

PATHS = (b"/predict", b"/predict", b"/teach", b"/forget", b"/explain", b"/suggest", b"/rename")

Header = tuple[bytes, bytes]


@dataclass
class Request:
    """What is sent, as it goes over the wire."""

    path: bytes
    headers: list[Header]
    body: bytes
    query: bytes = b""

    @property
    def about(self) -> str:
        """What was tried, for the report."""
        return f"{self.path!r}?{self.query!r} {self.headers!r:.300} {len(self.body)} bytes {self.body!r:.200}"


@cache
def picture(number: int) -> bytes:
    """The contents of an image file."""
    file = io.BytesIO()
    Image.fromarray(samples.picture("upload", number)).save(file, "PNG")
    return file.getvalue()


@cache
def server(_process: int) -> tuple[FastAPI, Service]:
    """A server on a model that knows two photos; one per process, since threads do not survive a fork."""
    live = LiveModel.open(None, new=lambda: LayUP(samples.tiny(), 2, lam=1.0, cache=False, progress=False))
    live.teach([picture(0), picture(1)], ["cat", "dog"])
    service = Service.of(live, Hosts.of("127.0.0.1"), Tokens(), LIMITS, None)
    return create_app(service), service


def form(images: Sequence[bytes], fields: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A form as browsers send it."""
    parts = [b'Content-Disposition: form-data; name="%s"\r\n\r\n%s' % field for field in fields]
    parts += [
        b'Content-Disposition: form-data; name="images"; filename="%d.png"\r\n\r\n%s' % (number, data)
        for number, data in enumerate(images)
    ]
    ends = b"".join(b"--%s\r\n%s\r\n" % (BOUNDARY, part) for part in parts)
    return ends + b"--%s--\r\n" % BOUNDARY


def sound(chance: Random) -> Request:
    """A request as it should be, of photos that may not be."""
    made = image_files.samples()
    names = chance.choices(sorted(made), k=3)
    images = [image_files.mutated(name, made[name], chance)[0] for name in names]
    images[0] = picture(chance.randrange(4))
    kind = b"multipart/form-data; boundary=" + BOUNDARY
    path = chance.choice(
        (b"/predict", b"/predict", b"/teach", b"/forget", b"/explain", b"/suggest", b"/rename")
    )
    if path == b"/rename" or (path == b"/forget" and chance.random() < 0.5):
        value = {"old": "cat", "new": "cat"} if path == b"/rename" else {"class": "no such class"}
        return Request(path, [(b"content-type", b"application/json")], json.dumps(value).encode())
    if chance.random() < 0.2:
        return Request(path, [(b"content-type", b"image/png")], images[0])
    fields = [(b"label", b"new")] if path == b"/teach" else []
    return Request(path, [(b"content-type", kind)], form(images[: chance.randrange(1, 4)], fields))


def damaged_body(request: Request, chance: Random) -> None:
    """Something is wrong in it."""
    request.body = raw_bytes.mutated(request.body, chance)[0]


def wrong_kind(request: Request, chance: Random) -> None:
    """It says that it is something else."""
    kinds = (
        b"",
        b"text/plain",
        b"application/json",
        b"image/png",
        b"multipart/form-data",
        b"multipart/mixed",
    )
    request.headers = [(b"content-type", chance.choice(kinds) + chance.choice((b"", b"; boundary=", b";;=")))]


def strange_header(request: Request, chance: Random) -> None:
    """A header has a value that nobody expects."""
    name = chance.choice(
        (b"idempotency-key", b"content-type", b"authorization", b"origin", b"host", b"x-any")
    )
    request.headers.append((name, chance.choice(EDGES)))


def strange_query(request: Request, chance: Random) -> None:
    """So has the query."""
    name = chance.choice((b"top", b"count", b"heat", b"any", b""))
    request.query = name + b"=" + chance.choice(EDGES)


def strange_path(request: Request, chance: Random) -> None:
    """It asks for something that there is not."""
    request.path += chance.choice((b"/", b"//", b"/..", b"/%2e%2e/", b"\xff", b"\0", b"x"))


def too_much(request: Request, chance: Random) -> None:
    """It goes beyond a limit."""
    many = [picture(i % 4) for i in range(chance.choice((7, 8, 9, 30)))]
    large = [bytes(chance.choice((59_999, 60_000, 60_001, 150_000, 500_000)))]
    request.path, request.body = b"/predict", form(chance.choice((many, large)), [])
    request.headers = [(b"content-type", b"multipart/form-data; boundary=" + BOUNDARY)]


CHANGES: tuple[Callable[[Request, Random], None], ...] = (
    *(damaged_body, damaged_body, wrong_kind, strange_header, strange_query, strange_path, too_much),
)


async def answered(app: FastAPI, request: Request, chance: Random) -> tuple[int, bytes] | None:
    """The status and the body of the answer; None if the client went away first."""
    chunks, sent = _chunks(request.body, chance), []
    leaves = chance.random() < 0.05

    async def receive() -> dict[str, Any]:
        if chunks:
            return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks) or leaves}
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": request.path.decode("latin-1"),
        "raw_path": request.path,
        "query_string": request.query,
        "root_path": "",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "headers": [*request.headers, (b"host", b"127.0.0.1")],
    }
    await app(scope, receive, send)
    if not sent:
        require(leaves, "a request has no answer")
        return None
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def _chunks(body: bytes, chance: Random) -> list[bytes]:
    """A body in parts of any size, some of them empty."""
    size = chance.choice((1 + len(body) // 7, 65_536, 1_000_000))
    parts = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
    return [*parts, b""] if chance.random() < 0.3 else parts


def require_answer(status: int, body: bytes) -> None:
    """An answer of the API, or a refusal with a code and a sentence."""
    found = json.loads(body)
    if status == 200:
        require("error" not in found, "an answer is a refusal as well", found)
        return
    require(status in REFUSED, "a request makes the server fail", f"{status} {found}")
    require(set(found) == {"error"} and set(found["error"]) == {"code", "message"}, "no refusal", found)
    require_sentence(LayupError(found["error"]["message"]))
    require(
        "/" + "root" not in str(found) and "Traceback" not in str(found), "a refusal tells too much", found
    )


def attempt(_index: int, chance: Random, home: Path) -> None:
    """One malformed request; afterwards a good one is answered as before."""
    app, service = server(os.getpid())
    request = sound(chance)
    for change in chance.sample(CHANGES, chance.choice((0, 1, 1, 2))):
        change(request, chance)
    with about(request.about):
        with kept_inside(home):
            answer = asyncio.run(answered(app, request, chance))
        if answer is not None:
            require_answer(*answer)
        require(not list(home.iterdir()), "a request leaves files", list(home.iterdir()))
        require(service.room.taken == 0, "a request keeps its share of the memory", service.room.taken)
        good = Request(b"/predict", [(b"content-type", b"image/png")], picture(0))
        found = asyncio.run(answered(app, good, Random(1)))
        require(found is not None and found[0] == 200, "a good request fails afterwards", found)
        forget_new(service)


def forget_new(service: Service) -> None:
    """Undo what a good part of a malformed request has taught, and what it has forgotten."""
    if service.live.facts().counts != {"cat": 1, "dog": 1}:
        for label in service.live.facts().counts:
            service.live.forget_class(label)
        service.live.teach([picture(0), picture(1)], ["cat", "dog"])


def prepare(_folder: Path) -> Tries:
    """Nothing: each process has a server of its own."""
    return Tries(attempt)


PROMISE = Promise(
    "uploads",
    "A malformed request gets an answer or a sentence; it writes nothing, and the next one is answered.",
    10_000,
    prepare,
    seconds=30,
    megabytes=1500,
)
