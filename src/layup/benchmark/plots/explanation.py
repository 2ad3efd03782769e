"""Why a photo gets its label, as a picture: the photo, where in the photo, and what each layer says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from layup.benchmark.plots.canvas import INK, SAFE_COLOURS, SMALL, TEXT, bare, blank, cut, save, wrapped
from layup.formats import signed
from layup.images import ImageSource, open_image

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from layup.algebra import Floats
    from layup.model import Explanation, Heat, Part

SECOND, LABEL = SAFE_COLOURS[:2]
"""The colours of the next class, and of the label: warm is what speaks for it."""
EDGE, DASHES = SAFE_COLOURS[5], (0, (4, 3))
"""How the edge of what the network sees is drawn."""
WIDE = 3.4
"""Inches of a panel."""
LAYER = 0.34
"""Inches of a layer."""
SHARPEST = 800
"""Pixels of the longer side of the photo, at most: more do not show."""
FINE = 200
"""Numbers along each side of the heat map."""
STRONGEST = 0.8
"""How much of the photo the strongest colour covers."""
FAINT = 0.25
"""Where no part of the photo changes more than this share of the lead, all colours are faint."""
AROUND = 0.15
"""Inches around all that is drawn."""


def explanation(path: str | Path, image: ImageSource, found: Explanation) -> None:
    """Draw an explanation: warm colours speak for the label, cold ones for the next class.

    >>> import tempfile
    >>> from layup.model import Explanation, Part
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one = Explanation("cat", "dog", 0.5, -0.5, (Part("deep", 0.5, -0.5),), None)
    ...     explanation(f"{folder}/why.png", Image.new("RGB", (64, 48), "grey"), one)
    ...     open_image(f"{folder}/why.png").width > 500
    True
    """
    photo = open_image(image)
    panels = 1 + (found.heat is not None) + (found.parts is not None)
    figure = blank(WIDE * max(panels, 2), _height(photo, found))
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.12)  # a little below the summary
    columns = iter(figure.subplots(1, panels, squeeze=False)[0])
    _draw_photo(next(columns), photo, "The photo")
    if found.heat is not None:
        _draw_heat(next(columns), photo, found.heat, found.lead)
    if found.parts is not None:
        _draw_parts(next(columns), found.parts)
    _write(figure, found)
    save(figure, path, around=AROUND)


def _height(photo: Image.Image, found: Explanation) -> float:
    """Inches in which the photo has room, and all layers."""
    layers = 0 if found.parts is None else len(found.parts)
    return max(min(WIDE * photo.height / photo.width, 1.3 * WIDE), LAYER * layers + 0.8) + 0.9


def _draw_photo(axes: Axes, photo: Image.Image, title: str, *, grey: bool = False) -> None:
    """Draw the photo in its own pixels."""
    shown = photo.convert("L" if grey else "RGB")
    shown.thumbnail((SHARPEST, SHARPEST))
    extent = (0, photo.width, photo.height, 0)
    axes.imshow(np.asarray(shown), cmap="gray", vmin=0, vmax=255, extent=extent)
    axes.set(xticks=[], yticks=[], anchor="N")  # all titles at one height
    for side in axes.spines.values():
        side.set_visible(False)
    _entitle(axes, title)


def _draw_heat(axes: Axes, photo: Image.Image, heat: Heat, lead: float) -> None:
    """Draw the heat map over the photo; what the network does not see has no colour."""
    _draw_photo(axes, photo, "Where in the photo", grey=True)
    left, top, right, bottom = heat.region
    drops = replace(heat, region=(0, 0, FINE, FINE)).over(FINE, FINE)
    axes.imshow(_tinted(drops, FAINT * lead), extent=(left, right, bottom, top), interpolation="bilinear")
    x, y = np.clip([left, right], 0, photo.width), np.clip([top, bottom], 0, photo.height)
    edge: dict[str, Any] = {"color": EDGE, "linewidth": 1.5, "linestyle": DASHES, "clip_on": False}
    axes.plot(x[[0, 1, 1, 0, 0]], y[[0, 0, 1, 1, 0]], **edge)
    axes.set(xlim=(0, photo.width), ylim=(photo.height, 0))
    axes.set_xlabel("strong colours: covered, the lead changes most", fontsize=SMALL, color=INK)


def _tinted(drops: Floats, least: float) -> Floats:
    """The colour of each number, the more opaque the further from zero; the scale is at least so long."""
    from matplotlib.colors import to_rgb

    strength = np.abs(drops) / (max(np.abs(drops).max(), least) or 1.0)
    colours = np.where(drops[..., None] > 0, to_rgb(LABEL), to_rgb(SECOND))
    return np.concatenate([colours, STRONGEST * strength[..., None]], axis=2)


def _draw_parts(axes: Axes, parts: tuple[Part, ...]) -> None:
    """Draw two bars per layer, and write what separates them next to these."""
    bare(axes)
    rows = np.arange(len(parts))
    axes.barh(rows - 0.19, [part.label for part in parts], 0.36, color=LABEL)
    axes.barh(rows + 0.19, [part.second for part in parts], 0.36, color=SECOND)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(rows, [cut(part.layer) for part in parts], fontsize=SMALL, parse_math=False)
    axes.set_ylim(len(parts) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=SMALL)
    axes.locator_params(axis="x", nbins=5)
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    for row, part in enumerate(parts):
        _beside(axes, signed(part.lead, 2), row)
    _beside(axes, "lead", -0.8)
    axes.set_xlabel("part of the score; 0 is the average class", fontsize=SMALL, color=INK)
    _entitle(axes, "What each layer says")


def _beside(axes: Axes, text: str, row: float) -> None:
    """Write a text at the right of the bars."""
    axes.annotate(
        text, (1.03, row), xycoords=("axes fraction", "data"), va="center", fontsize=SMALL, color=INK
    )


def _write(figure: Figure, found: Explanation) -> None:
    """Write the summary above, and what the colours mean below."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    title = wrapped(found.summary, figure.get_figwidth(), 14)
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=TEXT + 1, parse_math=False)
    if found.second is None:
        return
    keys: dict[str, Artist] = {f"speaks for {cut(found.label)}": Patch(color=LABEL)}
    keys[f"speaks for {cut(found.second)}"] = Patch(color=SECOND)
    if found.heat is not None:
        keys["what the network sees"] = Line2D([], [], color=EDGE, linestyle=DASHES)
    legend = figure.legend(
        list(keys.values()),
        list(keys),
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=TEXT,
        labelcolor=INK,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _entitle(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=TEXT, fontweight="bold")
