"""The model itself: its file, what it is, what was done to it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from layup import __version__
from layup.serving import answers
from layup.serving.live import LiveModel
from layup.serving.routes.asking import expectation
from layup.serving.routes.bodies import FILE, refusals
from layup.serving.service import TheService, changes, reads
from layup.serving.snapshot import Facts

router = APIRouter(tags=["Model"])

CHUNK = 1 << 20
ATTACHED = {"Content-Disposition": 'attachment; filename="model.layup"'}


@router.get(
    "/model",
    summary="Download the model",
    dependencies=[Depends(changes)],
    response_class=StreamingResponse,
    responses={
        200: {"content": {"application/octet-stream": {"schema": FILE}}, "description": "A .layup file."},
        **refusals(),
    },
)
async def download(service: TheService) -> StreamingResponse:
    """The whole model as one file, which `layup predict` and all other commands read."""
    file, size = await service.asking.run(saved, service.live)
    headers = {**ATTACHED, "Content-Length": str(size)}
    return StreamingResponse(chunks(file), headers=headers, media_type="application/octet-stream")


def saved(live: LiveModel) -> tuple[BinaryIO, int]:
    """The model as an open file that has no name any more: whatever happens, nothing is left of it."""
    with tempfile.TemporaryDirectory(prefix="layup-") as folder:
        path = Path(folder, "model.layup")
        live.save_to(path)
        return path.open("rb"), path.stat().st_size


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """A file in parts; closed at the end."""
    with file:
        while data := file.read(CHUNK):
            yield data


@router.get("/model/info", summary="What the model is", dependencies=[Depends(reads)], responses=refusals())
async def info(request: Request, service: TheService) -> answers.Info:
    """What the model is, and what it keeps of a photo."""
    full = service.tokens.allow_all(request.headers, request.scope["path"])
    return information(await service.asking.run(service.live.facts), full)


def information(facts: Facts, full: bool) -> answers.Info:
    """What the API says of a model to a request that may do everything, or only read."""
    return answers.Info(
        version=facts.version,
        read_only=facts.read_only,
        may_teach=full and not facts.read_only,
        saved=facts.saved,
        state_hash=facts.state_hash,
        classes=dict(facts.counts),
        expected=expectation(facts.expected),
        backbone=answers.Network(name=facts.backbone, fingerprint=facts.fingerprint),
        layup=__version__,
        keeps=kept(facts),
    )


def kept(facts: Facts) -> str:
    """What stays of a photo, in words."""
    said = ["Of a photo, the model keeps its share in sums"]
    said.append(
        " and nothing else." if facts.anonymous else ", and a digest by which it knows the photo again."
    )
    if facts.remembers:
        said.append(
            " This server also keeps its feature vector in the cache of the user who runs it: that is what "
            "makes undo, forgetting without the photo, the accuracy to expect and the audit possible."
        )
    elif facts.saved:
        said.append(
            " The feature vectors of the newest lessons are in the journal beside the model too, until the "
            "model is next written whole."
        )
    said.append(" The photo itself is never written, logged or kept.")
    if not facts.saved:
        said.append(" This model is in memory only, and ends with the server: download it to keep it.")
    return "".join(said)


@router.get("/log", summary="What was done to it", dependencies=[Depends(reads)], responses=refusals())
async def log(service: TheService) -> answers.Log:
    """What was done to the model, lesson by lesson, the newest last."""
    entries = await service.asking.run(service.live.log)
    return answers.Log(
        entries=[
            answers.Entry(
                date=entry.date,
                action=entry.action,
                learned=dict(entry.learned),
                forgotten=dict(entry.forgotten),
                note=entry.note,
            )
            for entry in entries
        ]
    )
