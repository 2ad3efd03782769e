"""Servers for tests: an application on a small live model, in this process, and on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from PIL import Image

from layup import ImageModel, LayUP
from layup.serving import (
    Hosts,
    LiveModel,
    RequestLimits,
    Service,
    Tokens,
    address_of,
    create_app,
    following,
    listening,
)
from layup.serving.server import server_of
from models import picture, small_network

URL = "http://127.0.0.1"


def photo(number: int) -> bytes:
    """The contents of an image file."""
    file = io.BytesIO()
    Image.fromarray(picture(number)).save(file, "PNG")
    return file.getvalue()


def new_model() -> ImageModel:
    """A small model that knows nothing; it gives probabilities."""
    return LayUP(small_network(), 2, progress=False)


def files(*contents: bytes) -> list[tuple[str, tuple[str, bytes]]]:
    """A form of photos, called 0.png, 1.png and so on."""
    return [("images", (f"{number}.png", data)) for number, data in enumerate(contents)]


@contextlib.contextmanager
def service(path: Path | None = None, **options: Any) -> Iterator[Service]:
    """A service on a small model: its `limits`, `tokens`, `hosts`, `demo`, `follow` and `new` may be given.

    label_studio: address and key of a Label Studio that it works with.
    """
    loading, follow = {"backbone": small_network()}, options.get("follow", False)
    address, key = options.get("label_studio", (None, None))
    with (
        LiveModel.open(path, new=options.get("new", new_model), loading=loading, follow=follow) as live,
        following(live, address, key, path) as teacher,
        Service.of(
            live,
            options.get("hosts", Hosts.of("127.0.0.1")),
            options.get("tokens", Tokens()),
            options.get("limits", RequestLimits(rate=1e6, burst=1_000_000)),
            options.get("demo"),
            teacher,
        ) as found,
    ):
        yield found


@contextlib.contextmanager
def client(path: Path | None = None, **options: Any) -> Iterator[TestClient]:
    """Asks an application in this process."""
    with service(path, **options) as found:
        yield TestClient(create_app(found), base_url=URL)


@contextlib.contextmanager
def running(app: Any, limits: RequestLimits | None = None) -> Iterator[str]:
    """The address at which an application is served, by a thread of this process."""
    ready = threading.Event()
    server = server_of(app, limits or RequestLimits(), ready.set)
    with listening("127.0.0.1", 0) as bound:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])))
        thread.start()
        try:
            assert ready.wait(30)
            yield address_of(bound, "127.0.0.1")
        finally:
            server.should_exit = True
            thread.join(30)
