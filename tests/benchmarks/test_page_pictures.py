"""The drawings that the pictures of the page show."""

from __future__ import annotations

import io

import pytest
from PIL import Image

pytest.importorskip("playwright", reason="Playwright drives the browser: it is missing.")

from benchmarks import page_pictures


@pytest.mark.parametrize(
    "draw", [page_pictures.house, page_pictures.sun, page_pictures.tree, page_pictures.boat]
)
def test_drawings_are_all_different_and_always_the_same(draw) -> None:
    first, again, others = (page_pictures.drawings(draw, 3, seed) for seed in (0, 0, 1))
    assert first == again
    files = [each["buffer"] for each in (*first, *others)]
    assert len({*files}) == 6
    assert {Image.open(io.BytesIO(file)).size for file in files} == {(224, 224)}
