"""How good a model is, told by the photos that it has learned: each is predicted by sums without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layup.algebra import Calibration, Expected, Tally, held_out_tally
from layup.features import Rows
from layup.model.knowledge import Knowledge
from layup.model.known import KnownPhotos, Numbers
from layup.model.photo_features import PhotoFeatures

LEAST = 0.5
"""The share of the drawn photos whose features must be in the cache: the rest may be unlike them."""


@dataclass(frozen=True)
class Estimate:
    """The accuracy to expect, and how sure the model may be; None where that cannot be told."""

    expected: Expected | None = None
    calibration: Calibration | None = None
    tally: Tally | None = None
    """By class, how many of its photos were predicted right, of how many."""


def estimate(knowledge: Knowledge, features: PhotoFeatures, most: int) -> Estimate:
    """How good a model is, from at most so many photos, drawn at random, always the same ones.

    Nothing is told that would not be of the whole model: if the cache lacks too many of these photos, or all
    of them of some class. A photo that counts twice is not drawn, since its twin would stay in the sums.
    """
    if not knowledge.counts:
        return Estimate()
    photos = knowledge.known
    usable = photos.counted_once()
    several = {label for label, count in knowledge.counts.items() if count > 1}
    if not several <= {*photos.labels_at(usable)}:
        return Estimate()
    drawn = np.sort(np.random.default_rng(0).permutation(usable)[:most])
    rows, labels = [np.zeros((0, knowledge.parts.sums.dim), np.float32)], list[str]()

    def take(part: Rows, names: list[str]) -> None:
        rows.append(part)
        labels.extend(names)

    features.recall(photos, drawn, take)
    if len(labels) < LEAST * len(drawn) or not _all_there(photos, drawn, labels):
        return Estimate()
    x, y = np.concatenate(rows), np.array(labels)
    held = knowledge.classifier.held_out(x, y)
    if held is None:
        tally = held_out_tally(knowledge.classifier, x, y)
        return Estimate(Expected.of(tally, knowledge.counts), tally=tally)
    tally = Tally.of(y[held.tested].tolist(), held.right[held.tested].tolist())
    return Estimate(Expected.of(tally, knowledge.counts), Calibration.of(held), tally)


def _all_there(photos: KnownPhotos, drawn: Numbers, labels: list[str]) -> bool:
    """Whether every class of which a photo was drawn is among these labels."""
    return {*photos.labels_at(drawn)} <= {*labels}
