"""What a lesson did: for the model, and for every photo that was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, get_args

Status = Literal["learned", "known", "moved", "conflict", "forgotten", "unknown", "bad"]
STATUSES: tuple[str, ...] = get_args(Status)


@dataclass(frozen=True)
class PhotoOutcome:
    """What became of one photo.

    id: the hex of the digest by which the model knows it; None if it cannot be read, or if the model is
        anonymous.
    label: the class that it was given as, or forgotten from.
    status: "known": it was learned as this class before, or is given twice. "conflict": it was learned as
        another class, and stays there. "unknown": it was to be forgotten, but was never learned. "bad": it
        cannot be used, and `error` says why.
    learned_as: the classes that the model now knows it as.
    """

    id: str | None
    label: str | None
    status: Status
    learned_as: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What a lesson did, and which version of the model it made.

    version: how many lessons there were by then.
    counts: photos per class, afterwards. moved: how many photos only changed their class.
    exact: whether all is now as if what was forgotten had never been learned.

    >>> photos = (PhotoOutcome("ab", "tabby", "learned"),)
    >>> done = Outcome(8, {"tabby": 1}, learned={"tabby": 1}, photos=photos)
    >>> Outcome.from_dict(done.to_dict()) == done, done.changed
    (True, True)
    """

    version: int
    counts: Mapping[str, int]
    learned: Mapping[str, int] = field(default_factory=dict)
    forgotten: Mapping[str, int] = field(default_factory=dict)
    moved: int = 0
    known: int = 0
    exact: bool = True
    photos: tuple[PhotoOutcome, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything was learned or forgotten."""
        return bool(self.learned or self.forgotten)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`, also after JSON."""
        photos = (
            PhotoOutcome(**{**each, "learned_as": tuple(each["learned_as"])}) for each in values["photos"]
        )
        return cls(**{**values, "photos": tuple(photos)})


def counted(labels: Iterable[str]) -> dict[str, int]:
    """How often each label is there, sorted by label.

    >>> counted(["dog", "cat", "dog"])
    {'cat': 1, 'dog': 2}
    """
    return dict(sorted(Counter(labels).items()))
