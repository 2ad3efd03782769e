"""The application: paths, checks around them, and one form for all that is refused."""

from __future__ import annotations

import math
import re
import time
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layup import __version__
from layup.errors import LayupError
from layup.serving.guard import HEADERS
from layup.serving.refusals import RequestError, refusal
from layup.serving.routes import ROUTERS
from layup.serving.service import Service

ABOUT = """
One live model that people teach and ask at the same time. Photos are decoded in memory, and never written,
logged or kept. Whatever is refused is refused with one sentence and a code:
`{"error": {"code": "unknown-class", "message": "…"}}`.
"""


def create_app(service: Service) -> FastAPI:
    """The application that serves a live model."""
    app = FastAPI(
        title="layup",
        version=__version__,
        description=ABOUT,
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # a redirect would lose the body, and says nothing
        generate_unique_id_function=_called,
    )
    app.state.service = service
    for router in ROUTERS:
        app.include_router(router)
    for kind in (LayupError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _refused)
    app.add_middleware(Front, service=service)
    app.openapi = lambda: description(app, service)  # type: ignore[method-assign]
    return app


def _called(route: APIRoute) -> str:
    """How clients that are generated from the description call a request: "teach", "label_studio_setup"."""
    return re.sub(r"\W", "_", route.path.strip("/"))


def description(app: FastAPI, service: Service) -> dict[str, Any]:
    """The OpenAPI description, which says whether a token is needed."""
    found = FastAPI.openapi(app)
    if service.tokens.full is not None:
        schemes = found.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer"}
        for path, methods in found["paths"].items():
            if not path.startswith("/v2/health/"):
                for method in methods.values():
                    method["security"] = [{"token": []}]
    return found


async def _refused(_: Request, error: Exception) -> JSONResponse:
    return refusal(error)


class Front:
    """What every request passes first, and every answer last: checks of hosts and rate, headers, counters."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.monotonic(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self._admit(scope)
            await self.app(scope, receive, answer)
        except ClientDisconnect:
            status = 499  # as other servers count it; nobody is there to be answered
        except Exception as error:
            if status:  # the answer has begun, and can only be cut off
                raise
            await refusal(error)(scope, receive, answer)
        finally:
            self._count(scope, status, time.monotonic() - started)

    def _admit(self, scope: Scope) -> None:
        """Refuse what comes by another name, from another page, or too often."""
        headers = Headers(scope=scope)
        self.service.hosts.require(headers, scope["method"], scope["path"])
        client = scope.get("client")
        wait = self.service.rate.wait(client[0] if client else "")
        if wait:
            raise RequestError(
                429,
                "too-many-requests",
                f"More than {self.service.limits.rate:g} requests per second are refused. Ask less often.",
                {"Retry-After": str(math.ceil(wait))},
            )

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", "other")  # never as it was asked: there is no end of such paths
        self.service.metrics.requests.add(method=_method(scope), path=path, status=str(status))
        self.service.metrics.seconds.add(seconds, path=path)


def _method(scope: Scope) -> str:
    """The method of a request, of those that there are."""
    method = scope["method"]
    return method if method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS") else "other"
