"""Images are handed over with their turns; what is bad, or has changed meanwhile, is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from layup.errors import BadImageError
from layup.features import BadImage, FeatureSource, NoCache
from layup.features.extract import Extraction
from layup.model.visits import none_usable, visit


class Numbers(FeatureSource):
    """Images are numbers: their features are themselves, and negative ones are bad. Two per batch."""

    layers: ClassVar = {"number": 1}
    cache = NoCache()
    extractor: Any = None

    def reader(self, images: Sequence[Any]) -> Any:
        raise NotImplementedError

    def computed(self, reads: Sequence[Any]) -> list[Extraction]:
        raise NotImplementedError

    def stream(self, images: Sequence[Any], title: str = "") -> Iterator[Extraction]:
        for start in range(0, len(images), 2):
            part = range(start, min(start + 2, len(images)))
            kept = [index for index in part if images[index] >= 0]
            yield Extraction(
                np.array([[images[index]] for index in kept], np.float32).reshape(-1, 1),
                np.array(kept, np.int64),
                [digest(images[index]) for index in kept],
                [BadImage(index, f"{images[index]} is bad") for index in part if index not in kept],
                0,
            )

    def rows_of(self, pixels: Any) -> Any:
        raise NotImplementedError

    def recall(self, digests: Sequence[bytes]) -> dict[bytes, Any]:
        raise NotImplementedError


def digest(image: int) -> bytes:
    return b"%032d" % image


IMAGES = [5, -1, 7, 9, -2, 11]


def visited(indices: list[int], **options: Any) -> tuple[Any, list[tuple[int, float]]]:
    taken: list[tuple[int, float]] = []

    def take(rows: Any, turns: list[int]) -> None:
        taken.extend(zip(turns, rows[:, 0].tolist(), strict=True))

    return visit(Numbers(), IMAGES, indices, take, title="", **{"strict": False, **options}), taken


def test_turns_are_places_among_the_indices() -> None:
    seen, taken = visited([5, 1, 0, 3])
    assert taken == [(0, 11.0), (2, 5.0), (3, 9.0)]
    assert seen.turns == [0, 2, 3]
    assert seen.digests == [digest(11), digest(5), digest(9)]
    assert seen.bad == [BadImage(1, "-1 is bad")]  # by the index among all images


def test_strict_raises_at_the_first_bad_image() -> None:
    with pytest.raises(BadImageError, match="-1 is bad"):
        visited([0, 1, 4], strict=True)
    assert visited([0, 2], strict=True)[0].turns == [0, 1]


def test_what_has_changed_since_it_was_looked_at_is_bad() -> None:
    expected = [digest(11), None, digest(6), digest(9)]
    seen, taken = visited([5, 2, 0, 3], expected=expected)
    assert taken == [(0, 11.0), (3, 9.0)]
    assert seen.digests == [digest(11), digest(9)]
    assert [bad.index for bad in seen.bad] == [2, 0]
    assert all("it changed while it was read" in bad.reason for bad in seen.bad)
    with pytest.raises(BadImageError, match="changed"):
        visited([5, 2, 0, 3], expected=expected, strict=True)
    assert visited([0, 2], expected=[digest(5), digest(7)])[1] == [(0, 5.0), (1, 7.0)]


def test_the_error_for_nothing_usable_names_the_first_reason() -> None:
    assert str(none_usable(0, [])) == "None of the 0 given images can be used."
    assert "The first: it is bad" in str(none_usable(3, [BadImage(1, "it is bad"), BadImage(2, "no")]))
