"""Shards read and added up: of some slices that follow each other, and then of all.

Reading a shard, which checks that its sums could be those of photos, takes much longer than adding it (see
docs/scaling.md). So a pool of workers reads, each some shards, and whoever merges adds up what they give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from layup.algebra import JUDGED, GramStatistics
from layup.features import Rows
from layup.model import ImageModel
from layup.sharding.plan import Plan
from layup.sharding.shard import Shard, redrawn, shard_path
from layup.sharding.slice_photos import DIGEST


@dataclass
class Gathered:
    """What was read of the shards of some slices.

    parts: the sums of each fold, or of all photos together.
    names: the number of each label, in the order in which they came.
    digests, classes: of each slice, the digests of its photos and the numbers of their labels, 20 bytes each.
    rows, labels: the samples that were drawn.
    """

    parts: list[GramStatistics]
    names: dict[str, int]
    digests: list[NDArray[np.bytes_]]
    classes: list[NDArray[np.int32]]
    rows: list[Rows]
    labels: list[str]
    bad: list[str]

    @classmethod
    def of(cls, shard: Shard) -> Self:
        """The shard of one slice."""
        names = {label: number for number, label in enumerate(shard.sums.labels)}
        digests = shard.digests.view(f"S{DIGEST}").ravel()
        labels = shard.row_labels()
        return cls(shard.parts, names, [digests], [shard.classes], [shard.rows], labels, list(shard.bad))

    def add(self, more: Gathered) -> None:
        """Add what was read of the next slices. Costs the sums' size."""
        for part, other in zip(self.parts, more.parts, strict=True):
            part.add(other)
        numbers = np.array([self.names.setdefault(label, len(self.names)) for label in more.names], np.int32)
        self.digests += more.digests
        self.classes += [numbers[classes] for classes in more.classes]
        self.rows += more.rows
        self.labels += more.labels
        if len(self.labels) > 4 * JUDGED:  # those drawn of all are among those drawn of each
            self.rows, self.labels = redrawn(self.rows, self.labels)
        self.bad += more.bad

    def into(self, model: ImageModel, lam: float | None) -> None:
        """Let a model learn it."""
        sums = sum(self.parts[1:], start=self.parts[0])
        places = np.array([sums.labels.index(label) for label in self.names], np.int32)
        digests, classes = np.concatenate(self.digests), np.concatenate(self.classes)
        self.digests, self.classes = [], []  # as large as what the model keeps
        model.learn_sums(sums, digests, places[classes], np.concatenate(self.rows), self.labels, lam)


def gather(
    plan: Plan, numbers: Iterable[int], done: Callable[[int], object] = lambda number: None
) -> Gathered:
    """Read the shards of some slices that follow each other, and add them up; `done` is told of each."""

    def each() -> Iterator[Gathered]:
        for number in numbers:
            yield Gathered.of(Shard.read(shard_path(plan, number), plan, number))
            done(number)

    return added(each())


def added(parts: Iterable[Gathered]) -> Gathered:
    """Parts that follow each other as one, of which at least one is given. Only one at a time is held."""
    turns = iter(parts)
    found = next(turns)
    for more in turns:
        found.add(more)
    return found
