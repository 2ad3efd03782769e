"""What a live model says of itself and of photos, all of one version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from layup.algebra import Expected
from layup.model import Predictions


@dataclass(frozen=True)
class Answer:
    """Predictions for photos, by one version of the model.

    ids: of every given photo; None for one that cannot be read. learned_as: the classes that the model knows
    each as.
    """

    version: int
    predictions: Predictions
    ids: list[str | None]
    learned_as: list[tuple[str, ...]]


@dataclass(frozen=True)
class Facts:
    """What there is to know about a live model without asking its network.

    version: how many lessons there were. counts: photos per class, in the order of classes.
    expected: the accuracy to expect, when it was last estimated. right: by class, how many of its photos were
    predicted right without themselves, of how many.
    waiting: photos and lessons that wait for their turn. read_only: whether it only follows another model.
    remembers: whether features are cached, so that undoing, forgetting by id and auditing are possible.
    failed: why it no longer works; None if it does.
    """

    version: int
    counts: Mapping[str, int]
    backbone: str
    fingerprint: str
    state_hash: str | None
    expected: Expected | None
    right: Mapping[str, tuple[int, int]]
    waiting: int
    read_only: bool
    remembers: bool
    anonymous: bool
    saved: bool
    failed: str | None
