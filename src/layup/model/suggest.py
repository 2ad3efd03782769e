"""What to label next: the photos without labels that would teach a model most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from layup import memory
from layup.algebra import GramStatistics, Prior, forecast_solving, limits, most_informative
from layup.errors import InputError
from layup.features import BadImage, Rows
from layup.images import ImageSource, chosen
from layup.model.audit import deepest
from layup.model.knowledge import Knowledge
from layup.model.photo_features import PhotoFeatures
from layup.model.predictions import Predictions
from layup.model.visits import none_usable


@dataclass(frozen=True)
class Suggestion:
    """A photo that is worth labelling: its index among those given, and what the model would say now."""

    index: int
    guess: str
    margin: float | None
    """How far the second class is behind; None if there is only one."""


@dataclass(frozen=True)
class Suggestions:
    """The photos, the most useful first.

    known: how many of the given photos were learned already. bad: those that cannot be read.
    """

    photos: list[Suggestion]
    known: int
    bad: list[BadImage]

    def to_dict(self, images: Sequence[ImageSource]) -> dict[str, Any]:
        """Plain JSON values, with the paths of photos for their indices."""
        photos = [{"path": str(images[each.index]), **asdict(each)} for each in self.photos]
        for each in photos:
            del each["index"]
        bad = [{"path": str(images[each.index]), "reason": each.reason} for each in self.bad]
        return {"photos": photos, "known": self.known, "bad": bad}


def suggest(
    knowledge: Knowledge, features: PhotoFeatures, images: Sequence[ImageSource], count: int
) -> Suggestions:
    """The photos that would teach most, one after another, without near-duplicates of one another.

    Holds the features of all photos, and costs d² operations for each of them.
    """
    sums = knowledge.classifier.statistics_
    if count < 1:
        raise InputError(f"Cannot suggest {count} photos: give at least 1.")
    if not sums.labels or not isinstance(sums, GramStatistics):
        raise InputError(
            "Nothing can be suggested by a model that has learned nothing, or that keeps no Gram matrix. "
            "Teach a model that LayUP() makes."
        )
    memory.require(forecast_solving(sums, sums.dim, len(sums.labels)), "Suggesting")
    known = knowledge.known.labels_of(digest or b"" for digest in features.digests(images))
    new = [index for index, labels in enumerate(known) if not labels]
    found = features.extractor.unrounded.extract(chosen(images, new), "Suggesting")
    bad = [BadImage(new[each.index], each.reason) for each in found.bad]
    if not len(found.rows):
        if len(new) < len(images):
            raise InputError("All of these photos were learned already. Give photos that have no label yet.")
        raise none_usable(len(images), bad)
    rows = _useful(sums, found.rows, count)
    guesses = Predictions(sums.labels, knowledge.classifier.scores_of(found.rows[rows]), rows, [])
    return Suggestions(
        [
            Suggestion(new[found.kept[row]], guess.label, guess.margin)
            for row, guess in zip(rows, guesses.each(), strict=True)
        ],
        len(images) - len(new),
        bad,
    )


def _useful(sums: GramStatistics, samples: Rows, count: int) -> list[int]:
    """The most informative samples, of which no two are nearly the same."""
    seen = deepest(sums, samples)
    least = limits(seen)
    mean = sums.prototypes.sum(axis=0) / sums.total
    return most_informative(
        Prior.of(sums).whitening(sums).whitened(samples - mean),
        count,
        near=lambda row: seen @ seen[row] >= np.minimum(least, least[row]),
    )
