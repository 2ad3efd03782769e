"""A slice as it is read: the features of its photos, each once, and which are left out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layup import storage
from layup.features import Rows
from layup.images import described
from layup.model import ImageModel
from layup.sharding.plan import Plan

DIGEST = 16
"""Bytes of the digest of a photo that are kept."""
SKIP = "skip-{:05}.json"


@dataclass(frozen=True)
class Part:
    """Some photos of a slice: their features, labels, folds and digests, and why others cannot be used."""

    rows: Rows
    labels: list[str]
    folds: NDArray[np.int64]
    digests: list[bytes]
    bad: list[str]


def read_slice(plan: Plan, number: int, model: ImageModel) -> Iterator[Part]:
    """The photos of a slice, batch by batch, without those that were there already."""
    photos, folds = plan.photos(number), np.array(plan.folds(number))
    seen = set(skipped(plan, number))
    for found in model.extractor_.stream(photos.images, "Reading"):
        digests = [each[:DIGEST] for each in found.digests]
        new = []
        for turn, digest in enumerate(digests):
            if digest not in seen:
                seen.add(digest)
                new.append(turn)
        at = [found.kept[turn] for turn in new]
        yield Part(
            found.rows[new],
            [photos.labels[each] for each in at],
            folds[at],
            [digests[turn] for turn in new],
            [f"{described(photos.images[each.index])}: {each.reason}" for each in found.bad],
        )


def skipped(plan: Plan, number: int) -> frozenset[bytes]:
    """Digests of photos of a slice that another slice has as well: they are left out here."""
    path = plan.folder / SKIP.format(number)
    if not path.exists():
        return frozenset()
    try:
        return frozenset(bytes.fromhex(each) for each in json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise storage.damaged(path, str(error)) from error


def skip(plan: Plan, number: int, digests: set[bytes]) -> None:
    """Leave these photos out when the slice is computed again."""
    every = sorted(each.hex() for each in skipped(plan, number) | digests)
    storage.write_text(plan.folder / SKIP.format(number), json.dumps(every))


def skipped_hash(plan: Plan, number: int) -> str:
    """Hex SHA-256 of what is left out."""
    return hashlib.sha256(b"".join(sorted(skipped(plan, number)))).hexdigest()
