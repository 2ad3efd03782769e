"""What the API answers, value by value: checked before it is sent, and described at /openapi.json."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


def _shown(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [example]})


class Problem(BaseModel):
    """Why something was refused."""

    code: str = Field(description="For programs; stays the same.")
    message: str = Field(description="For people: one whole sentence or more.")


class Refusal(BaseModel):
    """The answer to a request that is refused."""

    model_config = _shown(
        {"error": {"code": "unknown-class", "message": "Unknown class 'taby'. Did you mean 'tabby'?"}}
    )
    error: Problem


class Prediction(BaseModel):
    """What is in one photo, or why that cannot be said."""

    name: str = Field(description="As it was sent.")
    id: str | None = Field(default=None, description="By which the model knows it, once it is taught.")
    label: str | None = Field(default=None, description="The most probable class.")
    confidence: float | None = Field(
        default=None, description="How probable that is, if it is of any known class."
    )
    unknown: bool | None = Field(default=None, description="Whether it is unlike all that the model knows.")
    none_of_these: float | None = Field(default=None, description="How probable it is of no known class.")
    learned_as: list[str] = Field(default=[], description="The classes that this very photo was taught as.")
    probabilities: dict[str, float] = Field(default={}, description="Of the most probable classes.")
    error: Problem | None = None


class Predictions(BaseModel):
    """Predictions, all by one version of the model."""

    model_config = _shown(
        {
            "version": 7,
            "predictions": [
                {
                    "name": "a.jpg",
                    "id": "5ff2…",
                    "label": "tabby",
                    "confidence": 0.93,
                    "unknown": False,
                    "none_of_these": 0.04,
                    "learned_as": [],
                    "probabilities": {"tabby": 0.93, "tiger": 0.07},
                    "error": None,
                }
            ],
        }
    )
    version: int
    predictions: list[Prediction]


class Taught(BaseModel):
    """What became of one photo of a lesson."""

    name: str
    id: str | None = None
    label: str | None = Field(default=None, description="The class that it was given as, or forgotten from.")
    status: Literal["learned", "known", "moved", "conflict", "forgotten", "unknown", "bad"]
    learned_as: list[str] = Field(default=[], description="The classes that the model knows it as now.")
    error: Problem | None = None


class Lesson(BaseModel):
    """What a lesson did."""

    model_config = _shown(
        {
            "version": 8,
            "learned": {"tabby": 1},
            "forgotten": {},
            "moved": 0,
            "known": 0,
            "exact": True,
            "photos": [
                {
                    "name": "a.jpg",
                    "id": "5ff2…",
                    "label": "tabby",
                    "status": "learned",
                    "learned_as": ["tabby"],
                    "error": None,
                }
            ],
            "counts": {"tabby": 12},
            "message": "Learned 1 photo.",
        }
    )
    version: int = Field(description="Of the model, after it.")
    learned: dict[str, int] = Field(description="New photos by class.")
    forgotten: dict[str, int] = Field(description="Photos that were forgotten, by class.")
    moved: int = Field(description="How many of these only changed their class.")
    known: int = Field(description="How many photos were known already.")
    exact: bool = Field(description="Whether all is now as if what was forgotten had never been learned.")
    photos: list[Taught]
    counts: dict[str, int] = Field(description="Photos of every class, afterwards.")
    message: str = Field(description="All of it in a sentence or two.")


class Accuracy(BaseModel):
    """How many photos of a class were predicted right without themselves."""

    right: int
    tested: int


class ClassOf(BaseModel):
    """One class."""

    label: str
    count: int
    accuracy: Accuracy | None
    needs_more: bool = Field(description="Whether it has few photos, or is predicted worse than the others.")


class Expectation(BaseModel):
    """The accuracy to expect on photos like those that were taught, from predicting each without itself."""

    accuracy: float
    low: float = Field(description="Where its 95 % interval begins.")
    high: float
    tested: int


class Classes(BaseModel):
    """All classes, and the accuracy to expect."""

    model_config = _shown(
        {
            "version": 8,
            "classes": [
                {
                    "label": "tabby",
                    "count": 12,
                    "accuracy": {"right": 11, "tested": 12},
                    "needs_more": False,
                }
            ],
            "expected": {"accuracy": 0.92, "low": 0.65, "high": 0.99, "tested": 12},
            "judged": 8,
        }
    )
    version: int
    classes: list[ClassOf]
    expected: Expectation | None
    judged: int | None = Field(
        description="The version that the accuracies are about. They follow a lesson a moment later, and so "
        "does how sure predictions are."
    )


class Part(BaseModel):
    """What one layer says: for the label, for the next class, and the difference of the two."""

    layer: str
    label: float
    second: float
    lead: float


class Explanation(BaseModel):
    """Why a photo gets its label."""

    label: str
    second: str | None
    score: float
    second_score: float | None
    lead: float | None
    parts: list[Part] | None
    heat: dict[str, Any] | None = Field(description="How much covering each part of the photo costs.")
    summary: str


class Suggested(BaseModel):
    """A photo that is worth labelling."""

    name: str
    id: str | None
    guess: str
    margin: float | None


class BadPhoto(BaseModel):
    """A photo that cannot be used."""

    name: str
    error: Problem


class Suggestions(BaseModel):
    """Which photos to label next, the most useful first."""

    photos: list[Suggested]
    known: int = Field(description="How many of the given photos were taught already.")
    bad: list[BadPhoto]


class Confusion(BaseModel):
    """How often photos of one class (rows) were predicted as another (columns)."""

    labels: list[str]
    counts: list[list[int]]


class Wrong(BaseModel):
    """A photo that all others together would call something else."""

    id: str
    label: str
    suggested: str
    margin: float


class Duplicate(BaseModel):
    """Two photos that are nearly the same."""

    id: str
    twin: str
    label: str
    twin_label: str
    likeness: float


class Audit(BaseModel):
    """Every photo that the model knows, judged by all the others: on your photos, not on new ones."""

    version: int
    expected: Expectation | None
    confusion: Confusion
    wrong: list[Wrong] = Field(description="Predicted as another class, the least plausible labels first.")
    duplicates: list[Duplicate]
    judged: int
    alone: int = Field(description="How many are the only ones of their class, and cannot be judged.")
    not_judged: int = Field(description="How many are known, but their features are not kept here.")
    needs_more: list[str]


class Entry(BaseModel):
    """Something that was done to the model."""

    date: str
    action: str
    learned: dict[str, int]
    forgotten: dict[str, int]
    note: str


class Log(BaseModel):
    """What was done to the model, the newest last."""

    entries: list[Entry]


class Network(BaseModel):
    """The network that the model reads."""

    name: str
    fingerprint: str


class Info(BaseModel):
    """What the model is, with the names that `layup info` prints as JSON; no path of the server."""

    version: int = Field(description="Grows with every lesson.")
    read_only: bool = Field(description="Whether it only follows another server.")
    may_teach: bool = Field(description="Whether whoever sent this request may also teach.")
    saved: bool = Field(description="Whether it is in a file of the server; otherwise it ends with it.")
    state_hash: str | None
    classes: dict[str, int]
    expected: Expectation | None
    backbone: Network
    layup: str = Field(description="The version of layup.")
    keeps: str = Field(description="What is kept of a photo, in words.")


class Live(BaseModel):
    """Whether the process answers."""

    live: bool


class Ready(BaseModel):
    """Whether the model answers."""

    ready: bool


class DemoPhoto(BaseModel):
    """A picture to try."""

    name: str
    url: str


class Demo(BaseModel):
    """Pictures to try, and what may be done with them."""

    about: str
    photos: list[DemoPhoto]


class Forgetting(BaseModel):
    """What to forget without its photos: photos by their ids, or a class."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"class": "tabby"}, {"ids": ["0" * 32]}]},
    )
    ids: list[str] | None = Field(default=None, min_length=1, max_length=10_000)
    label: str | None = Field(default=None, alias="class", min_length=1, max_length=1000)


class Renaming(BaseModel):
    """A class and its new name."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"old": "tabby", "new": "cat"}]}
    )
    old: str = Field(min_length=1, max_length=1000)
    new: str = Field(min_length=1, max_length=1000)
