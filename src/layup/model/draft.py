"""A lesson that is worked out for a model as it is, and what it will do, photo by photo.

Every photo fails alone: what cannot be done for one is said of that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from layup.errors import InputError
from layup.features import Extraction, Rows
from layup.images import checked_labels
from layup.model.knowledge import Knowledge
from layup.model.known import BYTES, KnownPhotos, Numbers
from layup.model.lesson import Lesson, Photos
from layup.model.log import require_undoable
from layup.model.outcome import Outcome, PhotoOutcome, Status, counted
from layup.model.photo_features import PhotoFeatures
from layup.model.plan import Plan, plan

LOST = "its features are not in the cache. Give the photo itself."


@dataclass(frozen=True)
class GivenPhotos:
    """Photos whose contents were given, as they were read: features and digests, and why some are bad."""

    count: int
    kept: Sequence[int]
    digests: Sequence[bytes]
    rows: Rows
    bad: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, count: int, found: Extraction) -> GivenPhotos:
        """From what an extractor has found in so many images."""
        bad = {each.index: each.reason for each in found.bad}
        digests = [digest[:BYTES] for digest in found.digests]
        return cls(count, found.kept.tolist(), digests, found.rows, bad)

    def outcomes(
        self, told: Mapping[int, PhotoOutcome], labels: Sequence[str] | None = None
    ) -> tuple[PhotoOutcome, ...]:
        """What is told of those that could be read, and why the others are bad, in order."""
        return tuple(
            told[index]
            if index in told
            else PhotoOutcome(None, labels[index] if labels else None, "bad", error=self.bad.get(index))
            for index in range(self.count)
        )


@dataclass(frozen=True)
class Draft:
    """A lesson, unless there is nothing to do; and what becomes of each photo."""

    lesson: Lesson | None
    photos: tuple[PhotoOutcome, ...] = ()

    def apply(self, knowledge: Knowledge, version: int) -> tuple[Lesson | None, Outcome]:
        """Do it; returns the lesson as it was done, and what it did, as this version."""
        lesson, forgotten, exact = self.lesson, dict[str, int](), True
        if lesson is not None:
            forgotten, before = lesson.forgotten(knowledge), knowledge.parts.leftover
            lesson = lesson.apply(knowledge)
            exact = knowledge.parts.leftover <= before
        coming = [] if lesson is None else [*lesson.new.labels, *lesson.moved.labels]
        outcome = Outcome(
            version,
            knowledge.counts,
            counted(coming),
            forgotten,
            0 if lesson is None else len(lesson.moved),
            sum(each.status == "known" for each in self.photos),
            exact,
            _as_known_now(self.photos, knowledge.known),
        )
        return lesson, outcome


def _as_known_now(photos: Sequence[PhotoOutcome], known: KnownPhotos) -> tuple[PhotoOutcome, ...]:
    now = known.labels_of(bytes.fromhex(each.id or "") for each in photos)
    return tuple(replace(each, learned_as=labels) for each, labels in zip(photos, now, strict=True))


# ---- learning


def taught(
    knowledge: Knowledge, given: GivenPhotos, labels: Sequence[str], *, relabel: bool = False
) -> Draft:
    """Learn photos with their labels, one per given photo; with `relabel`, move those known as others."""
    labels = checked_labels(labels, range(given.count))
    own = [labels[index] for index in given.kept]
    if knowledge.photos is None:
        work = Plan([*range(len(own))])
    else:
        photos = knowledge.recognised("learned before")
        work = plan(photos, given.digests, own, relabel=relabel)
    places = [*work.moved]
    before = [(place, label) for place, labels in work.moved.items() for label in labels]
    moved = _chosen(knowledge, given, places, [own[place] for place in places])
    gone = _chosen(knowledge, given, [place for place, _ in before], [label for _, label in before])
    new = _chosen(knowledge, given, work.new, [own[place] for place in work.new])
    conflicts = {conflict.index for conflict in work.conflicts}
    became: dict[int, Status] = {
        **dict.fromkeys(range(len(own)), "known"),
        **dict.fromkeys(conflicts, "conflict"),
        **dict.fromkeys(places, "moved"),
        **dict.fromkeys(work.new, "learned"),
    }
    anonymous = knowledge.photos is None
    told = {
        index: PhotoOutcome(None if anonymous else given.digests[place].hex(), own[place], became[place])
        for place, index in enumerate(given.kept)
    }
    lesson = Lesson("learn", new, moved, gone) if len(new) or len(moved) else None
    return Draft(lesson, given.outcomes(told, labels))


def _chosen(knowledge: Knowledge, given: GivenPhotos, places: Sequence[int], labels: Sequence[str]) -> Photos:
    """Some of the photos that could be read, under these labels."""
    digests = [] if knowledge.photos is None else [given.digests[place] for place in places]
    return Photos(labels, given.rows[[*places]], digests)


# ---- forgetting


def forgot(knowledge: Knowledge, given: GivenPhotos) -> Draft:
    """Forget photos that are given."""
    photos = knowledge.recognised("to be forgotten")
    place = {digest: number for number, digest in enumerate(given.digests)}
    rows = photos.find(given.digests)
    whose = [place[digest] for digest in photos.digests_at(rows)]
    gone = Photos(photos.labels_at(rows), given.rows[whose], photos.digests_at(rows))
    told = _told(photos, given.digests, {})
    return _forgetting(gone, given.outcomes(dict(zip(given.kept, told, strict=True))))


def forgot_ids(knowledge: Knowledge, ids: Sequence[str], features: PhotoFeatures) -> Draft:
    """Forget photos by their ids, with features from the cache."""
    photos = knowledge.recognised("to be forgotten")
    digests = [digest_of(each) for each in ids]
    gone, lost = recalled(photos, photos.find(digests), features)
    return _forgetting(gone, tuple(_told(photos, digests, dict.fromkeys(photos.digests_at(lost), LOST))))


def forgot_class(knowledge: Knowledge, label: str, features: PhotoFeatures) -> Draft:
    """Forget a class: exactly, if its root is kept, or its features are in the cache."""
    knowledge.require_class(label)
    photos, gone, parts = knowledge.known, Photos(), knowledge.parts
    rows = photos.of_class(label)
    if parts.roots is None and hasattr(parts.sums, "gram") and len(rows) == knowledge.counts[label]:
        found, lost = recalled(photos, rows, features)
        gone = Photos() if len(lost) else found
    return Draft(Lesson("drop", gone=gone, label=label))


def renamed(knowledge: Knowledge, old: str, new: str) -> Draft:
    """Give a class another name."""
    knowledge.require_class(old)
    (new,) = checked_labels([new], range(1))
    return Draft(None if old == new else Lesson("rename", label=old, name=new))


def undone(knowledge: Knowledge, features: PhotoFeatures) -> Draft:
    """Take the last lesson back, with features from the cache."""
    require_undoable(knowledge.log)
    photos = knowledge.recognised("learned last")
    rows = photos.of_batch(len(knowledge.log) - 1)
    gone, lost = recalled(photos, rows, features)
    if len(lost):
        raise InputError(
            f"The last batch cannot be undone: the features of {len(lost):,} of its {len(rows):,} photos are "
            "not in the cache. Let the model forget these photos instead."
        )
    told = [
        PhotoOutcome(each.hex(), label, "forgotten")
        for each, label in zip(gone.digests, gone.labels, strict=True)
    ]
    return Draft(Lesson("undo", gone=gone), tuple(told))


def digest_of(photo_id: str) -> bytes:
    """What a photo's id stands for.

    >>> digest_of("00" * 16) == bytes(16)
    True
    """
    try:
        digest = bytes.fromhex(photo_id)
    except ValueError:
        digest = b""
    if len(digest) != BYTES:
        raise InputError(f"{photo_id!r} is not the id of a photo. It has {2 * BYTES} hexadecimal digits.")
    return digest


def recalled(photos: KnownPhotos, rows: Numbers, features: PhotoFeatures) -> tuple[Photos, Numbers]:
    """Known photos with their features, as far as the cache has them, and the rows of the others."""
    parts: list[Rows] = []
    found = features.recall(photos, rows, lambda part, _: parts.append(part))
    together = np.concatenate(parts) if parts else Photos().rows
    return Photos(photos.labels_at(found.rows), together, photos.digests_at(found.rows)), found.lost


def _forgetting(gone: Photos, told: tuple[PhotoOutcome, ...]) -> Draft:
    return Draft(Lesson("forget", gone=gone) if len(gone) else None, told)


def _told(photos: KnownPhotos, digests: Sequence[bytes], lost: Mapping[bytes, str]) -> list[PhotoOutcome]:
    """What becomes of each of the photos that are to be forgotten."""
    found = []
    for digest, labels in zip(digests, photos.labels_of(digests), strict=True):
        status: Status = "bad" if digest in lost else "forgotten" if labels else "unknown"
        found.append(
            PhotoOutcome(digest.hex(), labels[0] if labels else None, status, error=lost.get(digest))
        )
    return found
