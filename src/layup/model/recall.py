"""Photos that a model knows but that are not at hand: their features, as far as the cache has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from layup.features import FeatureCache, FeatureSource, NoCache, Rows
from layup.model.known import KnownPhotos, Numbers
from layup.model.log import Entry

TOGETHER = 1024
"""Photos whose features are held at a time."""


@dataclass(frozen=True)
class Recalled:
    """The rows of photos whose features were found, the digests of these, and the rows of the others."""

    rows: Numbers
    digests: list[bytes]
    lost: Numbers


def recall(
    photos: KnownPhotos,
    rows: Numbers,
    source: Callable[[], FeatureSource],
    cache: FeatureCache | NoCache,
    take: Callable[[Rows, list[str]], object],
) -> Recalled:
    """Hand over the features and labels of these photos, as far as the cache has them, part by part.

    source: makes what reads features; it is not asked for where the cache has none of them.
    """
    found: list[bool] = []
    digests: list[bytes] = []
    for start in range(0, len(rows), TOGETHER):
        part = rows[start : start + TOGETHER]
        beginnings = photos.digests_at(part)
        whole = cache.completed(beginnings)
        features = source().recall([*whole.values()]) if whole else {}
        there = [whole.get(each) in features for each in beginnings]
        have = [whole[each] for each, is_there in zip(beginnings, there, strict=True) if is_there]
        if have:
            take(np.stack([features[digest] for digest in have]), photos.labels_at(part[there]))
        found += there
        digests += have
    there_all = np.array(found, bool)
    return Recalled(rows[there_all], digests, rows[~there_all])


def named(
    photos: KnownPhotos, rows: Numbers, cache: FeatureCache | NoCache, log: Sequence[Entry]
) -> list[str]:
    """Photos in words: where they were last seen, their class, and when they were learned."""
    digests = photos.digests_at(rows)
    paths = cache.paths_of(digests)
    known = zip(digests, photos.labels_at(rows), photos.batches_at(rows), strict=True)
    return [
        f"{paths.get(digest, 'a photo')} ({label}, learned {log[batch].date[:10]})"
        for digest, label, batch in known
    ]
