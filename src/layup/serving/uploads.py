"""The body of a request: photos and fields, received into memory and nowhere else.

The framework's own reader of forms writes what is larger than a megabyte into a file. This one never does:
parts are held in memory, within limits, and given back when the request is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from layup.formats import brief, printable, size_of
from layup.serving.limits import RequestLimits
from layup.serving.refusals import RequestError, refused_values

IMAGES = "images"
"""The field of photos in a form."""
NAME = 200
"""Letters of a file's name that are kept."""
JSON = 1_000_000
"""Bytes of a JSON body."""

Take = Callable[[int], None]
Sink = Callable[[bytes], object]
Value = TypeVar("Value", bound=BaseModel)


@dataclass
class Photo:
    """The contents of an image file, and the name by which the client knows it."""

    name: str
    data: bytearray = field(default_factory=bytearray)
    too_large: bool = False
    """Whether it was larger than allowed: then nothing of it is kept."""


@dataclass
class Upload:
    """What a request brings."""

    photos: list[Photo] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)

    def one(self, name: str) -> str | None:
        """The value of a field that may be there once."""
        values = self.fields.get(name, [])
        if len(values) > 1:
            raise RequestError(
                422, "invalid", f"The field {name!r} is there {len(values)} times. Give it once."
            )
        return values[0] if values else None

    def truth(self, name: str) -> bool:
        """The value of a field that is true or false; false if it is missing."""
        value = self.one(name) or "false"
        if value not in ("true", "false"):
            raise RequestError(
                422, "invalid", f"The field {name!r} is {brief(value)!r}, but must be true or false."
            )
        return value == "true"


def media_type(request: Request) -> str:
    """What the body of a request says that it is, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def receive_upload(
    request: Request, limits: RequestLimits, take: Take, fields: Collection[str] = ()
) -> Upload:
    """The photos and fields of a request: a form, or one image as the whole body."""
    kind = media_type(request)
    if kind == "multipart/form-data":
        form = Form(_boundary(request), limits, fields)
        await _pour(request, limits, take, form.write)
        form.finish()
        upload = form.upload
    elif kind.startswith("image/") or kind == "application/octet-stream":
        photo = Photo("image")
        await _pour(request, limits, take, lambda data: _grow(photo, data, limits))
        upload = Upload([photo])
    else:
        raise RequestError(
            415,
            "unsupported-type",
            f"Cannot read a body of type {brief(kind)!r}. Send photos as multipart/form-data in the field "
            f"{IMAGES!r}, or one photo as the whole body, as image/jpeg or application/octet-stream.",
        )
    if not upload.photos:
        raise RequestError(
            422,
            "no-images",
            f"There is no photo in this request. Send at least one, in the field {IMAGES!r}.",
        )
    return upload


async def receive_json(
    request: Request, limits: RequestLimits, take: Take, kind: type[Value], most: int | None = None
) -> Value:
    """The JSON body of a request, of so many bytes at most, else as many as all may have; checked."""
    most = JSON if most is None else most
    if media_type(request) != "application/json":
        raise RequestError(
            415, "unsupported-type", "Cannot read this body. Send JSON, as Content-Type: application/json."
        )
    body = bytearray()

    def sink(data: bytes) -> None:
        if len(body) + len(data) > most:
            raise RequestError(413, "too-large", f"A JSON body may have {size_of(most)} at most.")
        body.extend(data)

    await _pour(request, limits, take, sink)
    try:
        return kind.model_validate_json(bytes(body))
    except ValidationError as error:
        raise refused_values([{**each, "loc": ("body", *each["loc"])} for each in error.errors()]) from error


async def _pour(request: Request, limits: RequestLimits, take: Take, sink: Sink) -> None:
    """Give each chunk of a body to `sink`.

    What is left of a refused body is received, within limits, and dropped: many clients do not listen
    before they have sent everything.
    """
    received = 0
    refused: RequestError | None = None
    try:
        async with asyncio.timeout(limits.upload):
            async for chunk in request.stream():
                received += len(chunk)
                if refused is None:
                    try:
                        _keep(chunk, received, limits, take, sink)
                    except RequestError as error:
                        refused = error
                if received > 2 * limits.body:
                    break
    except TimeoutError:
        raise RequestError(
            408,
            "too-slow",
            f"The request took more than {limits.upload:g} seconds to arrive. Send fewer photos at a time.",
            {"Connection": "close"},
        ) from None
    if refused is not None:
        raise refused


def _keep(chunk: bytes, received: int, limits: RequestLimits, take: Take, sink: Sink) -> None:
    if received > limits.body:
        raise RequestError(
            413,
            "too-large",
            f"A request may have {size_of(limits.body)} at most. Send fewer photos at a time.",
            {"Connection": "close"},
        )
    take(len(chunk))
    sink(chunk)


def _grow(photo: Photo, data: bytes, limits: RequestLimits) -> None:
    """Add to a photo; one that is too large is dropped, and fails alone."""
    if photo.too_large or len(photo.data) + len(data) > limits.image:
        photo.too_large = True
        photo.data.clear()
    else:
        photo.data.extend(data)


def _boundary(request: Request) -> bytes:
    _, options = parse_options_header(request.headers["content-type"])
    boundary = options.get(b"boundary", b"")
    if not 0 < len(boundary) <= 200:
        raise RequestError(400, "bad-form", "This form does not say which boundary separates its parts.")
    return boundary


class Form:
    """Reads a form, chunk by chunk: photos, and text fields of these names."""

    def __init__(self, boundary: bytes, limits: RequestLimits, fields: Collection[str]) -> None:
        self.upload = Upload()
        self.limits, self.allowed = limits, fields
        self.header: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self.disposition = b""
        self.part: Photo | bytearray | None = None
        self.name = ""
        self.ended = False
        self.parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begins,
                "on_header_begin": self._header_begins,
                "on_header_field": lambda data, start, end: self.header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self.header[1].extend(data[start:end]),
                "on_header_end": self._header_ends,
                "on_headers_finished": self._headers_end,
                "on_part_data": lambda data, start, end: self._grows(data[start:end]),
                "on_part_end": self._part_ends,
                "on_end": self._ends,
            },
        )

    def write(self, data: bytes) -> None:
        """Read on."""
        try:
            self.parser.write(data)
        except FormParserError as error:
            raise RequestError(400, "bad-form", "This form is damaged: its parts cannot be read.") from error

    def finish(self) -> None:
        """Refuse a form that has no end."""
        if not self.ended:
            raise RequestError(400, "bad-form", "This form is cut off: its end is missing.")

    def _ends(self) -> None:
        self.ended = True

    def _part_begins(self) -> None:
        self.disposition, self.part, self.name = b"", None, ""

    def _header_begins(self) -> None:
        self.header = (bytearray(), bytearray())

    def _header_ends(self) -> None:
        if self.header[0].lower() == b"content-disposition":
            self.disposition = bytes(self.header[1])

    def _headers_end(self) -> None:
        _, options = parse_options_header(self.disposition)
        self.name = options.get(b"name", b"").decode("utf-8", "replace")
        if self.name == IMAGES:
            self._require_room(len(self.upload.photos), self.limits.images, "photos")
            named = options.get(b"filename", b"").decode("utf-8", "replace")
            self.part = Photo(printable(named)[-NAME:] or f"image {len(self.upload.photos) + 1}")
            self.upload.photos.append(self.part)
        elif self.name in self.allowed:
            self._require_room(sum(map(len, self.upload.fields.values())), self.limits.images + 10, "fields")
            self.part = bytearray()
        else:
            allowed = ", ".join(repr(name) for name in (IMAGES, *self.allowed))
            raise RequestError(
                422, "invalid", f"There is no field {brief(self.name)!r} here. What may be sent is {allowed}."
            )

    def _require_room(self, have: int, most: int, what: str) -> None:
        if have >= most:
            raise RequestError(
                413, "too-many", f"A request may have {most} {what} at most. Send several requests."
            )

    def _grows(self, data: bytes) -> None:
        if isinstance(self.part, Photo):
            _grow(self.part, data, self.limits)
        elif self.part is not None:
            if len(self.part) + len(data) > self.limits.field:
                raise RequestError(
                    413, "too-large", f"A field may have {size_of(self.limits.field)} at most."
                )
            self.part.extend(data)

    def _part_ends(self) -> None:
        if isinstance(self.part, bytearray):
            try:
                self.upload.fields.setdefault(self.name, []).append(self.part.decode())
            except UnicodeDecodeError as error:
                raise RequestError(
                    422, "invalid", f"The field {self.name!r} is not text in UTF-8."
                ) from error
