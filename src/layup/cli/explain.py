"""`layup explain`: why a photo gets its label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layup import storage
from layup.cli import console
from layup.cli.app import app
from layup.cli.files import here, loaded_predictor, require_model_first, require_predictor
from layup.cli.options import AllowBackbone, AsJson, NoCache, SharedModel, Weights
from layup.errors import InputError
from layup.formats import signed

if TYPE_CHECKING:
    from layup.model import Explanation

HALF = 10
"""Letters of the longest bar."""


@app.command()
def explain(
    model: SharedModel,
    photo: Annotated[Path, typer.Argument(help="One image file; also one in an archive.", metavar="PHOTO")],
    to: Annotated[
        Path | None,
        typer.Option(help="A picture of it: the photo, where in the photo, and what each layer says."),
    ] = None,
    no_heat: Annotated[
        bool,
        typer.Option("--no-heat", help="Leave out where in the photo, which takes 64 passes."),
    ] = False,
    as_json: AsJson = False,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    no_cache: NoCache = False,
) -> None:
    """Explain the label of a photo: which layers, and where in the photo.

    layup explain m.layup photo.jpg
    layup explain m.layup photo.jpg --to explanation.png

    A layer's part is how much more it speaks for a class than for the average
    class. What separates the label from the next class is the sum of the parts
    of the lead.
    """
    require_model_first("explain", model, photo)
    model = here(model)
    require_predictor(model)
    from layup.images import unlabelled_photos

    photos = unlabelled_photos(photo)
    if len(photos) != 1:
        raise InputError(f"'{photo}' has {len(photos):,} photos, and one is explained at a time. Name one.")
    from layup.benchmark import plots

    if to is not None:
        plots.require_ending(to)
        storage.require_writable(to)
    found = loaded_predictor(model, weights, allow_backbone, cache=not no_cache).explain(
        photos[0], heat=not no_heat
    )
    if to is not None:
        plots.explanation(to, photos[0], found)
    if as_json:
        console.print_json({"path": str(photos[0]), **found.to_dict(), "picture": to and str(to)})
        return
    _report(found)
    if to is not None:
        console.say(f"Picture: {to}")


def _report(found: Explanation) -> None:
    """What each layer says, as a table with bars, and all of it in words."""
    if found.parts is not None:
        largest = max(abs(part.lead) for part in found.parts) or 1.0
        rows = [
            [part.layer, _bar(part.lead / largest), signed(part.label, 3), signed(part.lead, 3)]
            for part in found.parts
        ]
        rows.append(["all together", "", signed(found.score, 3), signed(found.lead, 3)])
        headings = ["layer", "what separates the two", f"for {found.label}", f"lead over {found.second}"]
        console.table(headings, rows, texts=2)
    elif found.second is not None:
        console.say("The scores of this model are not sums over layers: what each of them says is not known.")
    console.say(found.summary)


def _bar(share: float) -> str:
    """A bar from the middle to the right; to the left, if it is below zero.

    >>> _bar(0.3), _bar(-0.2)
    ('          │███', '        ██│')
    """
    bar = "█" * round(HALF * abs(share))
    return f"{'':{HALF}}│{bar}" if share > 0 else f"{bar:>{HALF}}│"
