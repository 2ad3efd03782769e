"""A lesson: one change of a model as a value, which can be filed, and done again to an equal model."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from layup import schema
from layup.model.log import now
from layup.model.outcome import counted

if TYPE_CHECKING:  # a lesson is read before it is known whether it has to be done, which loads PyTorch
    from layup.features import Rows
    from layup.model.knowledge import Knowledge
    from layup.model.parts import Parts

ACTIONS = ("learn", "forget", "drop", "rename", "undo")
LABELS = schema.listed(schema.LABEL)
HEADER: schema.Shape = {
    "action": schema.one_of(*ACTIONS),
    "new": LABELS,
    "moved": LABELS,
    "gone": LABELS,
    "label": schema.LABEL.or_none(),
    "name": schema.LABEL.or_none(),
    "chosen": schema.FIELDS | schema.Rule("null", lambda value: value is None),
    "id": schema.HASH,
    "date": schema.NAME,
}
"""What a file says of a lesson."""


def _no_rows() -> Rows:
    return np.zeros((0, 0), np.float32)


@dataclass(frozen=True)
class Photos:
    """Photos that come to a model or leave it: of each the class, the features, and the first 16 bytes of
    its digest, unless the model is anonymous.
    """

    labels: Sequence[str] = ()
    rows: Rows = field(default_factory=_no_rows)
    digests: Sequence[bytes] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, part: slice) -> Photos:
        return Photos(self.labels[part], self.rows[part], self.digests[part])

    @classmethod
    def joined(cls, parts: Sequence[Photos]) -> Self:
        """All of them, in order."""
        rows = [part.rows for part in parts if len(part)]
        return cls(
            [label for part in parts for label in part.labels],
            np.concatenate(rows) if rows else _no_rows(),
            [digest for part in parts for digest in part.digests],
        )

    def added_to(self, parts: Parts) -> Parts:
        """These parts, with the photos added."""
        if len(self):
            parts.update(self.rows, self.labels)
        return parts


@dataclass(frozen=True)
class Lesson:
    """One change of a model. Applied to equal models it makes equal models, to the last bit.

    action: "learn" (which may also move photos), "forget" photos, "drop" a class, "rename" one, or "undo".
    new, moved: photos to be added, under their new class. gone: photos to be subtracted, under the class that
        they are known as; a class is dropped exactly if these are all its photos, or if its root is kept.
    label, name: the class that is dropped or renamed, and its new name.
    chosen: what the classifier has chosen when it learned this; None if it has yet to choose.
    """

    action: str
    new: Photos = Photos()
    moved: Photos = Photos()
    gone: Photos = Photos()
    label: str | None = None
    name: str | None = None
    chosen: Mapping[str, Any] | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    date: str = field(default_factory=now)

    def apply(self, knowledge: Knowledge) -> Lesson:
        """Do it, all or nothing; returns it with what the classifier chose."""
        with knowledge.changing():
            entries = len(knowledge.log)
            getattr(self, f"_{self.action}")(knowledge)
            if len(knowledge.log) > entries:
                knowledge.log[-1] = replace(knowledge.log[-1], id=self.id, date=self.date)
        return replace(self, chosen=knowledge.classifier.chosen()) if self.action == "learn" else self

    def forgotten(self, knowledge: Knowledge) -> dict[str, int]:
        """How many photos of each class it takes away, of a model as it is before."""
        if self.action == "drop":
            return {str(self.label): knowledge.counts[str(self.label)]}
        return counted(self.gone.labels)

    def leaving(self, knowledge: Knowledge) -> list[bytes]:
        """The digests of the photos that it forgets, by a model as it is before."""
        if self.action == "drop":
            photos = knowledge.known
            return photos.digests_at(photos.of_class(str(self.label)))
        return list(self.gone.digests) if self.action == "forget" else []

    def _learn(self, knowledge: Knowledge) -> None:
        plus, minus = (each.added_to(knowledge.parts.empty()) for each in (self.moved, self.gone))
        coming = Photos.joined([self.new, self.moved])
        knowledge.exchange(
            "learn",
            plus,
            minus,
            lambda: self._absorb(knowledge),
            self._rows_gone(knowledge),
            coming.digests,
            coming.labels,
        )

    def _absorb(self, knowledge: Knowledge) -> None:
        if len(self.new):
            knowledge.learn_rows(self.new.rows, self.new.labels, self.chosen)

    def _forget(self, knowledge: Knowledge) -> None:
        knowledge.forget(self._rows_gone(knowledge), self._minus(knowledge), counted(self.gone.labels))

    def _drop(self, knowledge: Knowledge) -> None:
        knowledge.forget_class(str(self.label), self._minus(knowledge) if len(self.gone) else None)

    def _rename(self, knowledge: Knowledge) -> None:
        knowledge.rename(str(self.label), str(self.name))

    def _undo(self, knowledge: Knowledge) -> None:
        knowledge.undo(knowledge.known.of_batch(len(knowledge.log) - 1), self._minus(knowledge))

    def _minus(self, knowledge: Knowledge) -> Parts:
        return self.gone.added_to(knowledge.parts.empty())

    def _rows_gone(self, knowledge: Knowledge) -> Any:
        return knowledge.known.find(self.gone.digests, self.gone.labels)

    # ---- files

    @property
    def photos(self) -> Photos:
        """All photos in it, those that are new first, and those that are gone last."""
        return Photos.joined([self.new, self.moved, self.gone])

    def state(self) -> dict[str, Any]:
        """What a file says of it, beside the rows and digests of its `photos`."""
        return {
            "action": self.action,
            "new": list(self.new.labels),
            "moved": list(self.moved.labels),
            "gone": list(self.gone.labels),
            "label": self.label,
            "name": self.name,
            "chosen": None if self.chosen is None else dict(self.chosen),
            "id": self.id,
            "date": self.date,
        }

    @classmethod
    def from_state(cls, header: Mapping[str, Any], rows: Rows, digests: Sequence[bytes]) -> Self:
        """The inverse of `state`; a `ValueError` if these cannot belong together."""
        schema.require(header, HEADER, "lesson")
        ends = np.cumsum([len(header[name]) for name in ("new", "moved", "gone")]).tolist()
        if len(rows) != ends[-1] or len(digests) not in (0, ends[-1]):
            raise ValueError(f"a lesson of {ends[-1]} photos has {len(rows)} rows, {len(digests)} digests")
        if (header["action"] in ("drop", "rename")) != (header["label"] is not None):
            raise ValueError("a lesson does not say which class it is about")
        if (header["action"] == "rename") != (header["name"] is not None):
            raise ValueError("a lesson does not say how a class is renamed")
        labels = [*header["new"], *header["moved"], *header["gone"]]
        new, moved, gone = (
            Photos(labels[start:end], rows[start:end], digests[start:end])
            for start, end in zip([0, *ends], ends, strict=False)
        )
        rest = {name: header[name] for name in ("action", "label", "name", "chosen", "id", "date")}
        return cls(new=new, moved=moved, gone=gone, **rest)
