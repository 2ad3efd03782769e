"""One of many clients of a live model: what it asks for at random, and what it was told of it."""

from __future__ import annotations

import http.client
import io
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any

from PIL import Image

from layup.images import image_digest
from torture import samples
from torture.promise import about, require

LABELS = [f"class {letter}" for letter in "abcde"]
PICTURES = 60
"""So few that clients often mean the same."""
BUSY = (429, 503)
PATIENCE = 60.0
"""Seconds for which a client that is told to come again does so."""
BOUNDARY = "a-boundary"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


@cache
def picture(number: int) -> bytes:
    """The file of one of the pictures."""
    file = io.BytesIO()
    Image.fromarray(samples.picture("caller", number)).save(file, "PNG")
    return file.getvalue()


@cache
def numbers() -> dict[str, int]:
    """Which picture has which id."""
    return {image_digest(picture(number))[:16].hex(): number for number in range(PICTURES)}


def form(images: Sequence[bytes], **fields: Sequence[str]) -> bytes:
    """Photos and fields as the body of a request."""
    parts = [(f'name="{name}"', value.encode()) for name, values in fields.items() for value in values]
    parts += [('name="images"; filename="a.png"', image) for image in images]
    begin = f"--{BOUNDARY}\r\nContent-Disposition: form-data; "
    body = b"".join(f"{begin}{named}\r\n\r\n".encode() + data + b"\r\n" for named, data in parts)
    return body + f"--{BOUNDARY}--\r\n".encode()


BAD: tuple[tuple[str, str, bytes], ...] = (
    ("/predict", FORM, form([b"not a picture"])),
    ("/predict", FORM, form([b""])),
    ("/predict", FORM, form([])),
    ("/predict", FORM, form([picture(0)])[:-30]),
    ("/predict", FORM, b"\0" * 100),
    ("/predict", "multipart/form-data", form([picture(0)])),
    ("/predict", "text/plain", b"a picture"),
    ("/predict?top=-1", FORM, form([picture(0)])),
    ("/predict", "image/png", picture(0)[:60]),
    ("/teach", FORM, form([picture(0)])),
    ("/teach", FORM, form([b"GIF89a"], label=["class a"])),
    ("/teach", FORM, form([picture(0)], label=[""])),
    ("/teach", FORM, form([picture(0)], label=["x" * 200_000])),
    ("/teach", FORM, form([picture(0)], labels=["class a", "class b"])),
    ("/teach", FORM, form([picture(0)], label=["class a"], other=["?"])),
    ("/forget", "application/json", b'{"ids": ["no id"]}'),
    ("/forget", "application/json", b"{" * 1000),
    ("/forget", "application/json", b'{"class": "nobody has this"}'),
    ("/rename", "application/json", b'{"old": 1}'),
    ("/nowhere", FORM, form([picture(0)])),
)
"""Requests that nothing can come of: path, type and body."""


@dataclass(frozen=True)
class Change:
    """Something that was asked for, and what was acknowledged: the version, and photos per class."""

    action: str
    images: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    relabel: bool = False
    version: int = 0
    counts: dict[str, int] = field(default_factory=dict)


@dataclass
class Caller:
    """A client with one connection, which asks at random until its time is over."""

    port: int
    chance: Random
    changes: list[Change] = field(default_factory=list)
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How many by action and status."""

    def __post_init__(self) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def run(self, quiet: float, until: float) -> None:
        """Ask, teach and disturb until it is to be quiet, and then only ask and disturb."""
        with closing(self.connection):
            while (now := time.monotonic()) < until:
                actions = ACTIONS if now < quiet else QUIET
                action = self.chance.choices(*zip(*actions, strict=True))[0]
                with about(action.__name__):
                    action(self)

    @property
    def asked(self) -> int:
        """How many requests it has sent."""
        return self.answers.total()

    # ---- what it does

    def predict(self) -> None:
        """Ask about photos; one of them may be none."""
        chosen = self._numbers(3)
        images = [picture(number) for number in chosen]
        if self.chance.random() < 0.1:
            images.append(b"none")
        status, said = self._asked("predict", "POST", "/predict", form(images), FORM)
        if status == 200:
            require(len(said["predictions"]) == len(images), "a photo has no prediction", said)
            bad = [each["error"] is not None for each in said["predictions"]]
            require(bad == [image == b"none" for image in images], "the wrong photo is bad", said)

    def look(self) -> None:
        """Read what there is to know."""
        self._asked(
            "look", "GET", self.chance.choice(["/classes", "/model/info", "/metrics", "/openapi.json"])
        )

    def disturb(self) -> None:
        """Send what nothing can come of."""
        path, kind, body = self.chance.choice(BAD)
        self._asked("disturb", "POST", path, body, kind)

    def teach(self) -> None:
        """Teach photos, some of which are known, maybe as something else."""
        chosen, relabel = self._numbers(3), self.chance.random() < 0.5
        labels = [self.chance.choice(LABELS) for _ in chosen]
        body = form([picture(number) for number in chosen], labels=labels, relabel=[str(relabel).lower()])
        self._change("teach", body, FORM, Change("learn", tuple(chosen), tuple(labels), relabel))

    def forget(self) -> None:
        """Forget photos by their files, or by their ids."""
        chosen = self._numbers(2)
        change = Change("forget", tuple(chosen))
        if self.chance.random() < 0.5:
            self._change("forget", form([picture(number) for number in chosen]), FORM, change)
            return
        ids = [name for name, number in numbers().items() if number in chosen]
        self._change("forget", json.dumps({"ids": ids}).encode(), "application/json", change)

    def forget_class(self) -> None:
        """Forget a class."""
        label = self.chance.choice(LABELS)
        body = json.dumps({"class": label}).encode()
        self._change("forget", body, "application/json", Change("forget class", labels=(label,)))

    def rename(self) -> None:
        """Rename a class, maybe to one that is there."""
        old, new = self.chance.sample(LABELS, 2)
        body = json.dumps({"old": old, "new": new}).encode()
        self._change("rename", body, "application/json", Change("rename", labels=(old, new)))

    def undo(self) -> None:
        """Take the last lesson back, whoever gave it."""
        self._change("undo", b"", "application/json", Change("undo"))

    # ---- how

    def _numbers(self, most: int) -> list[int]:
        return self.chance.sample(range(PICTURES), self.chance.randint(1, most))

    def _change(self, path: str, body: bytes, kind: str, change: Change) -> None:
        """Ask for a change until it is done or refused; sometimes again, which must change nothing."""
        key = f"{self.chance.getrandbits(64):x}"
        status, said = self._asked(change.action, "POST", f"/{path}", body, kind, key)
        if status != 200:
            return
        self.changes.append(replace(change, version=said["version"], counts=said["counts"]))
        require(said["exact"], "forgetting was not exact, though features are cached", said)
        if self.chance.random() < 0.1:
            again = self._asked("again", "POST", f"/{path}", body, kind, key)
            require(again == (200, said), "the same request again has another answer", (said, again))

    def _asked(
        self, action: str, method: str, path: str, body: bytes = b"", kind: str = "", key: str = ""
    ) -> tuple[int, Any]:
        """The answer to a request that is sent again while the server is busy: its status and JSON."""
        headers = {"Content-Type": kind} if kind else {}
        headers |= {"Idempotency-Key": key} if key else {}
        until = time.monotonic() + PATIENCE
        while True:
            self.connection.request(method, path, body or None, headers)
            answer = self.connection.getresponse()
            status, data = answer.status, answer.read()
            self.answers[action, status] += 1
            require(status < 500 or status in BUSY, f"{method} {path} was answered with {status}", data[:300])
            if status not in BUSY:
                kinds = answer.headers.get_content_type()
                return status, json.loads(data) if kinds == "application/json" else data
            require(time.monotonic() < until, "the server was busy all the time")
            time.sleep(min(float(answer.headers["Retry-After"]), 2.0))


ACTIONS = (
    (Caller.predict, 60),
    (Caller.disturb, 14),
    (Caller.look, 6),
    (Caller.teach, 10),
    (Caller.forget, 4),
    (Caller.undo, 3),
    (Caller.rename, 2),
    (Caller.forget_class, 1),
)
"""What a caller does, and how often, of a hundred."""
QUIET = ACTIONS[:3]
"""What changes nothing."""
