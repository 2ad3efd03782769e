"""How the bodies of requests are described: `layup.serving.uploads` reads them, not the framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from layup.serving.answers import Refusal

FILE = {"type": "string", "format": "binary"}
LONGEST = 1000
"""Letters of a label, at most."""
TEXT = {"type": "string", "minLength": 1, "maxLength": LONGEST}
IMAGES = {"type": "array", "items": FILE, "minItems": 1, "maxItems": 256, "description": "Image files."}
ONE = {"schema": FILE}


def form(fields: Mapping[str, Any] | None = None, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """A form of photos and these fields."""
    schema = {
        "type": "object",
        "properties": {"images": IMAGES, **(fields or {})},
        "required": ["images", *required],
        "additionalProperties": False,
    }
    return {"multipart/form-data": {"schema": schema}}


def body(content: Mapping[str, Any]) -> dict[str, Any]:
    """A description of a request whose body is one of these."""
    return {"requestBody": {"required": True, "content": dict(content)}}


def json_body(kind: type[BaseModel]) -> dict[str, Any]:
    """A body of JSON."""
    schema = kind.model_json_schema()
    return {"application/json": {"schema": _inlined(schema, schema.get("$defs", {}))}}


def _inlined(schema: Any, parts: Mapping[str, Any]) -> Any:
    """A schema with its parts in their places: where it goes, their names would lead nowhere."""
    if isinstance(schema, list):
        return [_inlined(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(parts[schema["$ref"].rpartition("/")[2]], parts)
    return {name: _inlined(value, parts) for name, value in schema.items() if name != "$defs"}


SINGLE = {"application/octet-stream": ONE, "image/*": ONE}
"""One photo as the whole body."""

EVERY = {400: "The request cannot be read.", 401: "The token is missing or wrong.", 403: "Not allowed."}
SENT = {
    408: "The request took too long to arrive.",
    413: "More than the server takes.",
    415: "The body has a type that cannot be read.",
    422: "A value that cannot be used.",
    429: "Too many requests; Retry-After says when to come again.",
    500: "Something went wrong that nobody foresaw.",
    503: "Busy; Retry-After says when to come again.",
}


def linked(**requests: Mapping[str, Any]) -> dict[int | str, dict[str, Any]]:
    """What an answer can be used for: by the name of another request, the body that this needs of it."""
    links = {
        name: {"operationId": name, "requestBody": dict(values), "description": f"Used by '{name}'."}
        for name, values in requests.items()
    }
    return {200: {"links": links}}


def refusals(*more: int) -> dict[int | str, dict[str, Any]]:
    """How requests to a path may be refused."""
    own = {404: "There is no such class.", 409: "The model, as it is, cannot do this."}
    said = {**EVERY, **{status: own[status] for status in more}, **SENT}
    return {status: {"model": Refusal, "description": text} for status, text in said.items()}
