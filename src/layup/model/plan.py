"""Which of the given photos are new to a model, which it knows, and which it knows as something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from layup.errors import ForgetError
from layup.images import ImageSource, described, is_image
from layup.model.known import KnownPhotos, Numbers, short


@dataclass(frozen=True)
class Conflict:
    """A photo that is given as one class, but known as another: it is not learned.

    twin: the index of the same photo, where it is given as the other class too; None if it is only known so.
    """

    index: int
    label: str
    other: str
    twin: int | None = None


@dataclass(frozen=True)
class Plan:
    """What to do with the given photos, by their indices."""

    new: list[int] = field(default_factory=list)
    moved: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Those that are to be moved, and the classes that they are known as."""
    known: int = 0
    """How many are known, or given twice."""
    conflicts: list[Conflict] = field(default_factory=list)


def plan(
    known: KnownPhotos,
    digests: Sequence[bytes | None],
    labels: Sequence[str],
    *,
    relabel: bool = False,
    exact: bool = False,
) -> Plan:
    """What to do with photos of these digests and labels. A photo without a digest counts as new.

    relabel: move photos that are known as another class, instead of reporting a conflict.
    exact: each photo shall count once, so move those as well that were counted several times.

    >>> photos = KnownPhotos().with_photos([b"a" * 16], ["cat"], batch=0)
    >>> plan(photos, [b"a" * 16, b"b" * 16, b"b" * 16], ["cat", "dog", "dog"])
    Plan(new=[1], moved={}, known=2, conflicts=[])
    """
    is_read = np.array([digest is not None for digest in digests], bool)
    places = np.flatnonzero(is_read)
    given, first, photo = np.unique(
        short(digest for digest in digests if digest is not None), return_index=True, return_inverse=True
    )
    first = places[first]  # where each photo is given first
    conflicts = _torn(labels, places, first[photo])
    clear = np.isin(first, [conflict.index for conflict in conflicts], invert=True)
    # A million known photos take numpy no time: only what is to be done is looked at one by one.
    index, rows = known.matches(given)
    times = np.bincount(index, minlength=len(given))
    wanted = known.numbers_of([labels[place] for place in first.tolist()])
    right = np.bincount(index[known.rows.classes[rows] == wanted[index]], minlength=len(given)) > 0
    if exact:
        right &= times == 1
    new = sorted([*np.flatnonzero(~is_read).tolist(), *first[clear & (times == 0)].tolist()])
    moved: dict[int, tuple[str, ...]] = {}
    ends = np.cumsum(times)
    for number in np.flatnonzero(clear & (times > 0) & ~right):
        before = tuple(known.labels_at(rows[ends[number] - times[number] : ends[number]]))
        place = int(first[number])
        if relabel:
            moved[place] = before
        else:
            conflicts.append(Conflict(place, labels[place], before[0]))
    rest = len(digests) - len(new) - len(moved) - len(conflicts)
    return Plan(new, dict(sorted(moved.items())), rest, sorted(conflicts, key=lambda each: each.index))


def _torn(labels: Sequence[str], places: Numbers, firsts: Numbers) -> list[Conflict]:
    """The conflicts among the given photos: at each place, and where the same photo is given first."""
    found: dict[int, Conflict] = {}
    for place, first in zip(places.tolist(), firsts.tolist(), strict=True):
        if labels[place] != labels[first]:
            found.setdefault(first, Conflict(first, labels[first], labels[place], place))
            found[place] = Conflict(place, labels[place], labels[first], first)
    return [*found.values()]


def rows_to_forget(
    known: KnownPhotos,
    images: Sequence[ImageSource],
    digests: Sequence[bytes | None],
    labels: Sequence[str] | None,
    usable: Callable[[ImageSource], bool] = is_image,
) -> Numbers:
    """The rows of these photos, of those with these labels if given; refuse what was never learned.

    What cannot be read (it has no digest), or is no image, has no row: it could not have been learned.
    """
    readable = [index for index, digest in enumerate(digests) if digest is not None]
    found = [digest for digest in digests if digest is not None]
    unknown = [
        (index, before)
        for index, before in zip(readable, known.labels_of(found), strict=True)
        if (labels is not None and labels[index] not in before if before else usable(images[index]))
    ]
    if unknown:
        index, before = unknown[0]
        why = "it was never learned, or is forgotten already"
        if before and labels:
            why = f"it was learned as {before[0]!r}, not {labels[index]!r}"
        rest = f" The same holds for {len(unknown) - 1:,} others." if len(unknown) > 1 else ""
        raise ForgetError(f"Cannot forget {described(images[index])}: {why}. Nothing was forgotten.{rest}")
    return known.find(found, None if labels is None else [labels[index] for index in readable])
