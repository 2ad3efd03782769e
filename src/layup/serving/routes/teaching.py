"""What changes the model: teach, forget, rename, undo."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from unicodedata import normalize

from fastapi import APIRouter, Depends, Request

from layup.formats import plural
from layup.model import Outcome
from layup.serving import answers
from layup.serving.live import LiveModel
from layup.serving.refusals import RequestError
from layup.serving.routes.asking import received
from layup.serving.routes.bodies import LONGEST, SINGLE, TEXT, body, form, json_body, linked, refusals
from layup.serving.routes.photos import Photos
from layup.serving.service import Key, TheRoom, TheService, changes
from layup.serving.uploads import Upload, media_type, receive_json, receive_upload

router = APIRouter(dependencies=[Depends(changes)], tags=["Teach"])

FIELDS = {
    "label": {**TEXT, "description": "The class of all photos."},
    "labels": {"type": "array", "items": TEXT, "description": "Or a class for each of the photos."},
    "relabel": {"type": "boolean", "description": "Move photos that were taught as another class."},
}
EXACT = "The sums are now as if the model had never seen them."
INEXACT = (
    "Their class and their count are gone, but the matrix of all photos still holds them, as photos of no "
    "class, since their features are not kept here. Photos that are forgotten by their files leave nothing."
)
"""What forgetting has undone."""
LEFT = {
    "conflict": "Known as another class, and left there",
    "unknown": "Never learned",
    "bad": "Cannot be used",
}
"""Why nothing was done with a photo."""


@router.post(
    "/teach",
    summary="Teach photos",
    responses={**refusals(), **linked(forget={"ids": ["$response.body#/photos/0/id"]})},
    openapi_extra=body(form(FIELDS)),
)
async def teach(request: Request, service: TheService, take: TheRoom, key: Key = None) -> answers.Lesson:
    """Teach photos. What can be read is learned, and what cannot fails alone.

    The answer comes when the lesson is safe: nothing that happens to the server afterwards loses it.
    """
    upload = await receive_upload(request, service.limits, take, FIELDS)
    labels, relabel = labels_of(upload), upload.truth("relabel")
    photos = Photos.of(upload, service.limits)
    service.metrics.photos.add(len(photos.names), path="/teach")
    own = _own("teach", key, *photos.contents, *map(str.encode, labels), b"%d" % relabel)
    return await service.teaching.run(taught, service.live, photos, labels, relabel, own)


def labels_of(upload: Upload) -> list[str]:
    """A label for each photo of a form: one for all of them, or one for each."""
    each, one = upload.fields.get("labels", []), upload.one("label")
    if (one is None) == (not each):
        raise RequestError(
            422, "invalid", "Give one field 'label' for all photos, or a field 'labels' for each of them."
        )
    longest = max(map(len, each if one is None else [one]))
    if longest > LONGEST:
        raise RequestError(
            422,
            "invalid",
            f"A label of {longest:,} letters is too long: at most {LONGEST:,} are allowed.",
        )
    if one is not None:
        return [one] * len(upload.photos)
    if len(each) != len(upload.photos):
        raise RequestError(
            422,
            "invalid",
            f"The request has {plural(len(upload.photos), 'photo')}, but {plural(len(each), 'label')}. "
            "Give one 'labels' for each photo, in the same order.",
        )
    return each


def taught(
    live: LiveModel, photos: Photos, labels: list[str], relabel: bool, key: str | None
) -> answers.Lesson:
    """Teach photos to the live model."""
    done = live.teach(photos.contents, [labels[i] for i in photos.indices], relabel=relabel, key=key)
    return lesson(done, photos, labels)


@router.post(
    "/forget",
    summary="Forget photos, or a class",
    responses=refusals(404, 409),
    openapi_extra=body({**form(), **SINGLE, **json_body(answers.Forgetting)}),
)
async def forget(request: Request, service: TheService, take: TheRoom, key: Key = None) -> answers.Lesson:
    """Forget photos that are sent, or photos by their ids, or a class: exactly, where that is possible.

    The sums are then what they would be if these photos had never been taught.
    """
    if media_type(request) != "application/json":
        photos = await received(request, service, take)
        own = _own("forget", key, *photos.contents)

        def forgotten() -> answers.Lesson:
            return lesson(service.live.forget(photos.contents, key=own), photos)

        return await service.teaching.run(forgotten)
    what = await receive_json(request, service.limits, take, answers.Forgetting)
    if (what.ids is None) == (what.label is None):
        raise RequestError(422, "invalid", "Give either 'ids' of photos, or a 'class' to forget.")
    own = _own("forget", key, what.model_dump_json().encode())
    if what.ids is not None:
        return lesson(await service.teaching.run(service.live.forget_ids, what.ids, key=own))
    return lesson(await service.teaching.run(service.live.forget_class, what.label or "", key=own))


@router.post(
    "/rename",
    summary="Rename a class",
    responses=refusals(404),
    openapi_extra=body(json_body(answers.Renaming)),
)
async def rename(request: Request, service: TheService, take: TheRoom, key: Key = None) -> answers.Lesson:
    """Give a class another name. The name of another class makes the two one."""
    names = await receive_json(request, service.limits, take, answers.Renaming)
    own = _own("rename", key, names.model_dump_json().encode())
    done = lesson(await service.teaching.run(service.live.rename, names.old, names.new, key=own))
    now = plural(done.counts[normalize("NFC", names.new)], "photo")
    said = f"Renamed {names.old!r} to {names.new!r}, which has {now} now."
    return done.model_copy(update={"message": said})


@router.post("/undo", summary="Take the last lesson back", responses=refusals())
async def undo(service: TheService, key: Key = None) -> answers.Lesson:
    """Take the last lesson back, as if it had never been. What forgot, moved or renamed cannot be undone."""
    return lesson(await service.teaching.run(service.live.undo, key=_own("undo", key)))


def _own(verb: str, key: str | None, *parts: bytes) -> str | None:
    """A key for this request alone: another one that happens to have the same key is not answered with it."""
    if key is None:
        return None
    digest = blake2b(digest_size=16)
    for part in (verb.encode(), key.encode(), *parts):
        digest.update(blake2b(part, digest_size=16).digest())  # so that parts cannot run into each other
    return digest.hexdigest()


def lesson(done: Outcome, photos: Photos | None = None, labels: list[str] | None = None) -> answers.Lesson:
    """What a lesson did, with the names that the client gave."""
    told = {}
    for turn, each in enumerate(done.photos):
        index = turn if photos is None else photos.indices[turn]
        told[index] = answers.Taught(
            name=each.id or "" if photos is None else photos.names[index],
            id=each.id,
            label=each.label,
            status=each.status,
            learned_as=list(each.learned_as),
            error=None if each.error is None or photos is None else photos.problem(turn, each.error),
        )
    for index, problem in ({} if photos is None else photos.left_out).items():
        told[index] = answers.Taught(
            name=photos.names[index] if photos else "",
            label=labels[index] if labels else None,
            status="bad",
            error=problem,
        )
    return answers.Lesson(
        version=done.version,
        learned=dict(done.learned),
        forgotten=dict(done.forgotten),
        moved=done.moved,
        known=done.known,
        exact=done.exact,
        photos=[told[index] for index in sorted(told)],
        counts=dict(done.counts),
        message=summary(done),
    )


def summary(done: Outcome) -> str:
    """What a lesson did, in a sentence or two.

    >>> summary(Outcome(3, {"cat": 2}, learned={"cat": 2}, known=1))
    'Learned 2 photos. Known already: 1 photo.'
    >>> summary(Outcome(4, {}, forgotten={"cat": 2}, exact=False)).partition(". ")[0]
    'Forgot 2 photos'
    """
    said = []
    if new := sum(done.learned.values()) - done.moved:
        said.append(f"Learned {plural(new, 'photo')}.")
    if done.moved:
        said.append(f"Moved {plural(done.moved, 'photo')} to another class.")
    if done.known:
        said.append(f"Known already: {plural(done.known, 'photo')}.")
    statuses = Counter[str](each.status for each in done.photos)
    said += [f"{words}: {plural(statuses[name], 'photo')}." for name, words in LEFT.items() if statuses[name]]
    if gone := sum(done.forgotten.values()) - done.moved:
        exactly = EXACT if done.exact else INEXACT
        said.append(f"Forgot {plural(gone, 'photo')}. {exactly}")
    return " ".join(said) or "Nothing was learned or forgotten."
