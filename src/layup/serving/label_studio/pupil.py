"""One event of a project, followed by the model: photos are learned, moved to another class, or forgotten."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from layup.errors import BusyError, InputError
from layup.images import image_digest, open_image
from layup.model import Outcome
from layup.serving.label_studio.labelling import Labelling
from layup.serving.label_studio.ledger import Ledger, Statement
from layup.serving.label_studio.messages import Annotation, Followed, Task
from layup.serving.label_studio.studio import Studio
from layup.serving.live import LiveModel

ATTEMPTS = 3
"""How often a busy model is asked again, and how many photos may be missing before no more are tried."""
LONGEST_WAIT = 5.0
"""Seconds between two attempts to change a busy model."""


@dataclass(frozen=True)
class Pupil:
    """Makes a model follow what the annotations of a project say. Not for several threads at once.

    What an annotation says is written down before the model is changed; what could not be followed stays on
    the list of the ledger, and `problems` has a sentence about it.
    """

    live: LiveModel
    studio: Studio
    ledger: Ledger
    project: int
    labelling: Labelling
    learned: Counter[str] = field(default_factory=Counter)
    forgotten: Counter[str] = field(default_factory=Counter)
    moved: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def hear(self, said: Sequence[tuple[Annotation, Task]]) -> None:
        """Follow annotations with their tasks. Costs a download for each that is news."""
        at_hand: dict[str, bytes] = {}
        for annotation, task in said:
            if self.ledger.is_news(annotation.id, annotation.changed):
                try:
                    at_hand |= self._note(annotation, task)
                except InputError as error:
                    self.problems.append(f"Annotation {annotation.id} was not followed: {error}")
        self._settle(at_hand)

    def drop(self, annotations: Iterable[int]) -> None:
        """Follow that these annotations are gone."""
        self.ledger.delete(annotations)
        self._settle({})

    @property
    def followed(self) -> Followed:
        """What changed, in the form of an answer."""
        return Followed(
            learned=dict(self.learned),
            forgotten=dict(self.forgotten),
            moved=sum(self.moved),
            problems=self.problems,
        )

    # ---- the rest is private

    def _note(self, annotation: Annotation, task: Task) -> dict[str, bytes]:
        """Write down what an annotation says, and return its photo, if it names a class."""
        about = annotation.id, self.project, task.id, annotation.changed
        label = None if annotation.was_cancelled else self.labelling.label_of(annotation.result)
        if label is None:
            self.ledger.note(Statement(*about))
            return {}
        contents = self.studio.photo(task.data.get(self.labelling.key))
        open_image(contents)  # what the model would refuse is not written down
        photo = photo_id(contents)
        self.ledger.note(Statement(*about, label, annotation.ground_truth, photo))
        return {photo: contents}

    def _settle(self, at_hand: Mapping[str, bytes]) -> None:
        """Make the model follow: for these photos, and for those that wait."""
        photos = dict.fromkeys([*at_hand, *self.ledger.unsettled()])
        wanted = {photo: self.ledger.label_of(photo) for photo in photos}
        self._forget([photo for photo, label in wanted.items() if label is None])
        labels = {photo: label for photo, label in wanted.items() if label is not None}
        self._teach({photo: label for photo, label in labels.items() if photo in at_hand}, at_hand)
        self._teach_fetched({photo: label for photo, label in labels.items() if photo not in at_hand})

    def _teach(self, labels: Mapping[str, str], contents: Mapping[str, bytes]) -> None:
        """Let the model learn photos, or move them to another class."""
        if labels:
            images = [contents[photo] for photo in labels]
            self._count(patiently(lambda: self.live.teach(images, [*labels.values()], relabel=True)))
            self.ledger.settle(labels)

    def _teach_fetched(self, labels: Mapping[str, str]) -> None:
        """Let the model learn photos that are fetched once more, until too many are not to be had."""
        missing = 0
        for photo, label in labels.items():
            try:
                self._teach({photo: label}, {photo: self._fetched(photo)})
            except InputError as error:
                self.problems.append(f"A photo is not learned as {label!r} yet: {error}")
                missing += 1
            if missing == ATTEMPTS:
                return

    def _forget(self, photos: Sequence[str]) -> None:
        """Let the model forget photos: by what it remembers of them, or by fetching them again."""
        if not photos:
            return
        done = patiently(lambda: self.live.forget_ids(photos))
        self._count(done)
        lost = [photo.id for photo in done.photos if photo.status == "bad" and photo.id is not None]
        self.ledger.settle({*photos} - {*lost})
        for photo in lost:
            try:
                contents = [self._fetched(photo)]
            except InputError as error:
                self.problems.append(
                    f"A photo is not forgotten yet: its features are not in the cache, and {error}"
                )
            else:
                self._count(patiently(partial(self.live.forget, contents)))
                self.ledger.settle([photo])

    def _fetched(self, photo: str) -> bytes:
        """A photo of which only the id is at hand, by its task."""
        task = self.studio.task(self.ledger.task_of(photo))
        data = task.get("data")
        contents = self.studio.photo(data.get(self.labelling.key) if isinstance(data, Mapping) else None)
        if photo_id(contents) != photo:
            raise InputError(f"Task {task.get('id')} has another photo now. Press Start Training.")
        return contents

    def _count(self, outcome: Outcome) -> None:
        self.learned.update(outcome.learned)
        self.forgotten.update(outcome.forgotten)
        self.moved.append(outcome.moved)


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
