"""Whether the server is well, and what it counts: for those who run it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from layup.serving import answers
from layup.serving.metrics import CONTENT_TYPE
from layup.serving.routes.bodies import refusals
from layup.serving.service import TheService, reads
from layup.serving.snapshot import Facts

router = APIRouter(tags=["Health"])

COUNTERS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Counters."}
}
"""An answer that is text, where refusals are JSON."""


@router.get("/v2/health/live", summary="Is it there?")
async def live() -> answers.Live:
    """Whether the process answers. Needs no token."""
    return answers.Live(live=True)


@router.get(
    "/v2/health/ready",
    summary="Does it work?",
    responses={503: {"model": answers.Ready, "description": "The model does not work any more."}},
    response_model=answers.Ready,
)
async def ready(service: TheService) -> JSONResponse:
    """Whether the model works. Needs no token."""
    failed = (await service.watching.run(service.live.facts)).failed
    said = answers.Ready(ready=failed is None)
    return JSONResponse(said.model_dump(), 200 if said.ready else 503)


@router.get(
    "/metrics",
    summary="What it counts",
    dependencies=[Depends(reads)],
    response_class=Response,
    responses={**COUNTERS, **refusals()},
)
async def metrics(service: TheService) -> PlainTextResponse:
    """Counters, as text that Prometheus reads."""
    facts = await service.watching.run(service.live.facts)
    return PlainTextResponse(service.metrics.text(_now(service, facts)), media_type=CONTENT_TYPE)


def _now(service: TheService, facts: Facts) -> dict[str, tuple[str, float]]:
    """What is so at this moment."""
    return {
        "layup_model_version": ("Version of the model: grows with every lesson.", facts.version),
        "layup_classes": ("Classes that the model knows.", len(facts.counts)),
        "layup_photos_learned": ("Photos in the sums.", sum(facts.counts.values())),
        "layup_queue_length": ("Photos and lessons that wait for their turn.", facts.waiting),
        "layup_requests_inside": (
            "Requests that are answered or wait.",
            service.asking.inside + service.teaching.inside,
        ),
        "layup_upload_bytes": ("Bytes of requests that are held.", service.room.taken),
        "layup_ready": ("Whether the model works.", facts.failed is None),
    }
