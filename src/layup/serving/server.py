"""The process that serves: one socket, one event loop, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from PIL import Image
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from layup.errors import InputError
from layup.formats import json_text
from layup.serving.limits import RequestLimits
from layup.serving.refusals import body_of

GRACE = 60
"""Seconds that requests have to finish after the server was asked to end."""
BACKLOG = 512
LOGS = {"layup.serving": logging.WARNING, "uvicorn.error": logging.ERROR, "python_multipart": logging.ERROR}


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at this address; port 0: any free one. Notices first what is in the way."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"There is no address {host!r} to listen at. Give a name or an address of this machine.",
            about="host",
        ) from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise _cannot_listen(error, host, port) from error
    return bound


def _cannot_listen(error: OSError, host: str, port: int) -> InputError:
    if error.errno == errno.EADDRINUSE:
        return InputError(
            f"Port {port} is in use, maybe by another server of layup. Choose another; 0 finds a free one.",
            about="port",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return InputError(f"Port {port} is reserved for the system. Choose one above 1023.", about="port")
    return InputError(
        f"Cannot listen at {host!r}: this is not an address of this machine ({error.strerror}).", about="host"
    )


def address_of(bound: socket.socket, host: str) -> str:
    """Where a browser finds the server.

    >>> with listening("127.0.0.1", 0) as bound:
    ...     address_of(bound, "127.0.0.1") == f"http://127.0.0.1:{bound.getsockname()[1]}"
    True
    """
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{bound.getsockname()[1]}"


def serve(app: ASGIApp, bound: socket.socket, limits: RequestLimits, ready: Callable[[], None]) -> None:
    """Call `ready`, and answer requests until Ctrl-C or SIGTERM; then finish what was accepted.

    For a process that does nothing else: it logs errors, and limits the pixels of images.
    """
    Image.MAX_IMAGE_PIXELS = limits.pixels
    _log_errors()
    asyncio.run(server_of(app, limits, ready).serve(sockets=[bound]))


def server_of(app: ASGIApp, limits: RequestLimits, ready: Callable[[], None]) -> Server:
    """A server that is not started yet."""
    config = uvicorn.Config(
        app,
        http=_connection(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE,
    )
    return Server(config, ready)


def _log_errors() -> None:
    """What somebody has to look at goes to standard error: nothing else that a server does."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    for name, level in LOGS.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(handler)


class Server(uvicorn.Server):
    """Says when it is ready, and ends on Ctrl-C as on SIGTERM: as something that was wished for."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        self.ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does it, but the signals are not raised again at the end."""
        if threading.current_thread() is not threading.main_thread():  # only that one may listen to them
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def _connection(limits: RequestLimits) -> type[H11Protocol]:
    """A connection that does not wait for ever until a request's header is complete."""

    class Connection(H11Protocol):
        due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            """What is not HTTP is refused with a sentence, as all else is."""
            said = "This is not a request that follows HTTP. Send one that does."
            body = json_text(body_of("bad-request", said)).encode()
            headers = [("Content-Type", "application/json"), ("Connection", "close")]
            answer: list[Any] = [
                h11.Response(
                    status_code=400,
                    headers=[*headers, ("Content-Length", str(len(body)))],
                    reason=b"Bad Request",
                ),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ]
            with contextlib.suppress(h11.LocalProtocolError):  # an answer may be under way
                for event in answer:
                    self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

        def _watch(self) -> None:
            """Wait for the rest of a header, no longer than is allowed."""
            if self.conn.their_state is not h11.IDLE:
                self._stop()
            elif self.due is None:
                self.due = self.loop.call_later(limits.header, self.transport.close)

        def _stop(self) -> None:
            if self.due is not None:
                self.due.cancel()
                self.due = None

    return Connection
