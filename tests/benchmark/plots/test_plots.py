"""Pictures are real, of a sensible size, and a path that cannot be written is a sentence."""

from __future__ import annotations

import re
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from layup.benchmark import plots
from layup.benchmark.metrics import Band, band
from layup.errors import InputError, StorageError
from layup.formats import printable

SERIES = {"nearest mean": [1.0, 0.9, 0.8], "last layer": [1.0, 0.96, 0.95], "LayUP": [1.0, 0.99, 0.96]}


def draw_curves(path):
    plots.curves(path, SERIES, "Digits", "average accuracy")


def draw_confusion(path):
    plots.confusion_matrix(path, ["cat", "dog"], np.array([[3, 1], [0, 4]]))


def draw_first_session(path):
    epochs = [{"loss": 2.0, "accuracy": 0.5}, {"loss": 1.0, "accuracy": 0.75}, {"loss": 0.5, "accuracy": 0.7}]
    plots.first_session(path, epochs, kept=2)


def draw_first_session_with_nothing_held_out(path):
    plots.first_session(path, [{"loss": 2.0, "accuracy": None}], kept=1)


def some_bands(names, tasks=5, runs=3):
    rng = np.random.default_rng(0)
    return {name: band(rng.random((runs, tasks))) for name in names}


def draw_over_tasks(path):
    names = ["layup k=6", "nmc"]
    plots.over_tasks(path, {"accuracy": some_bands(names), "forgetting": some_bands(names)}, "Digits")


def draw_per_class_change(path):
    plots.per_class_change(path, {"cat": 0.5, "dog": 0.5, "eel": 1.0}, {"cat": 0.75, "dog": 0.5, "eel": 0.5})


def draw_speedups(path):
    plots.speedups(path, {"search": (30.0, 25.0, 41.0), "update": (0.5, 0.4, 0.7)}, "Times as fast")


def draw_growth(path):
    trend = plots.Trend([10, 20, 40, 80], [1.0, 2.0, 4.0, 8.0], 1.0, 3)
    flat = plots.Trend([1, 2, 4], [5.0, 5.1, 5.0], 0.0, 3)
    plots.growth(path, {"seconds": {"n": trend, "T": flat}, "megabytes": {"n": flat, "T": flat}})


DRAWINGS = pytest.mark.parametrize(
    "draw",
    [
        draw_curves,
        draw_confusion,
        draw_first_session,
        draw_first_session_with_nothing_held_out,
        draw_over_tasks,
        draw_per_class_change,
        draw_speedups,
        draw_growth,
    ],
)


def pixels(path):
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        return np.asarray(picture.convert("RGB"))


@DRAWINGS
def test_pictures_are_readable_and_not_blank(draw, tmp_path):
    draw(tmp_path / "p.png")
    seen = pixels(tmp_path / "p.png")
    height, width, _ = seen.shape
    assert 400 < height < 2000
    assert 400 < width < 2000
    assert Image.fromarray(seen).getcolors(20) is None  # more than that


@DRAWINGS
def test_text_paths_and_other_formats(draw, tmp_path):
    draw(str(tmp_path / "p.svg"))
    assert "<svg" in (tmp_path / "p.svg").read_text()


@DRAWINGS
@pytest.mark.parametrize(
    "target",
    [
        "no such folder/p.png",
        pytest.param("file/p.png", marks=pytest.mark.slow),
        pytest.param("folder.png", marks=pytest.mark.slow),
    ],
)
def test_a_path_that_cannot_be_written(draw, target, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(StorageError, match=target):
        draw(tmp_path / target)


@DRAWINGS
def test_an_unknown_ending_is_a_sentence_and_leaves_nothing(draw, tmp_path):
    with pytest.raises(StorageError, match=r"p\.docx.*png"):
        draw(tmp_path / "p.docx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@DRAWINGS
def test_the_same_numbers_give_the_same_picture(draw, tmp_path):
    draw(tmp_path / "a.png")
    draw(str(tmp_path / "b.png"))
    np.testing.assert_array_equal(pixels(tmp_path / "a.png"), pixels(tmp_path / "b.png"))


def test_labels_are_text_and_not_formulas(tmp_path):
    """Two dollar signs make a formula in Matplotlib, and a wrong one is an error there."""
    plots.confusion_matrix(tmp_path / "p.png", [r"$\x$", "100 % _x"], np.eye(2, dtype=np.int64))
    pixels(tmp_path / "p.png")
    plots.curves(tmp_path / "p.png", {r"$a_{$": [0.5]}, "One", "accuracy")
    pixels(tmp_path / "p.png")


def test_letters_that_the_font_lacks_are_no_reason_to_warn(tmp_path):
    plots.confusion_matrix(tmp_path / "p.png", ["käse", "日本"], np.eye(2, dtype=np.int64))
    pixels(tmp_path / "p.png")


def test_one_task_is_a_curve_too(tmp_path):
    plots.curves(tmp_path / "p.png", {"LayUP": [0.5]}, "One task", "accuracy")
    pixels(tmp_path / "p.png")


def test_more_methods_than_colours(tmp_path):
    """None may be left out without a word."""
    many = {f"method {i}": [1.0, 0.5 + i / 20] for i in range(8)}
    plots.curves(tmp_path / "many.png", many, "Many", "accuracy")
    plots.curves(tmp_path / "fewer.png", dict(list(many.items())[:7]), "Many", "accuracy")
    assert not np.array_equal(pixels(tmp_path / "many.png"), pixels(tmp_path / "fewer.png"))


def test_epochs_are_whole_numbers_even_if_there_is_one(tmp_path):
    draw_first_session_with_nothing_held_out(tmp_path / "p.svg")
    ticks = re.findall(r"<!-- (\d[\d.]*) -->", (tmp_path / "p.svg").read_text())
    assert ticks[0] == "1"


def words(path):
    """What is written on an SVG picture: Matplotlib leaves each text as a comment next to its letters."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(), flags=re.DOTALL)


# Over tasks


def test_every_method_is_named_however_many_there_are(tmp_path):
    names = [f"method {i}" for i in range(16)] + ["_hidden", r"$\x$"]
    plots.over_tasks(tmp_path / "p.svg", {"A": some_bands(names), "F": some_bands(names)}, "All")
    shown = words(tmp_path / "p.svg")
    assert [shown.count(name) for name in names if "$" not in name] == [1] * 17
    plots.over_tasks(tmp_path / "p.png", {"A": some_bands(names), "F": some_bands(names)}, "All")
    assert max(pixels(tmp_path / "p.png").shape) < 2000


def test_names_stay_on_the_picture_however_long_they_are(tmp_path):
    """The outermost pixels are blank: nothing is cut off at the edges."""
    names = [f"{'a long name ' * 12}{i}" for i in range(4)]
    plots.over_tasks(
        tmp_path / "p.png", {"A": some_bands(names), "F": some_bands(names)}, " and ".join(names)
    )
    seen = pixels(tmp_path / "p.png")
    for edge in (seen[0], seen[-1], seen[:, 0], seen[:, -1]):
        assert (edge == 255).all()


def test_the_shade_is_spoken_of_only_where_there_is_one(tmp_path):
    for runs, spoken in ((3, True), (1, False)):
        plots.over_tasks(tmp_path / "p.svg", {"A": some_bands(["x"], runs=runs)}, "One")
        assert any("standard error" in text for text in words(tmp_path / "p.svg")) == spoken
    plots.over_tasks(tmp_path / "p.svg", {"A": {**some_bands(["x"]), **some_bands(["y"], runs=1)}})
    assert any("standard error" in text for text in words(tmp_path / "p.svg"))


def test_what_is_undefined_is_left_blank(tmp_path):
    unknown = Band(np.array([np.nan, 0.1]), np.array([np.nan, np.nan]))
    nothing = Band(np.array([np.nan]), np.array([np.nan]))
    plots.over_tasks(tmp_path / "p.png", {"F": {"two tasks": unknown, "one task": nothing}})
    pixels(tmp_path / "p.png")


def test_a_picture_of_nothing_is_refused(tmp_path):
    for panels in ({}, {"A": {}}, {"A": some_bands(["x"]), "F": some_bands(["y"])}):
        with pytest.raises(InputError, match="the same methods in each"):
            plots.over_tasks(tmp_path / "p.png", panels)
    with pytest.raises(InputError, match="both before and after"):
        plots.per_class_change(tmp_path / "p.png", {"cat": 0.5}, {"dog": 0.5})


# Change of classes


def test_better_equal_and_worse_are_counted(tmp_path):
    before = {"cat": 0.5, "dog": 0.1 + 0.2, "eel": 1.0, "fox": 0.2, "only before": 0.5}
    after = {"cat": 0.75, "dog": 0.3, "eel": 0.5, "fox": 0.1, "only after": 0.5}  # 0.1 + 0.2 ≠ 0.3
    plots.per_class_change(tmp_path / "p.svg", before, after, "Change")
    shown = words(tmp_path / "p.svg")
    assert any("better: 1, equal: 1, worse: 2" in text for text in shown)
    assert [text for text in shown if text in after] == ["eel", "fox", "dog", "cat"]


def test_of_many_classes_the_extremes_are_named(tmp_path):
    before = {f"class {i:03d}": 0.5 for i in range(200)}
    after = {name: i / 199 for i, name in enumerate(before)}
    plots.per_class_change(tmp_path / "p.svg", before, after)
    shown = "\n".join(words(tmp_path / "p.svg"))
    assert {int(number) for number in re.findall(r"class (\d{3})", shown)} == {*range(8), *range(192, 200)}
    plots.per_class_change(tmp_path / "p.png", before, after, "a title that is long " * 20)
    seen = pixels(tmp_path / "p.png")
    for edge in (seen[0], seen[-1], seen[:, -1]):
        assert (edge == 255).all()


def test_long_names_are_cut_in_the_middle(tmp_path):
    name = "the first words of a very long name and the last"
    plots.per_class_change(tmp_path / "p.svg", {name: 0.5}, {name: 0.6})
    shown = [text for text in words(tmp_path / "p.svg") if "…" in text]
    assert len(shown) == 1
    assert shown[0].startswith("the first")
    assert shown[0].endswith("the last")


def test_lines_over_numbers_that_grow_by_factors(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("layup.benchmark.plots.runs.save", lambda figure, path: drawn.append(figure))
    series = {"nmc": Band(np.array([0.1, 0.2]), np.array([0.01, 0.02])), "_k": Band(np.zeros(2), np.zeros(2))}
    plots.lines(tmp_path / "l.png", [1, 100], series, "images", "accuracy")
    axes = drawn[0].axes[0]
    assert [line.get_xdata().tolist() for line in axes.lines] == [[1, 100]] * 2
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["nmc", "_k"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "100"]


def test_nothing_to_compare_or_to_grow_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match="no ratio"):
        plots.speedups(tmp_path / "p.png", {})
    with pytest.raises(InputError, match="no growth"):
        plots.growth(tmp_path / "p.png", {})


# Names from outside


ODD_NAMES = [
    r"$\frac{",
    "$x$",
    "%s",
    "_x",
    "y" * 400,
    "שלום",
    "👩‍👩‍👧",
    "a\x07b\x1b[2J",
    "two\nlines",
    "caf\udce9",
]


def comments(path):
    """What was written in a picture, which SVG keeps as comments; it has to be sound XML."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    return [each.text.strip() for each in ElementTree.parse(path, parser).iter(ElementTree.Comment)]


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize("chart", ["confusion", "change", "tasks"])
def test_names_are_drawn_as_they_are(chart, ending, tmp_path):
    path = tmp_path / f"p.{ending}"
    title = " ".join(name[:20] for name in ODD_NAMES)
    shares = dict.fromkeys(ODD_NAMES, 0.5)
    with warnings.catch_warnings(action="error"):
        if chart == "confusion":
            plots.confusion_matrix(path, ODD_NAMES, np.eye(len(ODD_NAMES), dtype=np.int64), title)
        elif chart == "change":
            plots.per_class_change(path, shares, shares, title)
        else:
            plots.over_tasks(path, {title: some_bands(ODD_NAMES)}, title)
    if ending == "svg":
        for name in ODD_NAMES:
            assert any(text.startswith(printable(name)[:13]) for text in comments(path)), name
