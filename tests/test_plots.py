"""Pictures are real, of a sensible size, and a path that cannot be written is a sentence."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image

from layup import plots
from layup.errors import StorageError

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


DRAWINGS = pytest.mark.parametrize(
    "draw", [draw_curves, draw_confusion, draw_first_session, draw_first_session_with_nothing_held_out]
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
    assert len(np.unique(seen.reshape(-1, 3), axis=0)) > 20


@DRAWINGS
def test_text_paths_and_other_formats(draw, tmp_path):
    draw(str(tmp_path / "p.svg"))
    assert "<svg" in (tmp_path / "p.svg").read_text()
    draw(str(tmp_path / "p.png"))
    pixels(tmp_path / "p.png")


@DRAWINGS
@pytest.mark.parametrize("place", ["file/p.png", "no such folder/p.png", "folder.png"])
def test_a_path_that_cannot_be_written(draw, place, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(StorageError, match=place):
        draw(tmp_path / place)


@DRAWINGS
def test_an_unknown_ending_is_a_sentence_and_leaves_nothing(draw, tmp_path):
    with pytest.raises(StorageError, match=r"p\.docx.*png"):
        draw(tmp_path / "p.docx")
    assert list(tmp_path.iterdir()) == []


@DRAWINGS
def test_the_same_numbers_give_the_same_picture(draw, tmp_path):
    draw(tmp_path / "a.png")
    draw(tmp_path / "b.png")
    np.testing.assert_array_equal(pixels(tmp_path / "a.png"), pixels(tmp_path / "b.png"))


def test_other_numbers_give_another_picture(tmp_path):
    plots.confusion_matrix(tmp_path / "a.png", ["cat", "dog"], np.array([[3, 1], [0, 4]]))
    plots.confusion_matrix(tmp_path / "b.png", ["cat", "dog"], np.array([[1, 3], [0, 4]]))
    assert not np.array_equal(pixels(tmp_path / "a.png"), pixels(tmp_path / "b.png"))


@pytest.mark.parametrize("count", [1, 30, 300])
def test_confusions_of_one_class_or_of_hundreds(count, tmp_path):
    labels = [f"class {i}" for i in range(count)]
    plots.confusion_matrix(tmp_path / "p.png", labels, np.eye(count, dtype=np.int64))
    assert max(pixels(tmp_path / "p.png").shape) < 4000


def test_a_class_without_images_has_an_empty_row(tmp_path):
    plots.confusion_matrix(tmp_path / "p.png", ["cat", "dog"], np.array([[0, 0], [1, 4]]))
    pixels(tmp_path / "p.png")


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
