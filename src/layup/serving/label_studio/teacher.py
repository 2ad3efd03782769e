"""What Label Studio tells, event by event, becomes what the model knows.

Label Studio tells of each change once, does not wait for the answer, and does not ask again. *Start Training*
is how its users make up for what was missed: it compares all annotations.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from layup.errors import InputError, ReadOnlyError
from layup.serving.label_studio.labelling import Labelling
from layup.serving.label_studio.ledger import Ledger
from layup.serving.label_studio.messages import AnnotatedTask, Annotation, Event, Followed, Task
from layup.serving.label_studio.pupil import Pupil
from layup.serving.label_studio.studio import Studio
from layup.serving.live import LiveModel

TOGETHER = 16
"""Photos that are held, and learned, at a time."""
PAGE = 100
"""Tasks that are listed at a time."""
ATTEMPTS = 3
"""How often tasks are listed, if some come or go meanwhile."""

logger = logging.getLogger(__name__)


class Teacher:
    """Follows the annotations of one Label Studio with one model. Threads take turns.

    Args:
        live: the model.
        studio: where photos and tasks are.
        ledger: what annotations have said so far.
    """

    def __init__(self, live: LiveModel, studio: Studio, ledger: Ledger) -> None:
        self.live = live
        self.studio = studio
        self.ledger = ledger
        self._turn = threading.Lock()

    def hear(self, event: Event) -> Followed:
        """Follow an event. What is no news changes nothing; what is not about annotations is ignored."""
        follow = EVENTS.get(event.action)
        if follow is None:
            return Followed()
        if event.project is None:
            raise InputError(f"{event.action} came without its payload. Turn on 'Send payload' for webhooks.")
        self._require_able()
        labelling = Labelling.parse(event.project.label_config)
        pupil = Pupil(self.live, self.studio, self.ledger, event.project.id, labelling)
        follow(self, event, pupil)
        for problem in pupil.problems:
            logger.warning("%s", problem)
        return pupil.followed

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

    # ---- events

    def _said(self, event: Event, pupil: Pupil) -> None:
        self._tell(event.said, pupil)

    def _annotations_deleted(self, event: Event, pupil: Pupil) -> None:
        with self._turn:
            pupil.drop([each.id for each in event.annotations])

    def _tasks_deleted(self, event: Event, pupil: Pupil) -> None:
        with self._turn:
            pupil.drop(self.ledger.annotations_of(pupil.project, [each.id for each in event.tasks]))

    def _compare(self, event: Event, pupil: Pupil) -> None:
        """Follow all annotations of a project as they are now, and forget those that are gone."""
        for _ in range(ATTEMPTS):
            with self._turn:
                before = self.ledger.annotations_of(pupil.project)
            there = self._list(pupil)
            if there is not None:
                with self._turn:
                    return pupil.drop(before - there)
        raise InputError(
            "Tasks came or went each time that they were listed, so nothing was forgotten. "
            "Press Start Training again when nobody imports or deletes tasks."
        )

    # ---- steps

    def _tell(self, said: Sequence[tuple[Annotation, Task]], pupil: Pupil) -> None:
        """In parts, between which others have their turn."""
        for start in range(0, len(said), TOGETHER):
            with self._turn:
                pupil.hear(said[start : start + TOGETHER])

    def _list(self, pupil: Pupil) -> set[int] | None:
        """Follow all annotations that are there, and return them; None if tasks came or went meanwhile."""
        annotations: set[int] = set()
        tasks: set[int] = set()
        totals: set[int] = set()
        page = total = 0
        while page == 0 or page * PAGE < total:
            page += 1
            found, total = self.studio.tasks(pupil.project, page, PAGE)
            listed = _checked(found)
            said = [(each, task) for task in listed for each in task.annotations]
            self._tell(said, pupil)
            totals.add(total)
            tasks.update(task.id for task in listed)
            annotations.update(each.id for each, _ in said)
        return annotations if totals == {len(tasks)} else None


EVENTS: Mapping[str, Callable[[Teacher, Event, Pupil], None]] = {
    "ANNOTATION_CREATED": Teacher._said,
    "ANNOTATIONS_CREATED": Teacher._said,
    "ANNOTATION_UPDATED": Teacher._said,
    "ANNOTATIONS_DELETED": Teacher._annotations_deleted,
    "TASKS_DELETED": Teacher._tasks_deleted,
    "START_TRAINING": Teacher._compare,
}


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


def _checked(tasks: list[Any]) -> list[AnnotatedTask]:
    try:
        return TypeAdapter(list[AnnotatedTask]).validate_python(tasks)
    except ValidationError as error:
        raise InputError(
            f"Label Studio lists tasks in an unknown form: {error.errors()[0]['msg']}."
        ) from None
