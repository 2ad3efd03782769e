"""What Label Studio asks of a machine-learning backend, below a path of its own: two names are ours too."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel

from layup.errors import LayupError
from layup.serving.label_studio import Event, Labelling, Setup, Teacher, Wanted, messages, predict, version_of
from layup.serving.refusals import RequestError
from layup.serving.routes.bodies import body, json_body, refusals
from layup.serving.routes.health import COUNTERS, metrics
from layup.serving.service import TheRoom, TheService, changes, reads
from layup.serving.uploads import Take, receive_json

MOST = 32_000_000
"""Bytes of a request: Label Studio tells of up to 5,000 annotations at a time, of three kilobytes each."""

Value = TypeVar("Value", bound=BaseModel)
logger = logging.getLogger(__name__)


def teacher_of(service: TheService) -> Teacher:
    """Who follows Label Studio, if somebody does."""
    if service.teacher is None:
        raise RequestError(
            404,
            "no-label-studio",
            "This server does not work with Label Studio. Start it with the address of your Label Studio.",
        )
    return service.teacher


TheTeacher = Annotated[Teacher, Depends(teacher_of)]
router = APIRouter(
    prefix="/label-studio",
    tags=["Label Studio"],
    dependencies=[Depends(reads)],
    responses=refusals(404),
)


async def received(request: Request, service: TheService, take: Take, kind: type[Value]) -> Value:
    """A message of Label Studio."""
    return await receive_json(request, service.limits, take, kind, MOST)


@contextlib.contextmanager
def logged() -> Iterator[None]:
    """Label Studio shows nobody why it is refused, so the log says it."""
    try:
        yield
    except LayupError as error:
        logger.warning("Refused what Label Studio sent: %s", error)
        raise


@router.get("/health", summary="Is it there?")
async def health(teacher: TheTeacher) -> messages.Health:
    """Whether the server answers."""
    return messages.Health()


@router.get("/metrics", summary="What it counts", response_class=Response, responses=COUNTERS)
async def counted(service: TheService, teacher: TheTeacher) -> PlainTextResponse:
    """The same counters as at `/metrics`."""
    return await metrics(service)


@router.post("/setup", summary="Does it fit the project?", openapi_extra=body(json_body(Setup)))
async def setup(
    request: Request, service: TheService, teacher: TheTeacher, take: TheRoom
) -> messages.Version:
    """The version of the model, if a project's labelling configuration gives each photo one class."""
    with logged():
        said = await received(request, service, take, Setup)
        Labelling.parse(said.config)
        return messages.Version(model_version=version_of(await service.asking.run(teacher.live.facts)))


@router.post("/predict", summary="What is in tasks", openapi_extra=body(json_body(Wanted)))
async def predicted(
    request: Request, service: TheService, teacher: TheTeacher, take: TheRoom
) -> messages.Predicted:
    """A prediction for each task, with a score from 0 to 1 by which Label Studio orders them."""
    with logged():
        wanted = await received(request, service, take, Wanted)
        return await service.asking.run(predict, teacher.live, teacher.studio, wanted)


@router.post(
    "/webhook",
    summary="Something was annotated",
    dependencies=[Depends(changes)],
    openapi_extra=body(json_body(Event)),
)
async def webhook(
    request: Request, service: TheService, teacher: TheTeacher, take: TheRoom
) -> messages.Followed:
    """Learn what was annotated, move what was annotated otherwise, and forget what no longer is."""
    with logged():
        event = await received(request, service, take, Event)
        return await service.teaching.run(teacher.hear, event)
