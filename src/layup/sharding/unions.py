"""The union of all shards of a plan: the model that one machine would have given, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from layup.algebra import GramStatistics
from layup.errors import InputError
from layup.features import Rows
from layup.model import ImageModel
from layup.sharding.plan import Plan
from layup.sharding.shard import Shard, missing, shard_path, skip

SOME = 10
"""How many slices a sentence names."""


class DoubledError(InputError):
    """Some photos are in several slices: the plan has noted which slices must be computed again."""


@dataclass
class _Gathered:
    """What was read of the shards so far."""

    sums: GramStatistics
    digests: dict[bytes, str] = field(default_factory=dict)
    """The label of each photo."""
    rows: list[Rows] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    twice: dict[int, set[bytes]] = field(default_factory=dict)
    """By slice, photos that an earlier slice has as well."""

    def add(self, number: int, shard: Shard) -> None:
        """Add the shard of a slice."""
        self.sums.add(shard.sums)
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

    Refuses if shards are missing. A photo that two slices have counts once, in the first of them: then the
    others must be computed again without it, and are noted in the plan.
    """
    if absent := missing(plan):
        raise InputError(
            f"{len(absent)} of {len(plan.slices)} slices of '{plan.folder}' were not computed yet: "
            f"{_numbers(absent)}."
        )
    model = plan.start()
    gathered = _Gathered(model.statistics_.empty())
    for number in range(len(plan.slices)):
        gathered.add(number, Shard.read(shard_path(plan, number), plan, number))
        done(number)
    if gathered.twice:
        for number, digests in gathered.twice.items():
            skip(plan, number, digests)
        count = sum(map(len, gathered.twice.values()))
        raise DoubledError(
            f"{count:,} photos are in several slices, and count once. Compute these slices again: "
            f"{_numbers([*gathered.twice])}. Then merge again."
        )
    if not gathered.digests:
        raise InputError(f"No photo of '{plan.folder}' can be used: {gathered.bad[0]}")
    labels = [*gathered.digests.values()]
    model.learn_sums(
        gathered.sums, [*gathered.digests], labels, np.concatenate(gathered.rows), gathered.labels
    )
    return model, gathered.bad


def _numbers(numbers: Sequence[int]) -> str:
    """The first of them.

    >>> _numbers([3, 17])
    '3, 17'
    """
    listed = ", ".join(map(str, numbers[:SOME]))
    return listed if len(numbers) <= SOME else f"{listed} and {len(numbers) - SOME} more"
