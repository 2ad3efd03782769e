"""A confusion matrix can be read with any number of classes: its names are whole, and nothing is cut off."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from layup.benchmark import plots
from layup.benchmark.mistakes import confused_pairs
from layup.benchmark.plots import confusion
from layup.formats import printable

LONG = "the name of a bird that is longer than any other number "


def pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def mistaken(count, images=20, seed=0):
    """A table of predictions, most of which are right, of so many classes."""
    rng = np.random.default_rng(seed)
    shares = 4.0 * np.eye(count) + rng.random((count, count)) * (rng.random((count, count)) < 3 / count)
    return np.array([rng.multinomial(images, row / row.sum()) for row in shares])


@pytest.fixture
def drawn(monkeypatch):
    """The last figure that was drawn, laid out as its file is."""
    figures = []
    keep = confusion.save

    def save(figure, path, **options):
        keep(figure, path, **options)
        figures.append(figure)

    monkeypatch.setattr(confusion, "save", save)
    return figures


def boxes(figure):
    """Where the names along the axes of the matrix are, by axis: those of all classes that are named."""
    axes = max(
        figure.findobj(lambda each: hasattr(each, "get_xticklabels")), key=lambda each: each.bbox.height
    )
    return [
        [tick.label1.get_window_extent() for tick in axis.get_major_ticks()]
        for axis in (axes.xaxis, axes.yaxis)
    ]


@pytest.mark.parametrize(
    ("count", "name"),
    [
        pytest.param(3, "class ", id="3-short"),
        pytest.param(10, LONG, id="10-long"),
        pytest.param(41, "class ", id="41-short"),
        pytest.param(130, LONG, id="130-long", marks=pytest.mark.slow),
        pytest.param(3, LONG, id="3-long", marks=pytest.mark.slow),
        pytest.param(10, "class ", id="10-short", marks=pytest.mark.slow),
        pytest.param(41, LONG, id="41-long", marks=pytest.mark.slow),
        pytest.param(130, "class ", id="130-short", marks=pytest.mark.slow),
    ],
)
def test_names_are_on_the_picture_and_apart(count, name, tmp_path, drawn):
    labels = [f"{name}{i}" for i in range(count)]
    plots.confusion_matrix(tmp_path / "p.png", labels, mistaken(count), "A title")
    columns, rows = boxes(drawn[0])
    shown = min(count, confusion.MOST_CONFUSED if count > confusion.ALL_NAMED else count)
    assert len(rows) == shown
    assert all(left.x1 <= right.x0 for left, right in pairwise(columns))
    assert all(above.y0 >= below.y1 for above, below in pairwise(rows))
    seen = pixels(tmp_path / "p.png")
    assert max(seen.shape) < 3500
    for edge in (seen[0], seen[-1], seen[:, 0], seen[:, -1]):
        assert (edge == 255).all()


@pytest.mark.parametrize("count", [61, pytest.param(345, marks=pytest.mark.slow)])
def test_matrices_without_mistakes(count, tmp_path):
    labels = [f"class {i}" for i in range(count)]
    plots.confusion_matrix(tmp_path / "p.png", labels, np.eye(count, dtype=np.int64), "A title")
    seen = pixels(tmp_path / "p.png")
    assert max(seen.shape) < 2000
    for edge in (seen[0], seen[-1], seen[:, 0], seen[:, -1]):
        assert (edge == 255).all()


def words(path):
    """What is written on an SVG picture: Matplotlib leaves each text as a comment next to its letters."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(), flags=re.DOTALL)


def test_of_a_thousand_classes_the_most_confused_are_named(tmp_path):
    labels = [f"class {i:03d}" for i in range(1000)]
    table = 50 * np.eye(1000, dtype=np.int64)
    for i in range(100):
        table[i, i + 500] = 100 - i
    plots.confusion_matrix(tmp_path / "p.svg", labels, table)
    shown = words(tmp_path / "p.svg")
    for pair in confused_pairs(labels, table)[:30]:
        assert f"{pair.truth} → {pair.predicted}" in shown
        assert f"{pair.count} of {pair.of}" in shown
    named = {text for text in shown if text in labels}
    assert named == {f"class {i:03d}" for start in (0, 500) for i in range(start, start + 15)}
    assert any("All 1,000 classes" in text for text in shown)


@pytest.mark.slow
def test_the_matrix_of_the_most_confused_counts_the_others_too(tmp_path, drawn):
    count = 200
    table = mistaken(count, images=37)
    plots.confusion_matrix(tmp_path / "p.png", [f"class {i}" for i in range(count)], table)
    axes = max(
        drawn[0].findobj(lambda each: hasattr(each, "get_xticklabels")), key=lambda each: each.bbox.height
    )
    assert axes.get_xticklabels()[-1].get_text() == "all others"
    written = {}
    for text in axes.texts:
        written.setdefault(round(text.get_position()[1]), []).append(int(text.get_text()))
    assert {row: sum(numbers) for row, numbers in written.items()} == dict.fromkeys(range(30), 37)


def test_the_overview_has_all_images_in_its_squares(tmp_path, drawn):
    """700 classes: three share a row, and each row still adds up to one."""
    table = mistaken(700)
    plots.confusion_matrix(tmp_path / "p.png", [f"class {i}" for i in range(700)], table)
    images = [
        np.asarray(each.get_array()) for each in drawn[0].findobj(lambda e: hasattr(e, "get_interpolation"))
    ]
    overview = next(each for each in images if each.shape[0] > 200)
    assert overview.shape == (234, 234)
    np.testing.assert_allclose(overview.sum(axis=1), 1)
    assert overview[2, 5] == table[6:9, 15:18].sum() / table[6:9].sum()


def test_other_numbers_give_another_picture(tmp_path):
    plots.confusion_matrix(tmp_path / "a.png", ["cat", "dog"], np.array([[3, 1], [0, 4]]))
    plots.confusion_matrix(tmp_path / "b.png", ["cat", "dog"], np.array([[1, 3], [0, 4]]))
    assert not np.array_equal(pixels(tmp_path / "a.png"), pixels(tmp_path / "b.png"))


def test_a_class_without_images_has_an_empty_row(tmp_path, drawn):
    plots.confusion_matrix(tmp_path / "p.png", ["cat", "dog"], np.array([[0, 0], [1, 4]]))
    assert sorted(text.get_text() for text in drawn[0].axes[0].texts) == ["1", "4"]


def test_large_counts_have_room(tmp_path, drawn):
    plots.confusion_matrix(tmp_path / "p.png", [f"c{i}" for i in range(12)], np.full((12, 12), 123456))
    texts = [text.get_window_extent() for text in drawn[0].axes[0].texts]
    assert max(box.width for box in texts) < drawn[0].axes[0].bbox.width / 12


@pytest.mark.parametrize("count", [5, pytest.param(150, marks=pytest.mark.slow)])
def test_names_of_all_kinds(count, tmp_path):
    odd = [r"$\frac{", "日本", "שלום", "👩‍👩‍👧", "a\x07b\x1b[2J", "two\nlines", "caf\udce9", "_x"]
    labels = [f"{odd[i % len(odd)]}{i}" for i in range(count)]
    with warnings.catch_warnings(action="error"):
        plots.confusion_matrix(tmp_path / "p.png", labels, mistaken(count))
        plots.confusion_matrix(tmp_path / "p.svg", labels, mistaken(count))
    if count == 5:
        assert {printable(label) for label in labels} <= set(words(tmp_path / "p.svg"))
