"""Photos that are not at hand: their features from the cache, part by part, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from layup.features import FeatureCache, FeatureSource, NoCache
from layup.features.cache import FileState
from layup.features.extract import Extraction
from layup.model import recall as recall_module
from layup.model.known import KnownPhotos
from layup.model.log import Entry
from layup.model.recall import named, recall

COUNT = 11
DIGESTS = [bytes([number]) * 32 for number in range(COUNT)]
LABELS = [f"class {number % 3}" for number in range(COUNT)]
PHOTOS = KnownPhotos().with_photos(DIGESTS, LABELS, batch=0)
LOG = [Entry("learn", date="2026-11-17T12:00:00+00:00")]


class Cached(FeatureSource):
    """Reads a cache of one number per photo."""

    layers: ClassVar = {"number": 1}
    cache: Any = None
    extractor: Any = None

    def __init__(self, cache: FeatureCache) -> None:
        self.cache = cache

    def reader(self, images: Sequence[Any]) -> Any:
        raise NotImplementedError

    def computed(self, reads: Sequence[Any]) -> list[Extraction]:
        raise NotImplementedError

    def rows_of(self, pixels: Any) -> Any:
        raise NotImplementedError

    def recall(self, digests: Sequence[bytes]) -> dict[bytes, Any]:
        return self.cache.get_many("net", digests)


@pytest.mark.parametrize("together", [1, 3, 1024])
def test_features_come_with_their_labels_and_what_is_lost_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(recall_module, "TOGETHER", together)
    cache = FeatureCache(tmp_path)
    there = [number for number in range(COUNT) if number not in (2, 3, 7)]
    cache.put_many("net", [DIGESTS[n] for n in there], np.array([[n] for n in there], np.float32))
    cache.put_many("other", [DIGESTS[2]], np.zeros((1, 1), np.float32))
    taken: list[tuple[float, str]] = []

    def take(features: Any, labels: list[str]) -> None:
        assert 0 < len(features) <= together
        taken.extend(zip(features[:, 0].tolist(), labels, strict=True))

    rows = np.array([9, 2, 0, 7, 4, 0])
    found = recall(PHOTOS, rows, lambda: Cached(cache), cache, take)
    assert found.rows.tolist() == [9, 0, 4, 0]
    assert found.lost.tolist() == [2, 7]
    assert found.digests == [DIGESTS[9], DIGESTS[0], DIGESTS[4], DIGESTS[0]]
    assert taken == [(9.0, LABELS[9]), (0.0, LABELS[0]), (4.0, LABELS[4]), (0.0, LABELS[0])]


@pytest.mark.parametrize("rows", [[], [1, 2]])
def test_no_reader_is_made_for_what_the_cache_does_not_have(tmp_path: Path, rows: list[int]) -> None:
    def refuse() -> FeatureSource:
        raise AssertionError("a network was loaded")

    for cache in (NoCache(), FeatureCache(tmp_path)):
        found = recall(PHOTOS, np.array(rows, np.int64), refuse, cache, lambda *_: None)
        assert (found.rows.tolist(), found.digests, found.lost.tolist()) == ([], [], rows)


def test_photos_are_named_by_where_they_were_last_seen(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path / "cache")
    cache.keep_file_digests({FileState(b"/photos/a cat.jpg", 1, 0, 0): DIGESTS[1]})
    rows = np.array([1, 5])
    assert named(PHOTOS, rows, cache, LOG) == [
        "/photos/a cat.jpg (class 1, learned 2026-11-17)",
        "a photo (class 2, learned 2026-11-17)",
    ]
    assert named(PHOTOS, rows[1:], NoCache(), LOG) == ["a photo (class 2, learned 2026-11-17)"]
