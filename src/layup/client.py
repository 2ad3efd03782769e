"""A client of `layup serve`, for programs: needs nothing but Python, neither PyTorch nor NumPy.

>>> client = Client("http://127.0.0.1:8000")
>>> client.teach(["tabby-1.jpg", "tabby-2.jpg"], "tabby")  # doctest: +SKIP
>>> client.predict(["holiday.jpg"])[0]["label"]  # doctest: +SKIP
'tabby'
"""

from __future__ import annotations

import http.client
import io
import json
import os
import secrets
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable
from urllib.parse import urlencode, urlsplit

from layup.errors import InputError, ServerError


@runtime_checkable
class Picture(Protocol):
    """A PIL image, recognised without importing Pillow."""

    def save(self, fp: Any, format: str) -> None:
        """Write the image as a file."""


Photo: TypeAlias = str | os.PathLike[str] | bytes | Picture
"""A path, the contents of an image file, or a PIL image."""

TRIES = 5
"""How often a request is sent, if the server is busy or cannot be reached."""
PAUSE = 0.2
"""Seconds before the second try; each next pause is twice as long."""
LONGEST_PAUSE = 10.0
BATCH = 32
"""Photos in one request."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A token must not follow a redirect to another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none."""


@dataclass(frozen=True)
class Client:
    """A live model on a server that `layup serve` has started.

    url: its address. token: if it asks for one. timeout: seconds to wait for an answer.

    Requests that failed on the way, or that the server was too busy for, are sent again, up to five times.
    Each change has a key, so that it counts once however often it arrives. What the server refuses is a
    `ServerError` with its sentence. More than 32 photos are sent in several requests, one after another.

    >>> Client("127.0.0.1:8000")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    layup.errors.InputError: '127.0.0.1:8000' is not the address of a server. ...
    """

    url: str
    token: str | None = None
    timeout: float = 60.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(
                f"{self.url!r} is not the address of a server. Give one like http://127.0.0.1:8000."
            )

    # ---- asking

    def predict(self, images: Photo | Sequence[Photo], *, top: int = 5) -> list[dict[str, Any]]:
        """What is in each photo: its label, how sure that is, and the `top` classes; 0: all of them.

        A photo that cannot be read has an `error` instead, and the others are predicted.
        """
        answers = self._batches("POST", f"/predict?{urlencode({'top': top})}", _listed(images))
        return [each for answer in answers for each in answer["predictions"]]

    def explain(self, image: Photo, *, heat: bool = True) -> dict[str, Any]:
        """Why a photo gets its label: what each layer says, and with `heat` where in the photo."""
        return self._send("POST", f"/explain?heat={_word(heat)}", *_form([image], []))

    def suggest(self, images: Sequence[Photo], *, count: int = 20) -> dict[str, Any]:
        """Which of these photos are worth labelling next. All are sent in one request."""
        return self._send("POST", f"/suggest?{urlencode({'count': count})}", *_form(images, []))

    def classes(self) -> dict[str, Any]:
        """The classes with their counts, and the accuracy to expect."""
        return self._send("GET", "/classes")

    def audit(self) -> dict[str, Any]:
        """Each photo that the model knows, judged by all the others."""
        return self._send("GET", "/audit")

    def info(self) -> dict[str, Any]:
        """What the model is."""
        return self._send("GET", "/model/info")

    def log(self) -> list[dict[str, Any]]:
        """What was done to the model, the oldest first."""
        return list(self._send("GET", "/log")["entries"])

    def download(self, path: str | os.PathLike[str]) -> Path:
        """Save the whole model as a file, complete or not at all."""
        target = Path(path)
        partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
        try:
            with self._opened("GET", "/model", None, {}) as answer, partial.open("xb") as file:
                shutil.copyfileobj(answer, file)
                expected = int(answer.headers.get("Content-Length") or file.tell())
                if file.tell() != expected:
                    raise ServerError(f"The model was cut off after {file.tell():,} of {expected:,} bytes.")
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        return target

    # ---- changing

    def teach(
        self, images: Photo | Sequence[Photo], labels: str | Sequence[str], *, relabel: bool = False
    ) -> list[dict[str, Any]]:
        """Teach photos: one label for all, or one for each. What became of each photo.

        relabel: move photos that the model knows as another class.
        """
        photos = _listed(images)
        each = [labels] * len(photos) if isinstance(labels, str) else list(labels)
        if len(each) != len(photos):
            raise InputError(f"There are {len(photos)} photos, but {len(each)} labels. Give one for each.")
        found: list[dict[str, Any]] = []
        for start in range(0, len(photos), BATCH):
            fields = [("labels", label) for label in each[start : start + BATCH]]
            form = _form(photos[start : start + BATCH], [*fields, ("relabel", _word(relabel))])
            found += self._change("/teach", *form)["photos"]
        return found

    def forget(
        self, images: Photo | Sequence[Photo] = (), *, ids: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Forget photos, exactly: by their files, or by the ids that answers give. One answer per request."""
        photos = _listed(images)
        answers = [
            self._change("/forget", *_form(photos[start : start + BATCH], []))
            for start in range(0, len(photos), BATCH)
        ]
        return answers + ([self._change("/forget", *_json({"ids": list(ids)}))] if ids else [])

    def forget_class(self, label: str) -> dict[str, Any]:
        """Forget all photos of a class, and the class."""
        return self._change("/forget", *_json({"class": label}))

    def rename(self, old: str, new: str) -> dict[str, Any]:
        """Give a class another name; the name of another class makes the two one."""
        return self._change("/rename", *_json({"old": old, "new": new}))

    def undo(self) -> dict[str, Any]:
        """Take the last lesson back."""
        return self._change("/undo", *_json({}))

    # ---- requests

    def _batches(self, method: str, path: str, photos: Sequence[Photo]) -> Iterator[dict[str, Any]]:
        for start in range(0, len(photos), BATCH):
            yield self._send(method, path, *_form(photos[start : start + BATCH], []))

    def _change(self, path: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        return self._send("POST", path, body, {**headers, "Idempotency-Key": secrets.token_urlsafe(16)})

    def _send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        with self._opened(method, path, body, headers or {}) as answer:
            try:
                found = json.loads(answer.read())
            except (ValueError, http.client.HTTPException, OSError) as error:
                raise ServerError(f"What {self.url} answers cannot be read ({error}).") from error
        if not isinstance(found, dict):
            raise ServerError(f"What {self.url} answers is not what a server of layup answers.")
        return found

    def _opened(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        """The answer to a request, sent again while that can help."""
        for pause in (*(PAUSE * 2**number for number in range(TRIES - 1)), None):
            request = urllib.request.Request(
                f"{self.url.rstrip('/')}{path}", body, dict(headers), method=method
            )
            if self.token is not None:
                request.add_unredirected_header("Authorization", f"Bearer {self.token}")
            try:
                return self._opener().open(request, timeout=self.timeout)
            except urllib.error.HTTPError as error:
                with error:
                    refused = _refusal(error)
                    after = error.headers.get("Retry-After")
                if pause is None or error.code not in (429, 503):
                    raise refused from None
                time.sleep(_pause(pause, after))
            except (OSError, http.client.HTTPException) as error:
                if pause is None:
                    reason = getattr(error, "reason", None) or error
                    raise ServerError(
                        f"Cannot reach {self.url} ({reason}). Is the server running there?"
                    ) from error
                time.sleep(pause)
        raise AssertionError

    def _opener(self) -> urllib.request.OpenerDirector:
        """Without a proxy for this machine itself."""
        local = urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")
        proxies = [urllib.request.ProxyHandler({})] if local else []
        return urllib.request.build_opener(_NoRedirects, *proxies)


def _pause(planned: float, asked: str | None) -> float:
    """Seconds to wait before the next try: what was planned, or what the server asks for if that is more.

    >>> _pause(0.2, "2"), _pause(0.2, None), _pause(0.2, "9999")
    (2.0, 0.2, 10.0)
    """
    return min(max(planned, float(asked) if asked and asked.isdecimal() else 0.0), LONGEST_PAUSE)


def _refusal(error: urllib.error.HTTPError) -> ServerError:
    """What a server says of what it refuses."""
    try:
        said = json.loads(error.read())["error"]
        return ServerError(str(said["message"]), code=str(said["code"]), status=error.code)
    except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
        return ServerError(f"The server answers with status {error.code}, and no reason.", status=error.code)


def _listed(images: Photo | Iterable[Photo]) -> list[Photo]:
    """One photo, or several."""
    if isinstance(images, str | os.PathLike | bytes | Picture):
        return [images]
    return list(images)


def _word(value: bool) -> str:
    return "true" if value else "false"


def _json(value: object) -> tuple[bytes, dict[str, str]]:
    """A body of JSON, and its header."""
    return json.dumps(value).encode(), {"Content-Type": "application/json"}


def _form(images: Sequence[Photo], fields: Sequence[tuple[str, str]]) -> tuple[bytes, dict[str, str]]:
    """Photos and fields as a form, and its header."""
    boundary = secrets.token_hex(16)
    body = io.BytesIO()

    def part(name: str, filename: str | None, data: bytes) -> None:
        named = "" if filename is None else f'; filename="{_escaped(filename)}"'
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'
        body.write(head.encode("utf-8", "replace") + data + b"\r\n")

    for name, value in fields:
        part(name, None, value.encode())
    for number, image in enumerate(images, start=1):
        part("images", *_file(image, number))
    body.write(f"--{boundary}--\r\n".encode())
    return body.getvalue(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def _escaped(filename: str) -> str:
    """A name as browsers write it into a form.

    >>> _escaped('a "b".png')
    'a %22b%22.png'
    """
    return filename.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _file(image: Photo, number: int) -> tuple[str, bytes]:
    """A photo as a file: its name and its contents."""
    if isinstance(image, bytes):
        return f"image {number}", image
    if isinstance(image, str | os.PathLike):
        try:
            return Path(image).name, Path(image).read_bytes()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"Cannot read {os.fspath(image)!r} ({reason}). Give the path of a photo."
            ) from error
    if isinstance(image, Picture):
        file = io.BytesIO()
        image.save(file, "PNG")
        return f"image {number}.png", file.getvalue()
    raise InputError(
        f"Cannot send a photo that is a {type(image).__name__}. Give a path, bytes, or a PIL image."
    )
