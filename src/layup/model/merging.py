"""What two models share, so that merging counts it once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from layup.errors import ForgetError, MismatchError
from layup.model.knowledge import Knowledge
from layup.model.known import KnownPhotos, Numbers, reopened
from layup.model.log import Entry
from layup.model.parts import Parts
from layup.model.photo_features import PhotoFeatures

logger = logging.getLogger(__name__)


def merge(mine: Knowledge, other: Knowledge, base: Knowledge | None, features: PhotoFeatures) -> None:
    """Add what another model has learned, and subtract what both have: by the base, or by photo."""
    for each in filter(None, (mine, other, base)):
        each.photos = reopened(each.photos)
    by_photo = all(each.knows_all for each in (mine, other, base) if each is not None)
    require_base(mine.log, other.log, None if base is None else base.log, by_photo)
    log, batches = joined_logs(mine.log, other.log)
    note, known, twice = "", mine.photos, mine.parts.empty()
    if known is not None and other.photos is not None:
        theirs = other.photos
        old = {entry.id for entry in ([] if base is None else base.log)}
        ancestor = all(old <= {entry.id for entry in model.log} for model in (mine, other))
        both = overlap(known, theirs, None if base is None else base.photos, ancestor)
        if len(both.twice):
            note = both.words
            _add_shared(twice, theirs, both.twice, features)
        if base is not None and base.photos is not None:
            # What nobody recognises is known to be counted once as far as it is from the base.
            known, theirs = known.followed(theirs, base.photos), theirs.without_sealed_of(base.photos)
        known = known.without(both.gone).merged(theirs, batches, np.union1d(both.based, both.twice))
    parts = mine.parts + other.parts
    if base is not None:
        parts = without_base(parts, base.parts)
    if twice.sums.total:
        parts -= twice
    if mine.per_class and parts.roots is None:
        logger.warning(
            "The merged model keeps no root per class, since not all of these models do: forget_class "
            "will need the features of a class."
        )
    before = mine.counts
    with mine.changing():
        mine.classifier.adopt_merged(parts.sums, other.classifier)
        mine.keep(parts.roots)
        mine.photos = known
        if len(log) > len(mine.log) or mine.counts != before:  # else the other has nothing new
            mine.log = log
            mine.note("merge", note=note)


def _add_shared(twice: Parts, theirs: KnownPhotos, rows: Numbers, features: PhotoFeatures) -> None:
    """Add up the photos of another model that this one has as well."""
    lost = features.recall(theirs, rows, twice.update).lost
    if len(lost):
        raise MismatchError(
            f"These models share {len(rows):,} photos, which would count twice, and the features of "
            f"{len(lost):,} are not in the cache. If both grew from one model, give that as the base; else "
            "let one of them forget these photos first.",
            about="base",
        )


@dataclass(frozen=True)
class Overlap:
    """Rows of the photos of two models, A and B, that are no longer in A + B − base, or are in it twice."""

    gone: Numbers
    """Of A: photos of the base that B has forgotten, or moved."""
    based: Numbers
    """Of B: photos that it has from the base."""
    twice: Numbers
    """Of B: photos that A has learned as well."""
    conflicts: int = 0
    """How many of these have another class in A, which is kept."""

    @property
    def words(self) -> str:
        """What is counted once, for the log."""
        unlike = f", {self.conflicts:,} of them with two classes" if self.conflicts else ""
        return f"{len(self.twice):,} photos that both had learned count once{unlike}"


def overlap(
    mine: KnownPhotos, theirs: KnownPhotos, base: KnownPhotos | None = None, ancestor: bool = True
) -> Overlap:
    """Compare two models photo by photo.

    ancestor: whether both models grew from the base. Only then do they lack what they have forgotten of it.

    >>> mine = KnownPhotos().with_photos([b"a" * 16, b"b" * 16], ["cat", "dog"], batch=0)
    >>> overlap(mine, KnownPhotos().with_photos([b"b" * 16, b"c" * 16], ["dog", "dog"], batch=0)).twice
    array([0])
    """
    gone = based = np.zeros(0, np.int64)
    if base is not None:
        names = {name: number for number, name in enumerate({*mine.names, *theirs.names, *base.names})}
        ours, others, shared = mine.ids(names), theirs.ids(names), base.ids(names)
        strange = int((~(np.isin(shared, ours) & np.isin(shared, others))).sum())
        if strange and not ancestor:
            raise MismatchError(
                "The base must hold only photos that both models have learned, or be the model that both "
                f"started from, but {strange:,} of its photos are not in both. Give such a model, or merge "
                "without a base."
            )
        based = np.flatnonzero(np.isin(others, shared))
        lost = shared[~np.isin(shared, others)]
        gone = np.flatnonzero(np.isin(ours, lost))
        if len(gone) < len(lost):
            raise MismatchError(
                f"The base has {len(lost) - len(gone):,} photos (with these labels) that neither model "
                "has: both have forgotten or moved them, or it is not their base. Let the base forget these "
                "too, or merge without the base."
            )
    left = mine.without(gone)
    index, rows = left.matches(theirs.rows.digests)
    twice = np.setdiff1d(index, based)
    alike = left.numbers_of(theirs.names)[theirs.rows.classes[index]] == left.rows.classes[rows]
    return Overlap(gone, based, twice, len(np.setdiff1d(twice, index[alike])))


def without_base(parts: Parts, base: Parts) -> Parts:
    """The sums of two models minus those of their base."""
    try:
        return parts - base
    except ForgetError as error:
        raise MismatchError(
            "Both models have forgotten some of the same images of the base, which would be subtracted "
            "twice. Let the base forget them too."
        ) from error


def joined_logs(mine: Sequence[Entry], theirs: Sequence[Entry]) -> tuple[list[Entry], list[int]]:
    """All entries of both, each once; and where each of theirs is among them."""
    index = {entry.id: number for number, entry in enumerate(mine)}
    joined = list(mine)
    for entry in theirs:
        if entry.id not in index:
            index[entry.id] = len(joined)
            joined.append(entry)
    return joined, [index[entry.id] for entry in theirs]


def require_base(
    mine: Sequence[Entry], theirs: Sequence[Entry], base: Sequence[Entry] | None, by_photo: bool
) -> None:
    """Refuse a base that is not what both models started from, and batches that would count twice.

    by_photo: whether all models recognise all their photos. Then these are compared instead, by `overlap`.
    """
    if by_photo:
        return
    shared = {entry.id for entry in mine} & {entry.id for entry in theirs}
    if base is not None:
        held = {entry.id for entry in base}
        if held != shared:
            raise MismatchError(
                f"The base must hold exactly the {len(shared)} batches that both models share, but it "
                f"holds {len(held)}, of which {len(shared & held)} are shared. "
                "Give the model that both started from."
            )
    elif shared:
        raise MismatchError(
            f"These models share {len(shared)} of their batches, which would count twice, and cannot "
            "recognise all their photos. Give a model of exactly these batches as the base, such as the one "
            "that both started from.",
            about="base",
        )
