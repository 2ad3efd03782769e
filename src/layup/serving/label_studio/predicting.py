"""What the model says of tasks, in the form in which Label Studio keeps predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from layup.errors import InputError
from layup.serving.label_studio.labelling import Labelling
from layup.serving.label_studio.messages import Task, Wanted
from layup.serving.label_studio.studio import Studio
from layup.serving.live import LiveModel
from layup.serving.snapshot import Facts

TOGETHER = 16
"""Photos that are held at a time."""


def version_of(facts: Facts) -> str:
    """What names the model as it is now: Label Studio asks again for predictions of another version.

    The hash tells models apart that have learned as often.
    """
    return " ".join(["layup", str(facts.version), *([facts.state_hash[:8]] if facts.state_hash else [])])


def predict(live: LiveModel, studio: Studio, wanted: Wanted) -> dict[str, Any]:
    """One prediction per task, in order; none for a task whose photo cannot be used, and a sentence why.

    The best class of those that the project offers, and how probable it is among all classes of the model: a
    photo of something else has a low score, and is asked for early.
    """
    labelling, facts = Labelling.parse(wanted.label_config), live.facts()
    results: list[list[dict[str, Any]]] = []
    problems: list[str] = []
    for start in range(0, len(wanted.tasks), TOGETHER):
        tasks = wanted.tasks[start : start + TOGETHER]
        said = _said(live, studio, labelling, tasks, problems) if facts.counts else {}
        results += [_prediction(labelling, said.get(task.id, {}), version_of(facts)) for task in tasks]
    return {"results": results, "model_version": version_of(facts), "problems": problems}


def _said(
    live: LiveModel, studio: Studio, labelling: Labelling, tasks: Sequence[Task], problems: list[str]
) -> dict[int, dict[str, float]]:
    """How probable the model finds each class, by task; tasks whose photo cannot be used are missing."""
    photos: dict[int, bytes] = {}
    for task in tasks:
        try:
            photos[task.id] = studio.photo(task.data.get(labelling.key))
        except InputError as error:
            problems.append(f"Task {task.id} has no prediction: {error}")
    if not photos:
        return {}
    found, numbers = live.predict([*photos.values()]).predictions, [*photos]
    problems += [f"Task {numbers[bad.index]} has no prediction: {bad.reason}" for bad in found.bad]
    rows = found.scores if found.probabilities is None else found.probabilities
    return {
        numbers[index]: dict(zip(found.classes, row.tolist(), strict=True))
        for index, row in zip(found.kept, rows, strict=True)
    }


def _prediction(
    labelling: Labelling, probabilities: Mapping[str, float], version: str
) -> list[dict[str, Any]]:
    best = labelling.best_of(probabilities)
    if best is None:
        return []
    label, score = best
    return [{"result": labelling.result(label), "score": score, "model_version": version}]
