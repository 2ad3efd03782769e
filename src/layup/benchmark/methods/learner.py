"""What the benchmark's loop drives: a learner has two verbs, and a state that outlives the process."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from layup.backbones import Backbone
from layup.errors import InputError
from layup.features import Reading
from layup.images import ImageSource
from layup.memory import Forecast
from layup.tuning import FirstSession

ONLY = ""
"""The name of a learner's predictions, if it has only one kind."""


@dataclass(frozen=True)
class Report:
    """What a learner reports: what it chose so far (as JSON), and how many bytes it keeps."""

    chosen: dict[str, Any]
    state_bytes: int


class Learner(ABC):
    """Something that learns task after task, and predicts in between.

    Most learners give one prediction per image. Where one state serves several variants (such as LayUP at
    several depths), each has a name, and `predict` gives them all in one pass over the images.
    """

    @abstractmethod
    def learn(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Learn a task, or a batch of a stream. Its images cannot be read afterwards."""

    @abstractmethod
    def predict(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """The predicted label of every image, by variant."""

    @abstractmethod
    def reports(self) -> dict[str, Report]:
        """A report on each variant."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write everything that is needed to go on."""


@dataclass(frozen=True)
class Setup:
    """What a method works with.

    session: how to adapt the backbone on the first task, if at all; `checkpoint` is the file from which that
        resumes if it was interrupted, and where another run finds it when it is done.
    seed: of all that is random in the method itself.
    tasks: how many there will be, for methods that must know.
    scratch: a file for what a long task has done so far, from which the same task resumes.
    grid: of the λ that LayUP searches, see `RidgeClassifier`: "paper", or "official" as the authors' code.
    """

    backbone: Backbone
    setting: str
    session: FirstSession | None = None
    checkpoint: Path | None = None
    reading: Reading = field(default_factory=Reading)
    seed: int = 0
    tasks: int | None = None
    scratch: Path | None = None
    grid: str = "paper"


@dataclass(frozen=True)
class Method(ABC):
    """A method and its options; a subclass is one line in `METHODS`."""

    name: ClassVar[str]
    adapts: ClassVar[bool] = False
    """Whether it adapts the backbone on the first task unless told otherwise (never on a stream)."""
    needs_session: ClassVar[bool] = False
    """Whether it is nothing without a first session."""
    released: ClassVar[str | None] = None
    """For a method of others, the preset that stands for its own released code."""
    joint: ClassVar[bool] = False
    """Whether it learns all tasks jointly: not a continual learner, but an upper bound for one."""
    settings: ClassVar[tuple[str, ...]] = ("cil", "dil", "ocl")
    """Where it makes sense."""
    exempt: ClassVar[Mapping[str, str]] = {}
    """The laws of `layup.benchmark.laws` that it does not obey, by id, and why."""

    @classmethod
    def with_options(cls, options: Mapping[str, Any]) -> Self:
        """The method with these options; those that it does not have are refused."""
        known = cls.option_names()
        for option in options:
            if option not in known:
                takes = f"It takes {', '.join(known)}" if known else "It takes no options"
                raise InputError(f"The method {cls.name!r} has no option {option!r}. {takes}.")
        return cls(**options)

    @classmethod
    def option_names(cls) -> list[str]:
        """What can be chosen."""
        return [each.name for each in fields(cls)]

    @classmethod
    def option_defaults(cls) -> dict[str, str]:
        """The defaults of the options, as text."""
        return {
            each.name: "by backbone and setting" if each.default is None else str(each.default)
            for each in fields(cls)
        }

    @classmethod
    def explanation(cls) -> str:
        """The whole explanation of the method."""
        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def summary(cls) -> str:
        """The first sentence of that."""
        return cls.explanation().partition("\n\n")[0].replace("\n", " ").rstrip(".")

    def options(self) -> dict[str, Any]:
        """The options, as JSON."""
        return asdict(self)

    def resolved(self, setup: Setup) -> Self:
        """The method with every open choice made; raises if it cannot work with this setup."""
        return self

    def variants(self) -> dict[str, Method]:
        """By name, the methods whose predictions its learners make."""
        return {ONLY: self}

    def forecast(self, setup: Setup, task: int, images: int, classes: int) -> Forecast | None:
        """The memory that the last and largest task of so many images and classes in all will take.

        None if that is not known in advance.
        """
        return None

    @abstractmethod
    def begin(self, setup: Setup) -> Learner:
        """A learner that knows nothing yet."""

    @abstractmethod
    def resume(self, setup: Setup, path: Path) -> Learner:
        """The learner that was saved."""
