"""How images are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

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


def in_a_pool(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of loading for one worker of many: it shows no bar, and decodes by itself, unless told.

    >>> in_a_pool({"cache": False, "workers": None})
    {'workers': 0, 'cache': False, 'progress': False}
    """
    given = {name: value for name, value in options.items() if value is not None}
    return {"workers": 0, **given, "progress": False}
