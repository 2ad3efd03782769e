"""The union of all shards of a plan: the model that one machine would have given, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from layup.algebra import FOLDS, JUDGED, GramStatistics
from layup.errors import InputError
from layup.features import Rows
from layup.model import ImageModel, KnownPhotos
from layup.sharding.plan import Plan
from layup.sharding.rounds import Round, searched
from layup.sharding.shard import Shard, missing, redrawn, shard_path
from layup.sharding.slice_photos import DIGEST, skip

SOME = 10
"""How many slices a sentence names."""


class AgainError(InputError):
    """Some slices must be computed again: the plan has noted which, and for what."""


@dataclass
class _Gathered:
    """What was read of the shards so far."""

    parts: list[GramStatistics]
    """The sums of each fold, or of all photos together."""
    names: dict[str, int] = field(default_factory=dict)
    """The number of each label, in the order in which they came."""
    digests: list[NDArray[np.bytes_]] = field(default_factory=list)
    classes: list[NDArray[np.int32]] = field(default_factory=list)
    """Of each slice, the digests of its photos and the numbers of their labels: 20 bytes per photo."""
    rows: list[Rows] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)

    def add(self, shard: Shard) -> None:
        """Add the shard of the next slice."""
        for part, more in zip(self.parts, shard.parts, strict=True):
            part.add(more)
        numbers = [self.names.setdefault(label, len(self.names)) for label in shard.sums.labels]
        self.digests.append(shard.digests.view(f"S{DIGEST}").ravel())
        self.classes.append(np.array(numbers, np.int32)[shard.classes])
        self.rows.append(shard.rows)
        self.labels += shard.row_labels()
        if len(self.labels) > 4 * JUDGED:  # those drawn of all are among those drawn of each
            self.rows, self.labels = redrawn(self.rows, self.labels)
        self.bad += shard.bad

    def into(self, model: ImageModel, lam: float | None) -> None:
        """Let a model learn it."""
        sums = sum(self.parts[1:], start=self.parts[0])
        places = np.array([sums.labels.index(label) for label in self.names], np.int32)
        digests, classes = np.concatenate(self.digests), np.concatenate(self.classes)
        self.digests, self.classes = [], []  # as large as what the model keeps
        model.learn_sums(sums, digests, places[classes], np.concatenate(self.rows), self.labels, lam)


def union(
    plan: Plan, into: ImageModel | None = None, *, done: Callable[[int], object] = lambda number: None
) -> tuple[ImageModel, list[str]]:
    """The model of all photos of a plan, and why some could not be used.

    Holds one shard at a time, and up to 60 bytes per photo, of which the model keeps 24.

    into: a model that learns them; by default one that has learned nothing. done: is told each slice when its
    shard was read.

    Refuses if shards are missing. An `AgainError` says that slices must be computed once more: those that
    have photos of earlier slices or of the model, without them, since a photo counts once; or all, to search
    λ.
    """
    if absent := missing(plan):
        raise InputError(
            f"{len(absent)} of {len(plan.slices)} slices of '{plan.folder}' were not computed yet: "
            f"{_numbers(absent)}."
        )
    model = plan.start() if into is None else into
    plan.require_of(model)
    gathered = _Gathered([model.statistics_.empty() for _ in range(FOLDS if plan.folded else 1)])
    for number in range(len(plan.slices)):
        gathered.add(Shard.read(shard_path(plan, number), plan, number))
        done(number)
    _require_each_once(plan, gathered.digests, model.photos)
    if not gathered.names:
        raise InputError(f"No photo of '{plan.folder}' can be used: {gathered.bad[0]}")
    lam = searched(plan, gathered.parts, model.statistics_, model.classifier_) if plan.folded else None
    if isinstance(lam, Round):
        raise AgainError(
            f"λ is searched on all photos. Compute these slices again, which counts what {len(lam.lams)} "
            f"values of λ predict right: {_numbers(lam.uncounted())}. Then merge again."
        )
    gathered.into(model, lam)
    return model, gathered.bad


def _require_each_once(plan: Plan, digests: Sequence[NDArray[np.bytes_]], known: KnownPhotos | None) -> None:
    """Refuse photos that an earlier slice has as well, or the model; that is noted in the plan."""
    twice = doubled(digests)
    for number, part in enumerate(digests if known is not None and len(known) else []):
        assert known is not None
        if both := {part[i : i + 1].tobytes() for i in known.matches(part)[0].tolist()}:
            twice[number] = twice.get(number, set()) | both
    if not twice:
        return
    for number, found in twice.items():
        skip(plan, number, found)
    count = sum(map(len, twice.values()))
    raise AgainError(
        f"{count:,} photos are in several slices, or known to the model, and count once. Compute these "
        f"slices again: {_numbers(sorted(twice))}. Then merge again."
    )


def doubled(parts: Sequence[NDArray[np.bytes_]]) -> dict[int, set[bytes]]:
    """By part, the digests that an earlier part has as well.

    Costs a sort of 8 bytes per digest; only digests that share these are compared.

    >>> one, two = np.array([b"a" * 16, b"b" * 16]), np.array([b"c" * 16, b"a" * 16])
    >>> doubled([one, two])
    {1: {b'aaaaaaaaaaaaaaaa'}}
    """
    firsts = np.concatenate([part.view(np.uint64)[::2] for part in parts])
    order = np.argsort(firsts, kind="stable")
    firsts = firsts[order]
    same = firsts[1:] == firsts[:-1]
    alike = np.union1d(order[1:][same], order[:-1][same])
    ends = np.cumsum([len(part) for part in parts])
    seen: set[bytes] = set()
    found: dict[int, set[bytes]] = {}
    for index in alike.tolist():
        number = int(np.searchsorted(ends, index, "right"))
        turn = index - (int(ends[number - 1]) if number else 0)
        digest = parts[number][turn : turn + 1].tobytes()
        if digest in seen:
            found.setdefault(number, set()).add(digest)
        seen.add(digest)
    return found


def _numbers(numbers: Sequence[int]) -> str:
    """The first of them.

    >>> _numbers([3, 17])
    '3, 17'
    """
    listed = ", ".join(map(str, numbers[:SOME]))
    return listed if len(numbers) <= SOME else f"{listed} and {len(numbers) - SOME} more"
