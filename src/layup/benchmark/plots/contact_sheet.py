"""Photos on one sheet: each upright, with its label and what speaks against it below it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from layup import storage
from layup.benchmark.mistakes import Mistake
from layup.benchmark.plots.canvas import BETTER, INK, WORSE, cut
from layup.errors import BadImageError, InputError
from layup.images import ImageSource, open_image

COLUMNS = 6
WORST = COLUMNS * COLUMNS
"""How many photos a sheet shows."""
SIDE = 256
"""Pixels of the square that a photo has room in."""
GAP = 16
LINE = 20
"""Pixels from one line of text to the next."""
WORD = 72
"""Pixels of the word before a class."""
CAPTION = 3 * LINE + 4
HEAD = 44
GREY, PAPER, EMPTY = "#6b6b6b", "#ffffff", "#f1f1f1"
TEXT, SMALL, LEAST = 15, 12, 10
"""Pixels of letters."""


@dataclass(frozen=True)
class Wording:
    """What a sheet calls its photos: the label of each, what speaks against it, and all of them together."""

    label: str
    other: str
    none: str
    one: str
    many: str


WRONG = Wording(
    "truth",
    "predicted",
    "No photo is wrong.",
    "One photo is wrong.",
    "wrong photos, the most confident mistakes first",
)
SUSPECT = Wording(
    "label",
    "suggested",
    "No label is suspect.",
    "One label is probably wrong.",
    "labels that are probably wrong, the surest first",
)


def contact_sheet(path: str | Path, mistakes: Sequence[Mistake], wording: Wording = WRONG) -> None:
    """Draw the first 36 mistakes, with truth and prediction, to a PNG file. Costs one decoding per photo.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     grey = Image.new("RGB", (640, 480), "grey")
    ...     contact_sheet(f"{folder}/wrong.png", [Mistake(grey, "dog", "cat", 0.8, 0.1)])
    ...     open_image(f"{folder}/wrong.png").size
    (832, 396)
    """
    if Path(path).suffix.lower() != ".png":
        raise InputError(f"Cannot draw a contact sheet as '{path}': its name must end with .png.")
    content = io.BytesIO()
    _sheet(mistakes, wording).save(content, "PNG")
    storage.write_bytes(path, content.getvalue())


def _sheet(mistakes: Sequence[Mistake], wording: Wording) -> Image.Image:
    shown = mistakes[:WORST]
    columns = min(COLUMNS, max(3, len(shown)))
    rows = -(-len(shown) // columns)
    sheet = Image.new(
        "RGB", (GAP + columns * (SIDE + GAP), HEAD + rows * (SIDE + CAPTION + GAP) + GAP), PAPER
    )
    write = ImageDraw.Draw(sheet)
    headline = _headline(len(shown), len(mistakes), wording)
    _line(write, (GAP, 12), headline, _font(18, bold=True), INK, sheet.width - GAP)
    for number, mistake in enumerate(shown):
        row, column = divmod(number, columns)
        x, y = GAP + column * (SIDE + GAP), HEAD + row * (SIDE + CAPTION + GAP)
        write.rectangle((x, y, x + SIDE - 1, y + SIDE - 1), EMPTY)
        try:
            photo = _thumbnail(mistake.image)
            sheet.paste(photo, (x + (SIDE - photo.width) // 2, y + (SIDE - photo.height) // 2))
        except BadImageError:  # it was there when it was predicted
            _line(write, (x + 8, y + SIDE // 2), "can no longer be opened", _font(SMALL), GREY, x + SIDE)
        _caption(write, (x, y + SIDE + 4), mistake, number + 1, wording)
    return sheet


def _headline(shown: int, wrong: int, wording: Wording) -> str:
    if not wrong:
        return wording.none
    if wrong == 1:
        return wording.one
    some = f"{wrong}" if shown == wrong else f"{shown} of {wrong:,}"
    return f"{some} {wording.many}"


def _thumbnail(source: ImageSource) -> Image.Image:
    """The photo as large as the square has room for."""
    photo = open_image(source)
    scale = SIDE / max(photo.size)
    method = Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.BICUBIC
    return photo.resize((max(1, round(scale * photo.width)), max(1, round(scale * photo.height))), method)


def _caption(
    write: ImageDraw.ImageDraw, at: tuple[int, int], mistake: Mistake, number: int, wording: Wording
) -> None:
    x, y = at
    lines = ((wording.label, mistake.truth, BETTER), (wording.other, mistake.predicted, WORSE))
    for word, name, colour in lines:
        _line(write, (x, y + 2), word, _font(SMALL), GREY, x + SIDE)
        _line(write, (x + WORD, y), name, _fitting(name, SIDE - WORD), colour, x + SIDE)
        y += LINE
    score = f"score {mistake.score:.2f}"
    if mistake.truth_score is not None:
        score += f", {wording.label} {mistake.truth_score:.2f}"
    end = x + SIDE - _font(SMALL).getlength(score)
    _line(write, (x, y + 2), f"{number}. {_file_name(mistake.image)}", _font(SMALL), GREY, end - 8)
    write.text((end, y + 2), score, GREY, _font(SMALL))


def _fitting(text: str, width: int) -> ImageFont.FreeTypeFont:
    """The largest letters in which a text has room, down to those that can just be read."""
    shown, sizes = cut(text, len(text)), range(TEXT, LEAST, -1)
    return next((font for font in map(_font, sizes) if font.getlength(shown) <= width), _font(LEAST))


def _file_name(source: ImageSource) -> str:
    return str(source).replace("\\", "/").rsplit("/", 1)[-1]


def _line(
    write: ImageDraw.ImageDraw,
    at: tuple[float, float],
    text: str,
    font: ImageFont.FreeTypeFont,
    colour: str,
    end: float,
) -> None:
    """Write a text from a position up to `end`, with its middle left out if it is too long."""
    letters = len(text)
    while font.getlength(shown := cut(text, letters)) > end - at[0] and letters > 4:
        letters -= 1
    write.text(at, shown, colour, font)


@cache
def _font(pixels: int, *, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu, which comes with Matplotlib; letters that it lacks become boxes."""
    from matplotlib import get_data_path

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(get_data_path()) / "fonts" / "ttf" / name, pixels)
