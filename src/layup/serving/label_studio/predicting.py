"""What the model says of tasks, in the form in which Label Studio keeps predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layup.errors import InputError
from layup.serving.label_studio.labelling import Labelling
from layup.serving.label_studio.messages import Predicted, Prediction, Task, Wanted
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


@dataclass(frozen=True)
class Said:
    """What the model says of one photo: a score for each class, and, if it can tell, how probable each is."""

    scores: dict[str, float]
    probabilities: dict[str, float]


def predict(live: LiveModel, studio: Studio, wanted: Wanted) -> Predicted:
    """One prediction per task, in order; none for a task whose photo cannot be used, and a sentence why.

    The best class of those that the project offers, and how probable it is among all classes of the model: a
    photo of something else has a low score, and is asked for early.
    """
    labelling, facts = Labelling.parse(wanted.label_config), live.facts()
    version = version_of(facts)
    results: list[list[Prediction]] = []
    problems: list[str] = []
    for start in range(0, len(wanted.tasks), TOGETHER):
        tasks = wanted.tasks[start : start + TOGETHER]
        said = _said(live, studio, labelling, tasks, problems) if facts.counts else {}
        results += [_predictions(labelling, said.get(task.id), version) for task in tasks]
    return Predicted(results=results, model_version=version, problems=problems)


def _said(
    live: LiveModel, studio: Studio, labelling: Labelling, tasks: Sequence[Task], problems: list[str]
) -> dict[int, Said]:
    """What the model says, by task; tasks whose photo cannot be used are missing."""
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
    sure = found.probabilities
    return {
        numbers[index]: Said(
            dict(zip(found.classes, found.scores[row].tolist(), strict=True)),
            {} if sure is None else dict(zip(found.classes, sure[row].tolist(), strict=True)),
        )
        for row, index in enumerate(found.kept)
    }


def _predictions(labelling: Labelling, said: Said | None, version: str) -> list[Prediction]:
    best = None if said is None else labelling.best_of(said.scores)
    if said is None or best is None:
        return []
    score = said.probabilities.get(best)
    return [Prediction(result=labelling.result(best), score=score, model_version=version)]
