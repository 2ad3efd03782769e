"""What a live model is at one moment, and what it says of itself and of photos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from layup.algebra import Expected
from layup.model import Estimate, Knowledge, Predictions, Predictor


@dataclass(frozen=True)
class Snapshot:
    """One version of a model, which never changes: its knowledge, solved, and how good it was last judged.

    judged: the version that the estimate is about: it follows a lesson a moment later.
    """

    version: int
    knowledge: Knowledge
    estimate: Estimate = field(default_factory=Estimate)
    judged: int | None = None

    @classmethod
    def of(cls, version: int, knowledge: Knowledge, before: Snapshot | None = None) -> Snapshot:
        """The knowledge as it is now, ready to predict, and judged as before: costs a solve."""
        frozen = knowledge.frozen()
        if frozen.counts:
            sums = frozen.parts.sums
            frozen.classifier.scores_of(sums.means[:1].astype("float32"))
        if before is None:
            return cls(version, frozen)
        return cls(version, frozen, before.estimate, before.judged)

    @cached_property
    def predictor(self) -> Predictor:
        """What predicts, the same for all who ask; refused if it knows no class."""
        return Predictor(self.knowledge.classifier, self.knowledge.calibration)


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

    version: grows with every lesson. counts: photos per class, in the order of classes.
    expected: the accuracy to expect, when it was last estimated. right: by class, how many of its photos were
    predicted right without themselves, of how many. judged: the version that these two are about.
    waiting: callers that want photos read, and lessons that wait for their turn.
    read_only: whether it only follows another model.
    remembers: whether features are cached, so that undoing, forgetting by id and auditing are possible.
    saved: whether it is in a file. failed: why it no longer works; None if it does.
    """

    version: int
    counts: Mapping[str, int]
    backbone: str
    fingerprint: str
    state_hash: str | None
    expected: Expected | None
    right: Mapping[str, tuple[int, int]]
    judged: int | None
    waiting: int
    read_only: bool
    remembers: bool
    anonymous: bool
    saved: bool
    failed: str | None
