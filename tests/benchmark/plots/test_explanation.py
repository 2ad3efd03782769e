"""A picture of an explanation: nothing overlaps, names are as they are, colours mean what they say."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from layup.benchmark import plots
from layup.model import Explanation, Heat, Part

explanation = import_module("layup.benchmark.plots.explanation")  # not the function of this name

LONG = "a bird whose name is much longer than that of any other bird"


def grey(width=160, height=120):
    return Image.new("RGB", (width, height), "grey")


def explained(layers=6, label="cat", second="dog", heat=True):
    drops = np.full((8, 8), -0.1)
    drops[:4, :4] = 0.4
    parts = tuple(Part(f"blocks.{i}", 0.1 * i, -0.05 * i) for i in range(layers))
    return Explanation(
        label, second, 1.5, -0.75, parts, Heat(drops, (20.0, 0.0, 140.0, 120.0)) if heat else None
    )


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were drawn, laid out as their files are."""
    figures = []
    keep = explanation.save

    def save(figure, path, **options):
        keep(figure, path, **options)
        figures.append(figure)

    monkeypatch.setattr(explanation, "save", save)
    return figures


@pytest.mark.slow
@pytest.mark.parametrize("size", [(160, 120), (60, 200), (400, 60)])
@pytest.mark.parametrize(("layers", "name"), [(1, "cat"), (24, LONG)])
def test_nothing_overlaps_and_nothing_is_cut_off(tmp_path, drawn, size, layers, name):
    found = explained(layers, f"{name} 1", f"{name} 2")
    plots.explanation(tmp_path / "p.png", grey(*size), found)
    figure = drawn[0]
    panels = [axes.get_tightbbox() for axes in figure.axes]
    assert len(panels) == 3
    assert all(left.x1 <= right.x0 for left, right in pairwise(panels))
    names = [label.get_window_extent() for label in figure.axes[2].get_yticklabels()]
    assert all(above.y0 >= below.y1 for above, below in pairwise(names))
    legend, title = figure.legends[0].get_window_extent(), figure._suptitle.get_window_extent()
    assert max(legend.y1, 0) <= min(box.y0 for box in panels)
    assert title.y0 >= max(box.y1 for box in panels)
    seen = np.asarray(Image.open(tmp_path / "p.png").convert("RGB"))
    for edge in (seen[0], seen[-1], seen[:, 0], seen[:, -1]):
        assert (edge == 255).all()


def test_warm_is_what_speaks_for_the_label_and_cold_for_the_next():
    tints = explanation._tinted(np.array([[1.0, -0.5, 0.0]]), 0.2)
    assert tints[0, 0].tolist() == pytest.approx([*to_rgb(explanation.LABEL), explanation.STRONGEST])
    assert tints[0, 1].tolist() == pytest.approx([*to_rgb(explanation.SECOND), explanation.STRONGEST / 2])
    assert tints[0, 2, 3] == 0
    assert explanation._tinted(np.array([[0.1]]), 0.2)[0, 0, 3] == explanation.STRONGEST / 2


@pytest.mark.parametrize(
    ("found", "panels"),
    [
        (explained(heat=False), 2),
        (Explanation("cat", "dog", 0.5, 0.1, None, explained().heat), 2),
        (Explanation("cat", None, 0.0, 0.0, None, None), 1),
        (explained(label="$x^2$", second="a\x1b[2J"), 3),
    ],
    ids=["no heat", "not linear", "one class", "odd names"],
)
def test_what_is_missing_is_left_out(tmp_path, drawn, found, panels):
    plots.explanation(tmp_path / "p.svg", grey(), found)
    assert len(drawn[0].axes) == panels
    assert bool(drawn[0].legends) == (found.second is not None)
