"""How images are read."""

from __future__ import annotations

from typing import TypedDict

from layup.features.cache import FeatureCache, NoCache


class Reading(TypedDict, total=False):
    """How images are read. It never changes a prediction.

    cache: keep features on disk, so that an image passes through the network once (default: yes); or a cache.
    workers: number of processes that decode images (default: as needed).
    progress: show bars (default: when standard error is a terminal).
    """

    cache: FeatureCache | NoCache | bool
    workers: int | None
    progress: bool | None


def cache_of(reading: Reading) -> FeatureCache | NoCache:
    """The cache to read with."""
    cache = reading.get("cache", True)
    if isinstance(cache, bool):
        return FeatureCache() if cache else NoCache()
    return cache
