"""`layup suggest`: which photos to label next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layup.cli import console
from layup.cli.app import app
from layup.cli.files import loaded_model, require_model, require_model_first, unlabelled
from layup.cli.options import AllowBackbone, AsJson, Model, NoCache, Weights, Workers
from layup.formats import plural


@app.command()
def suggest(
    model: Model,
    photos: Annotated[
        list[Path],
        typer.Argument(
            help="Photos without labels: image files, folders, zip or tar archives, lists of paths.",
            metavar="UNLABELLED",
        ),
    ],
    count: Annotated[int, typer.Option(help="How many photos to suggest.", min=1)] = 20,
    as_json: AsJson = False,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Say which photos are worth labelling next: those that would teach the model most.

    layup suggest m.layup unlabelled/
    layup suggest m.layup unlabelled/ --count 50 --json

    The first photo teaches most; each next one teaches most after those before
    it. Photos that are nearly the same are suggested once, and photos that the
    model has learned not at all. The guess is what the model would say now.
    """
    require_model_first("suggest", model, *photos)
    require_model(model)
    paths = unlabelled(photos)
    loaded = loaded_model(model, weights, allow_backbone, cache=not no_cache, workers=workers)
    found = loaded.suggest(paths, count)
    if as_json:
        console.print_json(found.to_dict(paths))
    else:
        rows = [[str(paths[each.index]), each.guess, f"{each.margin:.2f}"] for each in found.photos]
        console.table(["photo, the most useful first", "guess", "margin"], rows, texts=2)
    if found.known:
        console.remark(f"Left out: {plural(found.known, 'photo')} that the model has learned already.")
    console.report_bad(found.bad, paths)
