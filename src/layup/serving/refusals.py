"""What a server answers when it refuses: one sentence, a code that programs can read, and a fitting status.

No answer holds a traceback or a path of this machine. What nobody foresaw gets an id, under which the log of
the server has the rest.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from layup.errors import (
    BadImageError,
    BusyError,
    ForgetError,
    InputError,
    LayupError,
    MismatchError,
    NotEnoughMemoryError,
    ReadOnlyError,
    StorageError,
    UnknownNameError,
)
from layup.formats import brief

logger = logging.getLogger(__name__)

KINDS: tuple[tuple[type[LayupError], int, str], ...] = (
    (BusyError, 503, "busy"),
    (NotEnoughMemoryError, 503, "not-enough-memory"),
    (ReadOnlyError, 403, "read-only"),
    (ForgetError, 409, "not-learned"),
    (MismatchError, 409, "mismatch"),
    (UnknownNameError, 404, "unknown-class"),
    (BadImageError, 422, "bad-image"),
    (InputError, 422, "invalid"),
)
"""The library's errors, the special ones first; those that are not listed may name files of this machine."""

NAMED = {
    404: ("not-found", "There is nothing at this path. GET /openapi.json lists what there is."),
    405: (
        "method-not-allowed",
        "This path does not take this method. GET /openapi.json lists what it takes.",
    ),
}
"""What the framework refuses by itself."""


class RequestError(LayupError):
    """A request that is refused: with which status, and which code.

    >>> RequestError(413, "too-large", "This is too large.").status
    413
    """

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, dict(headers or {})


def refusal(error: Exception) -> JSONResponse:
    """The answer to a request that ended with this error."""
    if isinstance(error, RequestError):
        return _answer(error.status, error.code, str(error), error.headers)
    if isinstance(error, RequestValidationError):
        return refusal(refused_values(error.errors()))
    if isinstance(error, HTTPException):
        named = ("refused", f"This request cannot be answered: {HTTPStatus(error.status_code).phrase}.")
        return _answer(error.status_code, *NAMED.get(error.status_code, named), error.headers)
    for kind, status, code in KINDS:
        if isinstance(error, kind):
            after = {"Retry-After": str(math.ceil(getattr(error, "retry_after", 1)))} if status == 503 else {}
            return _answer(status, code, brief(str(error), 2000), after)
    return _logged(error)


def refused_values(errors: Sequence[Any]) -> RequestError:
    """Values of a request that do not fit its description, in a sentence about the first one."""
    return RequestError(422, "invalid", _said(errors))


def _logged(error: Exception) -> JSONResponse:
    """What may name files of this machine is only for the log."""
    name = secrets.token_hex(8)
    logger.error("Request %s failed.", name, exc_info=error)
    storage = isinstance(error, StorageError)
    said = "A file of the server cannot be read or written" if storage else "Something unforeseen went wrong"
    return _answer(
        500,
        "storage" if storage else "unforeseen",
        f"{said}; the log of the server says more, under {name}. What was acknowledged before is not lost.",
    )


def body_of(code: str, message: str) -> dict[str, dict[str, str]]:
    """The body of every refusal."""
    return {"error": {"code": code, "message": message}}


def _answer(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(body_of(code, message), status, headers=dict(headers or {}))


def _said(errors: Sequence[Any]) -> str:
    """What is wrong with the values of a request, in a sentence.

    >>> _said([{"loc": ("query", "top"), "msg": "Input should be less than 3"}])
    "Cannot use 'top' of the query: input should be less than 3."
    """
    first = errors[0]
    where, *names = (str(part) for part in first["loc"])
    name = f"{'.'.join(names)!r} of the {where}" if names else f"the {where}"
    said = first["msg"]
    return f"Cannot use {brief(name)}: {said[:1].lower()}{said[1:]}."
