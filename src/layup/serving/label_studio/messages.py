"""What Label Studio sends, as far as it is used, and what it is answered.

All else that it sends is dropped unread, such as its access token.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AwareDatetime, BaseModel, Field

T = TypeVar("T")
Number = Annotated[int, Field(ge=0, lt=2**63)]


class Setup(BaseModel):
    """Asked before predictions: can the model learn what the project labels?"""

    config: str = Field(alias="schema")


class Task(BaseModel):
    """Something to be labelled."""

    id: Number
    data: dict[str, Any]


class Annotation(BaseModel):
    """What somebody said of a task."""

    id: Number
    task: Number
    updated_at: AwareDatetime
    result: list[Any] = []
    was_cancelled: bool = False
    ground_truth: bool = False

    @property
    def changed(self) -> int:
        """When it was changed, in microseconds since 1970."""
        return round(self.updated_at.timestamp() * 1_000_000)


class AnnotatedTask(Task):
    """A task with all that was said of it, as a list of tasks has it."""

    annotations: list[Annotation] = []


class Project(BaseModel):
    """A project, and how its tasks are labelled."""

    id: Number
    label_config: str


class Numbered(BaseModel):
    """Something of which only the number is needed."""

    id: Number


class Wanted(BaseModel):
    """Tasks to be predicted."""

    tasks: list[Task]
    label_config: str


class Event(BaseModel):
    """Something that happened in a project. Label Studio tells of one annotation, or of a list."""

    action: str
    project: Project | None = None
    annotation: Annotation | list[Annotation] = []
    annotations: list[Numbered] = []
    task: Task | list[Task] = []
    tasks: list[Numbered] = []

    @property
    def said(self) -> list[tuple[Annotation, Task]]:
        """Each annotation with its task."""
        tasks = {task.id: task for task in _listed(self.task)}
        return [(each, tasks[each.task]) for each in _listed(self.annotation) if each.task in tasks]


class Health(BaseModel):
    """The answer that Label Studio takes for being there."""

    status: str = "UP"
    model_class: str = "layup"


class Version(BaseModel):
    """Which predictions are up to date."""

    model_version: str


class Prediction(Version):
    """A class in Label Studio's own form, and how probable it is; None if the model cannot tell."""

    result: list[dict[str, Any]]
    score: float | None


class Predicted(Version):
    """Predictions for each task: one or none."""

    results: list[list[Prediction]]
    problems: list[str]


class Followed(BaseModel):
    """What an event changed in the model, and what could not be followed, in sentences."""

    learned: dict[str, int] = {}
    forgotten: dict[str, int] = {}
    moved: int = 0
    problems: list[str] = []


def _listed(given: T | list[T]) -> list[T]:
    return given if isinstance(given, list) else [given]
