"""What every request needs: the live model, and what a server allows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Self

from fastapi import Depends, Header, Request

from layup.serving.demo import DemoPhotos
from layup.serving.guard import Hosts, Tokens
from layup.serving.label_studio import Teacher
from layup.serving.lanes import Lane
from layup.serving.limits import Rate, RequestLimits, Room
from layup.serving.live import LiveModel
from layup.serving.metrics import Metrics
from layup.serving.uploads import Take

WATCHING = 2
"""Threads for those who watch the server."""


@dataclass(frozen=True)
class Service:
    """One live model, and what its server allows: `with Service.of(…) as service:`.

    asking, teaching: where requests that only read, and those that change the model, are answered.
    watching: where those are that tell whether the server is well, also when all else waits.
    teacher: follows the annotations of a Label Studio, if there is one.
    """

    live: LiveModel
    hosts: Hosts
    tokens: Tokens
    limits: RequestLimits
    demo: DemoPhotos | None
    asking: Lane
    teaching: Lane
    watching: Lane
    room: Room
    rate: Rate
    teacher: Teacher | None = None
    metrics: Metrics = field(default_factory=Metrics)

    @classmethod
    def of(
        cls,
        live: LiveModel,
        hosts: Hosts,
        tokens: Tokens,
        limits: RequestLimits,
        demo: DemoPhotos | None,
        teacher: Teacher | None = None,
    ) -> Service:
        """All of it from what is wanted."""
        asking, teaching = (Lane(name, limits.threads, limits.waiting) for name in ("asking", "teaching"))
        watching = Lane("watching", WATCHING, limits.waiting)
        room, rate = Room(limits.held), Rate(limits.rate, limits.burst)
        return cls(live, hosts, tokens, limits, demo, asking, teaching, watching, room, rate, teacher)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Finish what was accepted."""
        for lane in (self.asking, self.teaching, self.watching):
            lane.close()


async def service_of(request: Request) -> Service:
    """The service that a request asks. Not a plain function: the framework would start a thread for it."""
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(service_of)]


async def reads(request: Request, service: TheService) -> None:
    """Refuse a request that may not read."""
    service.tokens.require_read(request.headers, request.scope["path"])


async def changes(request: Request, service: TheService) -> None:
    """Refuse a request that may not do everything."""
    service.tokens.require_full(request.headers, request.scope["path"])


async def _room(service: TheService) -> AsyncIterator[Take]:
    with service.room.share() as take:
        yield take


TheRoom = Annotated[Take, Depends(_room)]
"""What a request's body takes of the memory for uploads, until the request is answered."""

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        pattern="^[!-~]+$",
        description="Any text that is new for each change: the same request again, with the same key, gets "
        "the first answer and changes nothing.",
    ),
]
