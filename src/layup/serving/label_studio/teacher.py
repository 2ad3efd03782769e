"""Annotations become what the model knows, exactly: learned, moved to another class, or forgotten.

Label Studio tells of each change once and does not ask again. So what an annotation says is written down
before the model is changed, a busy model is waited for, and *Start Training* compares all annotations.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from layup.errors import BusyError, InputError, ReadOnlyError
from layup.images import image_digest, open_image
from layup.model import Outcome
from layup.serving.label_studio.labelling import Labelling
from layup.serving.label_studio.ledger import Ledger, Statement
from layup.serving.label_studio.messages import (
    AnnotatedTask,
    Annotation,
    Event,
    Followed,
    Project,
    Task,
)
from layup.serving.label_studio.studio import Studio
from layup.serving.live import LiveModel

TOGETHER = 16
"""Photos that are held, and learned, at a time."""
PAGE = 100
"""Tasks that are listed at a time."""
ATTEMPTS = 3
"""How often tasks are listed if some come or go, a busy model is asked, and a photo is not to be had."""
LONGEST_WAIT = 5.0
"""Seconds between two attempts to change a busy model."""

logger = logging.getLogger(__name__)


@dataclass
class Told:
    """What an event changed in the model, and what could not be followed, in sentences."""

    learned: Counter[str] = field(default_factory=Counter)
    forgotten: Counter[str] = field(default_factory=Counter)
    moved: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Also what one lesson did."""
        self.learned.update(outcome.learned)
        self.forgotten.update(outcome.forgotten)
        self.moved += outcome.moved
        self.problems += [
            f"A photo was not learned: {photo.error}" for photo in outcome.photos if photo.error
        ]

    def followed(self) -> Followed:
        """In the form of an answer."""
        return Followed(
            learned=dict(self.learned),
            forgotten=dict(self.forgotten),
            moved=self.moved,
            problems=self.problems,
        )


class Teacher:
    """Follows the annotations of one Label Studio with one model. Threads take turns."""

    def __init__(self, live: LiveModel, studio: Studio, ledger: Ledger) -> None:
        self.live = live
        self.studio = studio
        self.ledger = ledger
        self._turn = threading.Lock()

    def hear(self, event: Event) -> Told:
        """Follow an event. What is no news changes nothing; what is not about annotations is ignored."""
        handle, told = EVENTS.get(event.action), Told()
        if handle is None:
            return told
        if event.project is None:
            raise InputError(f"{event.action} came without its payload. Turn on 'Send payload' for webhooks.")
        self._require_able()
        handle(self, event, event.project, told)
        for problem in told.problems:
            logger.warning("%s", problem)
        return told

    # ---- events

    def _said(self, event: Event, project: Project, told: Told) -> None:
        self._learn(event.said, project, told)

    def _annotations_deleted(self, event: Event, project: Project, told: Told) -> None:
        self._delete([each.id for each in event.annotations], project, told)

    def _tasks_deleted(self, event: Event, project: Project, told: Told) -> None:
        tasks = [each.id for each in event.tasks]
        self._delete(self.ledger.annotations_of(project.id, tasks), project, told)

    def _compare(self, event: Event, project: Project, told: Told) -> None:
        """Follow all annotations of a project as they are now, and forget those that are gone."""
        for _ in range(ATTEMPTS):
            before = self.ledger.annotations_of(project.id)
            there = self._list(project, told)
            if there is not None:
                return self._delete(before - there, project, told)
        raise InputError(
            "Tasks came or went each time that they were listed, so nothing was forgotten. "
            "Press Start Training again when nobody imports or deletes tasks."
        )

    # ---- steps

    def _require_able(self) -> None:
        """Refuse before anything is written down."""
        facts = self.live.facts()
        if facts.read_only:
            raise ReadOnlyError("This server only follows another one. Connect Label Studio to that one.")
        if facts.anonymous:
            raise InputError(
                "This model is anonymous: it does not recognise its photos, so it cannot follow annotations. "
                "Use a model that is not."
            )

    def _list(self, project: Project, told: Told) -> set[int] | None:
        """Follow all annotations that are there, and return them; None if tasks came or went meanwhile."""
        there: set[int] = set()
        tasks: set[int] = set()
        totals: set[int] = set()
        page = total = 0
        while page == 0 or page * PAGE < total:
            page += 1
            found, total = self.studio.tasks(project.id, page, PAGE)
            listed = _checked(found)
            self._learn([(each, task) for task in listed for each in task.annotations], project, told)
            totals.add(total)
            tasks.update(task.id for task in listed)
            there.update(each.id for task in listed for each in task.annotations)
        return there if totals == {len(tasks)} else None

    def _learn(self, said: Sequence[tuple[Annotation, Task]], project: Project, told: Told) -> None:
        labelling = Labelling.parse(project.label_config)
        for start in range(0, len(said), TOGETHER):
            with self._turn:
                at_hand: dict[str, bytes] = {}
                for annotation, task in said[start : start + TOGETHER]:
                    if self.ledger.is_news(annotation.id, annotation.changed):
                        self._note(annotation, task, project, labelling, at_hand, told)
                self._settle(at_hand, labelling, told)

    def _delete(self, annotations: Iterable[int], project: Project, told: Told) -> None:
        with self._turn:
            self.ledger.delete(annotations)
            self._settle({}, Labelling.parse(project.label_config), told)

    def _note(
        self,
        annotation: Annotation,
        task: Task,
        project: Project,
        labelling: Labelling,
        at_hand: dict[str, bytes],
        told: Told,
    ) -> None:
        """Write down what an annotation says, and fetch its photo."""
        label = None if annotation.was_cancelled else labelling.label_of(annotation.result)
        photo = None
        if label is not None:
            try:
                contents = self.studio.photo(task.data.get(labelling.key))
                open_image(contents)  # what the model would refuse is not written down
            except InputError as error:
                told.problems.append(f"Annotation {annotation.id} was not followed: {error}")
                return
            photo = photo_id(contents)
            at_hand[photo] = contents
        about = annotation.id, project.id, task.id, annotation.changed
        self.ledger.note(Statement(*about, label, annotation.ground_truth, photo))

    def _settle(self, at_hand: Mapping[str, bytes], labelling: Labelling, told: Told) -> None:
        """Make the model follow: for these photos, and for those that wait."""
        photos = {**at_hand, **dict.fromkeys(self.ledger.unsettled())}
        labels = {photo: self.ledger.label_of(photo) for photo in photos}
        self._forget([photo for photo, label in labels.items() if label is None], labelling, told)
        here = {photo: label for photo, label in labels.items() if label and photo in at_hand}
        self._teach(here, at_hand, told)
        self._teach_again(
            {photo: label for photo, label in labels.items() if label and photo not in at_hand},
            labelling,
            told,
        )

    def _teach(self, labels: Mapping[str, str], contents: Mapping[str, bytes], told: Told) -> None:
        """Let the model learn photos, or move them to another class."""
        if labels:
            images = [contents[photo] for photo in labels]
            told.add(patiently(lambda: self.live.teach(images, [*labels.values()], relabel=True)))
            self.ledger.settle(labels)

    def _teach_again(self, labels: Mapping[str, str], labelling: Labelling, told: Told) -> None:
        """Let the model learn photos that are fetched once more, until too many are not to be had."""
        failed = 0
        for photo, label in labels.items():
            try:
                self._teach({photo: label}, {photo: self._fetched(photo, labelling)}, told)
            except InputError as error:
                told.problems.append(f"A photo was not learned as {label!r} yet: {error}")
                failed += 1
            if failed == ATTEMPTS:
                return

    def _forget(self, photos: Sequence[str], labelling: Labelling, told: Told) -> None:
        """Let the model forget photos: by what it remembers of them, or by fetching them again."""
        if not photos:
            return
        try:
            told.add(patiently(lambda: self.live.forget_ids(photos)))
        except InputError:
            for photo in photos:
                self._forget_fetched(photo, labelling, told)
        else:
            self.ledger.settle(photos)

    def _forget_fetched(self, photo: str, labelling: Labelling, told: Told) -> None:
        try:
            contents = self._fetched(photo, labelling)
            told.add(patiently(lambda: self.live.forget([contents])))
            self.ledger.settle([photo])
        except InputError as error:
            told.problems.append(f"A photo was not forgotten yet: {error}")

    def _fetched(self, photo: str, labelling: Labelling) -> bytes:
        """A photo of which only the id is at hand, fetched by its task."""
        task = self.studio.task(self.ledger.task_of(photo))
        data = task.get("data")
        contents = self.studio.photo(data.get(labelling.key) if isinstance(data, Mapping) else None)
        if photo_id(contents) != photo:
            raise InputError(f"Task {task.get('id')} has another photo now. Press Start Training.")
        return contents


@contextlib.contextmanager
def following(
    live: LiveModel, address: str | None, key: str | None, model: Path | None
) -> Iterator[Teacher | None]:
    """A teacher for the Label Studio at this address; none without one.

    key: of one of its users. model: the model's file, beside which annotations are noted; None for a model in
    memory. A copy that only follows another server notes nothing.
    """
    if address is None:
        yield None
        return
    noted = None if model is None or live.facts().read_only else model.with_name(f"{model.name}.label-studio")
    studio = Studio(address, key)
    with contextlib.closing(Ledger(noted, studio.address)) as ledger:
        yield Teacher(live, studio, ledger)


EVENTS: Mapping[str, Callable[[Teacher, Event, Project, Told], None]] = {
    "ANNOTATION_CREATED": Teacher._said,
    "ANNOTATIONS_CREATED": Teacher._said,
    "ANNOTATION_UPDATED": Teacher._said,
    "ANNOTATIONS_DELETED": Teacher._annotations_deleted,
    "TASKS_DELETED": Teacher._tasks_deleted,
    "START_TRAINING": Teacher._compare,
}


def photo_id(contents: bytes) -> str:
    """How the model names a photo."""
    return image_digest(contents)[:16].hex()


def patiently(change: Callable[[], Outcome]) -> Outcome:
    """Change the model; if it is busy, wait and ask again: Label Studio would not."""
    for _ in range(ATTEMPTS):
        try:
            return change()
        except BusyError as busy:
            time.sleep(min(busy.retry_after, LONGEST_WAIT))
    return change()


def _checked(tasks: list[Any]) -> list[AnnotatedTask]:
    try:
        return TypeAdapter(list[AnnotatedTask]).validate_python(tasks)
    except ValidationError as error:
        raise InputError(
            f"Label Studio lists a task in an unknown form: {error.errors()[0]['msg']}."
        ) from None
