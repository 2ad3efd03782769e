"""What only reads: predict, explain, suggest, audit, classes."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Query, Request

from layup.algebra import ENOUGH, Expected
from layup.errors import BadImageError
from layup.serving import answers
from layup.serving.live import LiveModel
from layup.serving.refusals import RequestError
from layup.serving.routes.bodies import SINGLE, body, form, linked, refusals
from layup.serving.routes.photos import Photos, of_a_taught_model
from layup.serving.service import Service, TheRoom, TheService, reads
from layup.serving.snapshot import Answer
from layup.serving.uploads import Take, receive_upload

router = APIRouter(dependencies=[Depends(reads)], tags=["Ask"])


async def received(request: Request, service: Service, take: Take) -> Photos:
    """The photos of a request that sends nothing else."""
    photos = Photos.of(await receive_upload(request, service.limits, take), service.limits)
    service.metrics.photos.add(len(photos.names), path=request.scope["path"])
    return photos


@router.post(
    "/predict", summary="What is in photos", responses=refusals(409), openapi_extra=body({**form(), **SINGLE})
)
async def predict(
    request: Request,
    service: TheService,
    take: TheRoom,
    top: Annotated[int, Query(ge=0, le=100_000, description="How many classes; 0: all.")] = 5,
) -> answers.Predictions:
    """Say what is in each photo, how sure that is, and whether it is none of the known classes."""
    photos = await received(request, service, take)
    return await service.asking.run(predictions, service.live, photos, top)


def predictions(live: LiveModel, photos: Photos, top: int) -> answers.Predictions:
    """What the model says of photos; those that cannot be used have a reason instead."""
    with of_a_taught_model(live):
        answer = live.predict(photos.contents)
    found = {
        index: answers.Prediction(name=photos.names[index], error=problem)
        for index, problem in photos.left_out.items()
    }
    for bad in answer.predictions.bad:
        index = photos.indices[bad.index]
        found[index] = answers.Prediction(
            name=photos.names[index], error=photos.problem(bad.index, bad.reason)
        )
    for turn, prediction in _each(answer, top):
        index = photos.indices[turn]
        found[index] = answers.Prediction(name=photos.names[index], **prediction)
    return answers.Predictions(version=answer.version, predictions=[found[index] for index in sorted(found)])


def _each(answer: Answer, top: int) -> list[tuple[int, dict[str, Any]]]:
    """Of every photo that could be used: its index, and what is said of it."""
    found = answer.predictions
    probable = found.probabilities
    said = []
    for row, (turn, one) in enumerate(zip(found.kept, found.each(), strict=True)):
        values = {
            "id": answer.ids[turn],
            "label": one.label,
            "confidence": one.confidence,
            "unknown": one.unknown,
            "none_of_these": one.none_of_these,
            "learned_as": list(answer.learned_as[turn]),
            "probabilities": {} if probable is None else _best(found.classes, probable[row], top),
        }
        said.append((turn, values))
    return said


def _best(classes: list[str], probable: Any, top: int) -> dict[str, float]:
    """The most probable classes, and how probable they are.

    >>> _best(["a", "b", "c"], np.array([0.2, 0.5, 0.3]), 2)
    {'b': 0.5, 'c': 0.3}
    """
    order = np.argsort(-probable, kind="stable")
    return {classes[i]: float(probable[i]) for i in (order[:top] if top else order).tolist()}


@router.post("/explain", summary="Why", responses=refusals(409), openapi_extra=body({**form(), **SINGLE}))
async def explain(
    request: Request,
    service: TheService,
    take: TheRoom,
    heat: Annotated[bool, Query(description="Also where in the photo, which takes 64 passes.")] = True,
) -> answers.Explanation:
    """Explain the label of one photo: what each layer says, and where in the photo."""
    photos = await received(request, service, take)
    if len(photos.names) != 1:
        raise RequestError(
            422, "invalid", f"There are {len(photos.names)} photos, but one is explained at a time. Send one."
        )

    def explained() -> answers.Explanation:
        try:
            with of_a_taught_model(service.live):
                found = service.live.explain(photos.contents[0], heat=heat)
        except BadImageError as error:
            problem = photos.problem(0, str(error))
            raise RequestError(422, problem.code, problem.message) from error
        return answers.Explanation.model_validate(found.to_dict())

    return await service.asking.run(explained)


@router.post(
    "/suggest",
    summary="What to label next",
    responses=refusals(409),
    openapi_extra=body({**form(), **SINGLE}),
)
async def suggest(
    request: Request,
    service: TheService,
    take: TheRoom,
    count: Annotated[int, Query(ge=1, le=1000, description="How many.")] = 20,
) -> answers.Suggestions:
    """Say which of these photos would teach the model most."""
    photos = await received(request, service, take)
    return await service.asking.run(suggestions, service.live, photos, count)


def suggestions(live: LiveModel, photos: Photos, count: int) -> answers.Suggestions:
    """Which photos are worth labelling."""
    with of_a_taught_model(live):
        found = live.suggest(photos.contents, count)
    bad = [
        answers.BadPhoto(name=photos.names[index], error=problem)
        for index, problem in photos.left_out.items()
    ]
    for each in found.bad:
        name = photos.names[photos.indices[each.index]]
        bad.append(answers.BadPhoto(name=name, error=photos.problem(each.index, each.reason)))
    chosen = [
        answers.Suggested(
            name=photos.names[photos.indices[each.index]],
            id=photos.id(each.index),
            guess=each.guess,
            margin=each.margin,
        )
        for each in found.photos
    ]
    return answers.Suggestions(photos=chosen, known=found.known, bad=bad)


FIRST = "$response.body#/classes/0/label"


@router.get(
    "/classes",
    summary="Which classes there are",
    responses={**refusals(), **linked(rename={"old": FIRST, "new": "tabby"}, forget={"class": FIRST})},
)
async def classes(service: TheService) -> answers.Classes:
    """List the classes, how many photos each has, and the accuracy to expect."""
    return await service.asking.run(known_classes, service.live)


def known_classes(live: LiveModel) -> answers.Classes:
    """The classes, with what is known of each."""
    facts = live.facts()
    few = {label for label, count in facts.counts.items() if count < ENOUGH}
    needing = {*facts.expected.needs_more} if facts.expected else few
    found = []
    for label, count in facts.counts.items():
        accuracy = None
        if facts.expected and label in facts.right:
            right, tested = facts.right[label]
            accuracy = answers.Accuracy(right=right, tested=tested)
        found.append(
            answers.ClassOf(label=label, count=count, accuracy=accuracy, needs_more=label in needing)
        )
    return answers.Classes(
        version=facts.version, classes=found, expected=expectation(facts.expected), judged=facts.judged
    )


def expectation(expected: Expected | None) -> answers.Expectation | None:
    """The accuracy to expect, without the classes that need more."""
    if expected is None:
        return None
    values = expected.to_dict()
    return answers.Expectation(**{name: values[name] for name in answers.Expectation.model_fields})


@router.get("/audit", summary="Judge what was taught", responses=refusals(409))
async def audit(service: TheService) -> answers.Audit:
    """Judge every known photo by all the others: on your photos, not on new ones."""
    return await service.asking.run(judged, service.live)


def judged(live: LiveModel) -> answers.Audit:
    """What the audit of the live model says."""
    version = live.facts().version
    with of_a_taught_model(live):
        found = live.audit()
    audit, ids = found.audit, found.ids
    return answers.Audit(
        version=version,
        expected=expectation(audit.expected),
        confusion=answers.Confusion(**audit.confusion.to_dict()),
        wrong=[
            answers.Wrong(id=ids[each.index], label=each.label, suggested=each.suggested, margin=each.margin)
            for each in audit.suspects
        ],
        duplicates=[
            answers.Duplicate(
                id=ids[each.index],
                twin=ids[each.twin],
                label=each.label,
                twin_label=each.twin_label,
                likeness=each.likeness,
            )
            for each in audit.duplicates
        ],
        judged=audit.judged,
        alone=audit.alone,
        not_judged=found.not_judged,
        needs_more=[] if audit.expected is None else list(audit.expected.needs_more),
    )
