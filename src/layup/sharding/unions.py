"""The union of all shards of a plan: the model that one machine would have given, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from layup.errors import InputError
from layup.model import ImageModel, KnownPhotos
from layup.sharding.gathered import Gathered, gather
from layup.sharding.plan import Plan
from layup.sharding.rounds import Round, searched
from layup.sharding.shard import missing
from layup.sharding.slice_photos import skip

SOME = 10
"""How many slices a sentence names."""


class AgainError(InputError):
    """Some slices must be computed again: the plan has noted which, and for what."""


def union(
    plan: Plan,
    into: ImageModel | None = None,
    *,
    gathered: Callable[[], Gathered] | None = None,
    done: Callable[[int], object] = lambda number: None,
) -> tuple[ImageModel, list[str]]:
    """The model of all photos of a plan, and why some could not be used.

    Holds one shard at a time, and up to 60 bytes per photo, of which the model keeps 24.

    into: a model that learns them; by default one that has learned nothing. gathered: reads all shards, if
    that is not to be done here, one after another. done: is told each slice when its shard was read here.

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
    found = gather(plan, range(len(plan.slices)), done) if gathered is None else gathered()
    _require_each_once(plan, found.digests, model.photos)
    if not found.names:
        raise InputError(f"No photo of '{plan.folder}' can be used: {found.bad[0]}")
    lam = searched(plan, found.parts, model.statistics_, model.classifier_) if plan.folded else None
    if isinstance(lam, Round):
        raise AgainError(
            f"λ is searched on all photos. Compute these slices again, which counts what {len(lam.lams)} "
            f"values of λ predict right: {_numbers(lam.uncounted())}. Then merge again."
        )
    found.into(model, lam)
    return model, found.bad


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
