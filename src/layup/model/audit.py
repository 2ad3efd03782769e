"""An audit: every photo that a model has learned, judged by all the others.

Each photo is predicted by the sums without it (exact leave-one-out, no photo is learned again), so a wrong
label cannot speak for itself. What all the others say of a photo shows which labels are probably wrong, which
photos are nearly the same, which of these teach nothing, and which classes need more photos.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
class Audit:
    """What all the others say of each photo; photos are named by their index among those given.

    suspects: probably wrong labels, the least plausible first: see `plausibility`.
    duplicates: photos that are nearly the same, the most alike first: see `twins`.
    redundant: photos that teach nothing: nearly the same as one before it in its own class, and predicted
        right without it.
    expected: the accuracy of all these predictions, and the classes that need more photos; None if every
        photo is the only one of its class.
    judged: how many photos were judged. alone: how many more are the only ones of their class, so that
        without them there is nothing to predict.
    unknown: how many photos the model has not learned. conflicts: those that it has learned as another class.
    bad: photos that cannot be read. None of these is judged.
    """

    suspects: list[Suspect]
    duplicates: list[Duplicate]
    redundant: list[int]
    expected: Expected | None
    judged: int
    alone: int
    unknown: int
    conflicts: list[Conflict]
    bad: list[BadImage]

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
    sums = knowledge.classifier.statistics_
    memory.require(forecast_solving(sums, sums.dim, len(sums.labels)), "Auditing")
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
    folder = features.cache.path.parent if isinstance(features.cache, FeatureCache) else None
    with Spool(len(asked), features.extractor.width, folder) as spool:

        def keep(rows: Rows, _: list[int]) -> None:
            spool.append(rows)

        expected = [digests[i] for i in asked]
        seen = features.visit(images, asked, keep, expected, strict=False, title="Auditing")
        if not seen.turns:
            raise none_usable(len(images), seen.bad)
        indices = [asked[turn] for turn in seen.turns]
        names = np.array([labels[i] for i in indices])
        held = _held_out(knowledge.classifier, spool.rows(), names)
        alike = twins(deepest(sums, spool.rows()), held.index)
    return Audit(
        [_suspect(held, row, indices[row]) for row in _surest(held)],
        [Duplicate(indices[i], indices[j], str(names[i]), str(names[j]), like) for i, j, like in alike],
        _redundant(held, alike, indices),
        Expected.of(
            Tally.of(names[held.tested].tolist(), held.right[held.tested].tolist()), knowledge.counts
        ),
        int(held.tested.sum()),
        int((~held.tested).sum()),
        sum(not classes and digest is not None for classes, digest in zip(known, digests, strict=True)),
        conflicts,
        seen.bad,
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
