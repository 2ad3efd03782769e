"""An audit: every photo that a model has learned, judged by all the others.

Each photo is predicted by the sums without it (exact leave-one-out, no photo is learned again), so a wrong
label cannot speak for itself. What all the others say of a photo shows which labels are probably wrong, which
photos are nearly the same, which of these teach nothing, and which classes need more photos.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from layup import memory
from layup.algebra import (
    Directions,
    Expected,
    Floats,
    GramStatistics,
    HeldOut,
    SumsClassifier,
    Tally,
    Twins,
    directions,
    forecast_solving,
    plausibility,
    twins,
)
from layup.errors import InputError
from layup.features import BadImage, FeatureCache, Rows, Spool
from layup.images import ImageSource
from layup.model.knowledge import Knowledge
from layup.model.photo_features import PhotoFeatures
from layup.model.plan import Conflict
from layup.model.visits import none_usable


@dataclass(frozen=True)
class Suspect:
    """A photo whose label is probably wrong: all the others would call it something else.

    index: of the photo, among those given. margin: by how much the suggested class beats the given one.
    """

    index: int
    label: str
    suggested: str
    margin: float
    score: float
    """Of the suggested class."""


@dataclass(frozen=True)
class Duplicate:
    """Two photos that are nearly the same: `index` comes after `twin` among those given."""

    index: int
    twin: int
    label: str
    twin_label: str
    likeness: float
    """The cosine of the two, at most 1."""

    @property
    def across(self) -> bool:
        """Whether they have different labels: then one of these is probably wrong."""
        return self.label != self.twin_label


@dataclass(frozen=True)
class Confusion:
    """How often photos of each class (a row) were predicted as each class (a column), without themselves."""

    labels: list[str]
    counts: list[list[int]]

    @classmethod
    def of(cls, held: HeldOut) -> Confusion:
        """Of the photos that were tested."""
        counts = np.zeros((len(held.labels), len(held.labels)), np.int64)
        np.add.at(counts, (held.index[held.tested], held.scores[held.tested].argmax(axis=1)), 1)
        return cls(list(held.labels), counts.tolist())

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Audit:
    """What all the others say of each photo; photos are named by their index among those given.

    suspects: probably wrong labels, the least plausible first: see `plausibility`.
    duplicates: photos that are nearly the same, the most alike first: see `twins`.
    redundant: photos that teach nothing: nearly the same as one before it in its own class, and predicted
        right without it.
    expected: the accuracy of all these predictions, and the classes that need more photos; None if every
        photo is the only one of its class.
    confusion: what photos of each class were predicted as.
    judged: how many photos were judged. alone: how many more are the only ones of their class, so that
        without them there is nothing to predict.
    unknown: how many photos the model has not learned. conflicts: those that it has learned as another class.
    bad: photos that cannot be read. None of these is judged.
    """

    suspects: list[Suspect]
    duplicates: list[Duplicate]
    redundant: list[int]
    expected: Expected | None
    confusion: Confusion
    judged: int
    alone: int
    unknown: int = 0
    conflicts: list[Conflict] = field(default_factory=list)
    bad: list[BadImage] = field(default_factory=list)

    def suggested(self, labels: Sequence[str]) -> list[str]:
        """The given labels, with those that are suggested instead of the probably wrong ones."""
        found = list(labels)
        for suspect in self.suspects:
            found[suspect.index] = suspect.suggested
        return found

    def to_dict(self, images: Sequence[ImageSource]) -> dict[str, Any]:
        """Plain JSON values, with the paths of photos for their indices."""

        def named(values: dict[str, Any]) -> dict[str, Any]:
            names = {"path" if key == "index" else key: value for key, value in values.items()}
            return {
                key: str(images[value]) if key in ("path", "twin") else value for key, value in names.items()
            }

        return {
            "suspects": [named(asdict(each)) for each in self.suspects],
            "duplicates": [named(asdict(each)) for each in self.duplicates],
            "redundant": [str(images[index]) for index in self.redundant],
            "expected": None if self.expected is None else self.expected.to_dict(),
            "confusion": self.confusion.to_dict(),
            "judged": self.judged,
            "alone": self.alone,
            "unknown": self.unknown,
            "conflicts": [
                {"path": str(images[each.index]), "label": each.label, "known_as": each.other}
                for each in self.conflicts
            ],
            "bad": [{"path": str(images[each.index]), "reason": each.reason} for each in self.bad],
        }


def audit(
    knowledge: Knowledge, features: PhotoFeatures, images: Sequence[ImageSource], labels: Sequence[str]
) -> Audit:
    """Judge those of the photos that were learned with these labels."""
    digests = features.digests(images)
    known = knowledge.recognised("learned").labels_of(digest or b"" for digest in digests)
    asked = [i for i, classes in enumerate(known) if labels[i] in classes or digests[i] is None]
    conflicts = [
        Conflict(i, labels[i], classes[0])
        for i, classes in enumerate(known)
        if classes and labels[i] not in classes
    ]
    if not asked:
        raise InputError(
            f"None of these {len(images):,} photos was learned as the class that it is given with, so there "
            "is nothing to judge. Give the photos that the model was taught."
        )
    with _spool(knowledge, features, len(asked)) as spool:

        def keep(rows: Rows, _: list[int]) -> None:
            spool.append(rows)

        expected = [digests[i] for i in asked]
        seen = features.visit(images, asked, keep, expected, strict=False, title="Auditing")
        if not seen.turns:
            raise none_usable(len(images), seen.bad)
        indices = [asked[turn] for turn in seen.turns]
        found = _judged(knowledge, spool.rows(), [labels[i] for i in indices], indices)
    unknown = sum(not classes and digest is not None for classes, digest in zip(known, digests, strict=True))
    return replace(found, unknown=unknown, conflicts=conflicts, bad=seen.bad)


@dataclass(frozen=True)
class KnownAudit:
    """An audit of all photos that a model knows, as far as their features are in the cache.

    ids: of each photo that the audit names by its index: the hex of its digest. labels: their classes.
    not_judged: how many photos the model has learned that are not in the cache, or that it does not know.
    """

    audit: Audit
    ids: list[str]
    labels: list[str]
    not_judged: int


def audit_known(knowledge: Knowledge, features: PhotoFeatures) -> KnownAudit:
    """Judge all photos that are known and in the cache; no photo need be at hand."""
    photos = knowledge.recognised("learned")
    every = np.arange(len(photos))
    with _spool(knowledge, features, len(photos)) as spool:
        found = features.recall(photos, every, lambda rows, _: spool.append(rows))
        labels = photos.labels_at(found.rows)
        if not labels:
            raise InputError(
                "None of the photos of this model can be judged: their features are not in the cache of this "
                "user. Teach it with the cache."
            )
        audited = _judged(knowledge, spool.rows(), labels, [*range(len(labels))])
    ids = [digest.hex() for digest in photos.digests_at(found.rows)]
    return KnownAudit(audited, ids, labels, knowledge.parts.sums.total - len(labels))


def _spool(knowledge: Knowledge, features: PhotoFeatures, count: int) -> Spool:
    """Room for the features of so many photos, if what they are judged with fits into memory."""
    sums = knowledge.classifier.statistics_
    memory.require(forecast_solving(sums, sums.dim, len(sums.labels)), "Auditing")
    folder = features.cache.path.parent if isinstance(features.cache, FeatureCache) else None
    return Spool(count, sums.dim, folder)


def _judged(knowledge: Knowledge, rows: Rows, labels: Sequence[str], indices: Sequence[int]) -> Audit:
    """What all the others say of photos with these features and labels, which are named by these indices."""
    names = np.array(labels)
    held = _held_out(knowledge.classifier, rows, names)
    alike = twins(deepest(knowledge.classifier.statistics_, rows), held.index)
    tally = Tally.of(names[held.tested].tolist(), held.right[held.tested].tolist())
    return Audit(
        [_suspect(held, row, indices[row]) for row in _surest(held)],
        [Duplicate(indices[i], indices[j], labels[i], labels[j], like) for i, j, like in alike],
        _redundant(held, alike, indices),
        Expected.of(tally, knowledge.counts),
        Confusion.of(held),
        int(held.tested.sum()),
        int((~held.tested).sum()),
    )


def deepest(sums: GramStatistics, rows: Rows) -> Directions:
    """What the deepest layer sees in photos, from the mean of all that were learned."""
    width = [*sums.layers.values()][-1]
    return directions(rows[:, -width:], sums.prototypes[:, -width:].sum(axis=0) / sums.total)


def _held_out(classifier: SumsClassifier, rows: Rows, names: Any) -> HeldOut:
    held = classifier.held_out(rows, names)
    if held is None:
        raise InputError(
            f"The photos of this model cannot be judged by one another: its classifier ({classifier.kind}) "
            "has no exact leave-one-out predictions as it was made. Teach a model that LayUP() makes."
        )
    return held


def _surest(held: HeldOut) -> list[int]:
    """The samples whose prediction is another class, those with the least plausible labels first."""
    wrong = np.flatnonzero(held.tested & ~held.right)
    order: list[int] = wrong[np.argsort(plausibility(held)[wrong], kind="stable")].tolist()
    return order


def _suspect(held: HeldOut, row: int, index: int) -> Suspect:
    scores: Floats = held.scores[row]
    best, own = int(scores.argmax()), int(held.index[row])
    margin = float(scores[best] - scores[own])
    return Suspect(index, held.labels[own], held.labels[best], margin, float(scores[best]))


def _redundant(held: HeldOut, alike: Twins, indices: Sequence[int]) -> list[int]:
    """Which photos of the same class have a twin before them, and are right without themselves."""
    return sorted({indices[i] for i, j, _ in alike if held.index[i] == held.index[j] and held.right[i]})
