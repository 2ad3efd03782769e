"""The union of all shards of a plan: the model that one machine would have given, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from layup.algebra import FOLDS, GramStatistics
from layup.errors import InputError
from layup.features import Rows
from layup.model import ImageModel
from layup.sharding.plan import Plan
from layup.sharding.rounds import Round, searched
from layup.sharding.shard import Shard, missing, shard_path
from layup.sharding.slice_photos import skip

SOME = 10
"""How many slices a sentence names."""


class AgainError(InputError):
    """Some slices must be computed again: the plan has noted which, and for what."""


@dataclass
class _Gathered:
    """What was read of the shards so far."""

    parts: list[GramStatistics]
    """The sums of each fold, or of all photos together."""
    digests: dict[bytes, str] = field(default_factory=dict)
    """The label of each photo."""
    rows: list[Rows] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    twice: dict[int, set[bytes]] = field(default_factory=dict)
    """By slice, photos that an earlier slice has as well."""

    def add(self, number: int, shard: Shard) -> None:
        """Add the shard of a slice."""
        for part, more in zip(self.parts, shard.parts, strict=True):
            part.add(more)
        for digest, label in zip(map(bytes, shard.digests), shard.labels(), strict=True):
            if digest in self.digests:
                self.twice.setdefault(number, set()).add(digest)
            else:
                self.digests[digest] = label
        self.rows.append(shard.rows)
        self.labels += shard.row_labels()
        self.bad += shard.bad


def union(plan: Plan, *, done: Callable[[int], object] = lambda number: None) -> tuple[ImageModel, list[str]]:
    """The model of all photos of a plan, and why some could not be used.

    done: is told each slice when its shard was read.

    Refuses if shards are missing. An `AgainError` says that slices must be computed once more: those that
    have photos of earlier slices, without them, since a photo counts once; or all, to search λ.
    """
    if absent := missing(plan):
        raise InputError(
            f"{len(absent)} of {len(plan.slices)} slices of '{plan.folder}' were not computed yet: "
            f"{_numbers(absent)}."
        )
    model = plan.start()
    gathered = _Gathered([model.statistics_.empty() for _ in range(FOLDS if plan.folded else 1)])
    for number in range(len(plan.slices)):
        gathered.add(number, Shard.read(shard_path(plan, number), plan, number))
        done(number)
    if gathered.twice:
        for number, digests in gathered.twice.items():
            skip(plan, number, digests)
        count = sum(map(len, gathered.twice.values()))
        raise AgainError(
            f"{count:,} photos are in several slices, and count once. Compute these slices again: "
            f"{_numbers([*gathered.twice])}. Then merge again."
        )
    if not gathered.digests:
        raise InputError(f"No photo of '{plan.folder}' can be used: {gathered.bad[0]}")
    lam = searched(plan, gathered.parts, model.statistics_, model.classifier_) if plan.folded else None
    if isinstance(lam, Round):
        raise AgainError(
            f"λ is searched on all photos. Compute these slices again, which counts what {len(lam.lams)} "
            f"values of λ predict right: {_numbers(lam.uncounted())}. Then merge again."
        )
    photos, labels = [*gathered.digests], [*gathered.digests.values()]
    sums = sum(gathered.parts[1:], start=gathered.parts[0])
    model.learn_sums(sums, photos, labels, np.concatenate(gathered.rows), gathered.labels, lam)
    return model, gathered.bad


def _numbers(numbers: Sequence[int]) -> str:
    """The first of them.

    >>> _numbers([3, 17])
    '3, 17'
    """
    listed = ", ".join(map(str, numbers[:SOME]))
    return listed if len(numbers) <= SOME else f"{listed} and {len(numbers) - SOME} more"
