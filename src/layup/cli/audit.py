"""`layup audit`: every photo judged by all the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layup import storage
from layup.cli import console, judgements
from layup.cli.app import app
from layup.cli.files import labelled, loaded_model, require_model, require_model_first
from layup.cli.options import AllowBackbone, AsJson, Model, NoCache, Photos, Weights, Workers


@app.command()
def audit(
    model: Model,
    photos: Photos,
    sheet: Annotated[
        Path | None,
        typer.Option(help="A picture of the 36 labels that are most probably wrong.", metavar="FILE.png"),
    ] = None,
    move: Annotated[
        Path | None,
        typer.Option(
            help="A list of all photos, with the suggested labels: look through it, then "
            "`layup sync FILE.csv --to MODEL` applies it.",
            metavar="FILE.csv",
        ),
    ] = None,
    as_json: AsJson = False,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Judge every learned photo by all the others: wrong labels, near-duplicates, classes that need more.

    layup audit m.layup photos/            the photos that the model was taught
    layup audit m.layup photos/ --sheet suspects.png
    layup audit m.layup photos/ --move labels.csv
    layup sync labels.csv --to m.layup     after you have looked through it

    Each photo is predicted by the model without it, so that a wrong label cannot
    speak for itself. Nothing is changed. A suggested label is a guess: photos
    that are hard to tell apart are listed as well, the surest come first.
    """
    require_model_first("audit", model, photos)
    require_model(model)
    judgements.require_files(sheet, move)
    paths, labels = labelled(photos)
    loaded = loaded_model(model, weights, allow_backbone, cache=not no_cache, workers=workers)
    found = loaded.audit(paths, labels)
    if move is not None:
        storage.write_text(move, judgements.manifest(found, paths, labels))
    if sheet is not None:
        from layup.benchmark import plots

        plots.contact_sheet(sheet, judgements.mistakes(found, paths), plots.SUSPECT)
    if as_json:
        files = {"sheet": sheet, "move": move}
        named = {name: None if path is None else str(path) for name, path in files.items()}
        console.print_json({**found.to_dict(paths), **named})
    else:
        judgements.report(found, paths)
        judgements.report_files(found, model, sheet, move)
    judgements.report_left_out(found, paths)
