"""A Label Studio on the network: its tasks, and the photos that they name.

It is the only address from which anything is fetched, and the key for it comes from whoever started the
server: what a request says of addresses and keys is not believed.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import SplitResult, quote, unquote, unquote_to_bytes, urlsplit

from layup.errors import InputError

SECONDS = 10.0
"""How long Label Studio may be silent."""
SECONDS_IN_ALL = 30.0
"""How long a photo, or a page of tasks, may take."""
MOST_BYTES = 50 * 2**20
"""Of a photo, or a page of tasks."""
PIECE = 2**16
PHOTOS = ("/data/upload/", "/data/local-files/")
"""Where Label Studio gives out photos."""
ELSEWHERE = (
    "The photo is not of the Label Studio that this server was given. It must be a data: address, or a path "
    f"below {' or '.join(PHOTOS)} there."
)
"""Why a photo is not fetched. Its name, which may tell who is on it, would go to the log with this."""
SECONDS_OF_ACCESS = 240.0
"""How long an access token is used; Label Studio lets it live for five minutes."""


class Studio:
    """One Label Studio. Without an address, only photos that are inside tasks are read.

    Args:
        address: such as http://localhost:8080.
        key: a legacy token, or a personal access token, of one of its users.

    >>> Studio().photo("data:image/gif;base64,R0lGODlhAQABAAAAACw=")[:6]
    b'GIF89a'
    >>> Studio("http://localhost:8080").photo("s3://a/1.jpg")
    Traceback (most recent call last):
    layup.errors.InputError: The photo is not of the Label Studio that this server was given. It must be a \
data: address, or a path below /data/upload/ or /data/local-files/ there.
    """

    def __init__(self, address: str = "", key: str | None = None) -> None:
        self.address = address.rstrip("/")
        self._parts = _checked(self.address)
        self._key = key
        self._access, self._access_until = "", 0.0
        self._opener = urllib.request.OpenerDirector()
        # No others: urllib's own choice also opens files, asks proxies, and follows redirects elsewhere.
        for handler in (
            urllib.request.HTTPHandler,
            urllib.request.HTTPSHandler,
            urllib.request.HTTPDefaultErrorHandler,
            urllib.request.HTTPErrorProcessor,
        ):
            self._opener.add_handler(handler())

    @property
    def can_list(self) -> bool:
        """Whether tasks can be asked for."""
        return bool(self.address and self._key)

    def photo(self, reference: object) -> bytes:
        """The contents of a photo, as a task's data names it; an `InputError` if it may not be fetched."""
        if not isinstance(reference, str):
            raise InputError(
                f"The task has {type(reference).__name__} in place of its photo. It must be an address."
            )
        if reference[:5].lower() == "data:":
            return _inside(reference)
        return self._fetch(self._path_of(reference), "a photo")

    def task(self, number: int) -> Mapping[str, Any]:
        """One task, with its data and annotations."""
        return self._mapping(f"/api/tasks/{number}")

    def tasks(self, project: int, page: int, size: int) -> tuple[list[Any], int]:
        """A page of a project's tasks with their annotations, and how many tasks it has in all."""
        found = self._mapping(f"/api/tasks?project={project}&page={page}&page_size={size}&fields=all")
        tasks, total = found.get("tasks"), found.get("total")
        if not isinstance(tasks, list) or not isinstance(total, int):
            raise self._strange("has no list of tasks")
        return tasks, total

    # ---- the rest is private

    def _path_of(self, reference: str) -> str:
        """The path of a photo at this Label Studio; anything else is refused."""
        try:
            parts = urlsplit(reference)
        except ValueError:
            raise InputError(ELSEWHERE) from None
        there = (parts.scheme, parts.netloc) in (("", ""), (self._parts.scheme, self._parts.netloc))
        path = parts.path.removeprefix(self._parts.path)
        plain = unquote(path)
        if not (self.address and there and plain.startswith(PHOTOS)) or ".." in plain.split("/"):
            raise InputError(ELSEWHERE)
        return f"{path}?{parts.query}" if parts.query else path

    def _mapping(self, path: str) -> Mapping[str, Any]:
        if not self.can_list:
            raise InputError(
                "The tasks of Label Studio cannot be read: this server has no address of a Label Studio, "
                "or no key for it. Start it with the address, and with the key in the environment variable "
                "LABEL_STUDIO_API_KEY."
            )
        return self._parsed(self._fetch(path, path))

    def _parsed(self, content: bytes) -> Mapping[str, Any]:
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            raise self._strange("is not JSON") from None
        if not isinstance(found, dict):
            raise self._strange("is not an object")
        return found

    def _strange(self, why: str) -> InputError:
        return InputError(f"The answer of {self.address} {why}. Is this the address of a Label Studio?")

    def _fetch(self, path: str, what: str) -> bytes:
        return self._open(path, what, self._authorization())

    def _authorization(self) -> dict[str, str]:
        """A legacy token as it is; a personal access token, which has three parts, is exchanged first."""
        if self._key is None:
            return {}
        if self._key.count(".") != 2:
            return {"Authorization": f"Token {self._key}"}
        if time.monotonic() > self._access_until:
            wish = json.dumps({"refresh": self._key}).encode()
            headers = {"Content-Type": "application/json"}
            answer = self._parsed(self._open("/api/token/refresh", "an access token", headers, wish))
            self._access, self._access_until = str(answer.get("access")), time.monotonic() + SECONDS_OF_ACCESS
        return {"Authorization": f"Bearer {self._access}"}

    def _open(self, path: str, what: str, headers: dict[str, str], body: bytes | None = None) -> bytes:
        url = self.address + quote(path, safe="/?&=%:+,;@!$'()*~[]", errors="replace")
        try:
            request = urllib.request.Request(url, body, headers)
            with self._opener.open(request, timeout=SECONDS) as answer:
                return _bounded(answer, what)
        except urllib.error.HTTPError as error:
            error.close()
            hint = " Give a key that it accepts in LABEL_STUDIO_API_KEY." if error.code in (401, 403) else ""
            raise InputError(
                f"Label Studio at {self.address} does not give {what}: it answers {error.code}.{hint}"
            ) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise InputError(
                f"Label Studio at {self.address} does not give {what}: {reason}. "
                "Is it running, and reachable from here?"
            ) from None


def _checked(address: str) -> SplitResult:
    """The parts of an address of a Label Studio, which has no secrets in it."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        usable = False
    if address and (not usable or parts.username is not None or parts.query or parts.fragment):
        raise InputError(
            f"{address!r} is not an address of a Label Studio. Give one such as http://localhost:8080.",
            about="label_studio",
        )
    return parts


def _inside(reference: str) -> bytes:
    """The contents of a data: address."""
    head, comma, data = reference.partition(",")
    if len(data) > 2 * MOST_BYTES:
        raise _too_large("a photo inside its task")
    try:
        contents = unquote_to_bytes(data)
        contents = base64.b64decode(contents, validate=True) if head.lower().endswith(";base64") else contents
    except (binascii.Error, ValueError):
        comma = ""
    if not comma:
        raise InputError("The photo inside the task cannot be decoded. Import it again.")
    return contents


def _bounded(answer: Any, what: str) -> bytes:
    """All that is sent, up to a size and a time: each single read has its own time limit only."""
    pieces, size, end = [], 0, time.monotonic() + SECONDS_IN_ALL
    while piece := answer.read(PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise _too_large(what)
        if time.monotonic() > end:
            raise TimeoutError(f"it was not sent within {SECONDS_IN_ALL:.0f} seconds")
    return b"".join(pieces)


def _too_large(what: str) -> InputError:
    return InputError(f"Label Studio sends more than {MOST_BYTES:,} bytes for {what}. Use smaller photos.")
