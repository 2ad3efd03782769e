"""Wrong photos are seen on their sheet: upright, in their order, with names that have room."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
from PIL import Image

from layup.benchmark import Mistake, plots
from layup.benchmark.plots.contact_sheet import CAPTION, GAP, HEAD, SIDE
from layup.errors import InputError, StorageError

COLOURS = ["red", "lime", "blue", "yellow", "magenta", "cyan"]


def mistake(image, truth="dog", predicted="cat"):
    return Mistake(image, truth, predicted, 0.75, 0.25)


def plain(colour, size=(64, 48)):
    return Image.new("RGB", size, colour)


def sheet_of(tmp_path, mistakes, **options):
    plots.contact_sheet(tmp_path / "wrong.png", mistakes, **options)
    with Image.open(tmp_path / "wrong.png") as picture:
        assert picture.format == "PNG"
        picture.load()
        return picture


def middle(number, columns=6):
    """The middle of a photo's square."""
    row, column = divmod(number, columns)
    x = GAP + column * (SIDE + GAP) + SIDE // 2
    return x, HEAD + row * (SIDE + CAPTION + GAP) + SIDE // 2


def test_the_first_36_photos_in_their_order(tmp_path):
    wrong = [mistake(plain(COLOURS[i * i % 5])) for i in range(50)]
    seen = sheet_of(tmp_path, wrong)
    for i in range(36):
        assert seen.getpixel(middle(i)) == Image.new("RGB", (1, 1), COLOURS[i * i % 5]).getpixel((0, 0))
    assert seen.size == sheet_of(tmp_path, wrong[:36]).size


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_few_photos_make_a_small_sheet(count, tmp_path):
    seen = sheet_of(tmp_path, [mistake(plain("red"))] * count)
    columns = min(6, max(3, count))
    assert seen.width == GAP + columns * (SIDE + GAP)
    assert sum(seen.getpixel(middle(i, columns)) == (255, 0, 0) for i in range(count)) == count
    assert np.asarray(seen).min() < 100  # it is entitled


def test_photos_are_upright_and_keep_their_shape(tmp_path):
    """A tall photo, red above and blue below, that a camera held sideways has stored lying."""
    tall = Image.new("RGB", (40, 80), "blue")
    tall.paste("red", (0, 0, 40, 40))
    exif = Image.Exif()
    exif[0x0112] = 6
    tall.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "lying.png", exif=exif)
    seen = sheet_of(tmp_path, [mistake(tmp_path / "lying.png")])
    x, y = middle(0)
    quarter = SIDE // 4
    assert seen.getpixel((x, y - quarter)) == (255, 0, 0)
    assert seen.getpixel((x, y + quarter)) == (0, 0, 255)
    assert seen.getpixel((x - quarter - 8, y)) == seen.getpixel((x + quarter + 8, y)) == (241, 241, 241)


@pytest.mark.parametrize("size", [(1, 5000), (5000, 1), (1, 1), (3000, 2000)])
def test_photos_of_any_shape(size, tmp_path):
    seen = sheet_of(tmp_path, [mistake(plain("red", size))])
    x, y = middle(0)
    assert (255, 0, 0) in {seen.getpixel((x + dx, y + dy)) for dx in (-1, 0) for dy in (-1, 0)}


def test_everything_that_can_be_opened_can_be_shown(tmp_path):
    content = io.BytesIO()
    plain("red").save(content, "PNG")
    (tmp_path / "a.png").write_bytes(content.getvalue())
    array = np.zeros((8, 8, 3), np.uint8)
    array[..., 0] = 255
    sources = [tmp_path / "a.png", str(tmp_path / "a.png"), content, content.getvalue(), array, plain("red")]
    seen = sheet_of(tmp_path, [mistake(source) for source in sources])
    assert [seen.getpixel(middle(i)) for i in range(6)] == [(255, 0, 0)] * 6


def test_a_photo_that_is_gone_leaves_a_note(tmp_path):
    seen = sheet_of(tmp_path, [mistake(tmp_path / "gone.png"), mistake(plain("red"))])
    assert seen.getpixel(middle(1, 3)) == (255, 0, 0)
    square = np.asarray(seen)[HEAD : HEAD + SIDE, GAP : GAP + SIDE]
    assert (square == 241).mean() > 0.5
    assert square.min() < 150


NAMES = [
    "x" * 400,
    "W" * 60,
    "日本" * 30,
    "שלום",
    "👩‍👩‍👧",
    "a\x07b\x1b[2J",
    "two\nlines",
    "caf\udce9",
    "$x$ [b]",
]


def test_names_stay_below_their_photo(tmp_path):
    """Between the photos there is nothing but paper, however long names are."""
    with warnings.catch_warnings(action="error"):
        seen = sheet_of(tmp_path, [mistake(plain("red"), name, name) for name in NAMES])
    below = np.asarray(seen)[HEAD:]
    for column in range(7):
        start = column * (SIDE + GAP)
        assert (below[:, start + 2 : start + GAP - 2] == 255).all()


def test_names_make_a_difference(tmp_path):
    one = sheet_of(tmp_path, [mistake(plain("red"), "dog", "cat")])
    assert one != sheet_of(tmp_path, [mistake(plain("red"), "dog", "cow")])
    assert one != sheet_of(tmp_path, [mistake(plain("red"), "elk", "cat")])


@pytest.mark.parametrize("count", [0, 1, 2])
def test_labels_that_an_audit_doubts_are_not_called_truth(tmp_path, count):
    both = [mistake(plain("red"))] * count
    as_mistakes, as_suspects = sheet_of(tmp_path, both), sheet_of(tmp_path, both, wording=plots.SUSPECT)
    assert as_mistakes.size == as_suspects.size
    assert as_mistakes != as_suspects


def test_what_cannot_be_written_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match=r"must end with \.png"):
        plots.contact_sheet(tmp_path / "wrong.jpg", [])
    with pytest.raises(StorageError, match="nowhere"):
        plots.contact_sheet(tmp_path / "nowhere" / "wrong.png", [])
    assert list(tmp_path.iterdir()) == []
