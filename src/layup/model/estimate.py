"""How good a model is, told by the photos that it has learned: each is predicted by sums without it."""

from __future__ import annotations

import numpy as np

from layup.algebra import Expected, held_out_tally
from layup.features import Rows
from layup.model.knowledge import Knowledge
from layup.model.known import KnownPhotos, Numbers
from layup.model.photo_features import PhotoFeatures

LEAST = 0.5
"""The share of the drawn photos whose features must be in the cache: the rest may be unlike them."""


def estimate_accuracy(knowledge: Knowledge, features: PhotoFeatures, most: int) -> Expected | None:
    """The accuracy to expect, from at most so many photos, drawn at random, always the same ones.

    None if it would not be that of the whole model: if the cache lacks too many of these photos, or all of
    them of some class. A photo that counts twice is not drawn, since its twin would stay in the sums.
    """
    photos = knowledge.known
    usable = photos.counted_once()
    several = {label for label, count in knowledge.counts.items() if count > 1}
    if not several <= {*photos.labels_at(usable)}:
        return None
    drawn = np.sort(np.random.default_rng(0).permutation(usable)[:most])
    rows, labels = [np.zeros((0, knowledge.parts.sums.dim), np.float32)], list[str]()

    def take(part: Rows, names: list[str]) -> None:
        rows.append(part)
        labels.extend(names)

    features.recall(photos, drawn, take)
    if len(labels) < LEAST * len(drawn) or not _all_there(photos, drawn, labels):
        return None
    tally = held_out_tally(knowledge.classifier, np.concatenate(rows), labels)
    return Expected.of(tally, knowledge.counts)


def _all_there(photos: KnownPhotos, drawn: Numbers, labels: list[str]) -> bool:
    """Whether every class of which a photo was drawn is among these labels."""
    return {*photos.labels_at(drawn)} <= {*labels}
