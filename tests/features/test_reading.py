"""Which cache images are read with."""

from __future__ import annotations

from pathlib import Path

import pytest

from layup.features import FeatureCache, NoCache, Reading, cache_of


def test_a_cache_is_used_unless_it_is_turned_off(own_cache: Path, tmp_path: Path) -> None:
    own = FeatureCache(tmp_path)
    assert cache_of({"cache": own}) is own
    off = NoCache()
    assert cache_of({"cache": off}) is off
    assert isinstance(cache_of({"cache": False}), NoCache)
    for reading in (Reading(), Reading(cache=True), Reading(workers=2)):
        found = cache_of(reading)
        assert isinstance(found, FeatureCache)
        assert found.path.parent == own_cache


@pytest.mark.parametrize("name", ["cache", "workers", "progress"])
def test_what_can_be_said_about_reading(name: str) -> None:
    assert name in Reading.__annotations__
