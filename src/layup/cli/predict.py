"""`layup predict`: the classes of photos."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layup.cli import console
from layup.cli.app import app
from layup.cli.files import loaded_model, require_model, require_model_first, require_usable
from layup.cli.lines import predict_lines
from layup.cli.options import AllowBackbone, AsJson, Model, NoCache, Strict, Weights, Workers
from layup.errors import InputError

STANDARD_INPUT = Path("-")


@app.command()
def predict(
    model: Model,
    images: Annotated[
        list[Path],
        typer.Argument(
            help="Image files, folders, zip or tar archives, lists of paths (CSV, JSONL, Parquet); or - to "
            "read paths from standard input.",
            metavar="IMAGES",
        ),
    ],
    as_json: AsJson = False,
    as_csv: Annotated[
        bool,
        typer.Option(
            "--csv",
            help="Print CSV instead of a table: path, label, confidence, unknown, none_of_these, score, "
            "second, margin. Names that begin with =, +, - or @ get a ' in front.",
        ),
    ] = False,
    scores: Annotated[
        bool, typer.Option("--scores", help="With --csv, --json or -: the scores of all classes, too.")
    ] = False,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Also the set of labels that holds the truth this often, such as 0.95.", metavar="SHARE"
        ),
    ] = None,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    strict: Strict = False,
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Predict the classes of photos.

    layup predict m.layup a.jpg b.jpg
    layup predict m.layup holiday.zip --csv > labels.csv
    layup predict m.layup a.jpg --json     confidence from 0 to 1, scores, …
    layup predict m.layup a.jpg --coverage 0.95
    layup predict m.layup -                paths in, JSON out, line by line

    The confidence says how often such a prediction is right, for photos like
    those that were learned, if it is of any known class. A photo that is probably
    of none of them is marked as unknown, with how probable that is. Both were
    measured when the model learned, by judging each photo without itself; with
    few photos they are rules of thumb.
    """
    require_model_first("predict", model, *images)
    if as_json and as_csv:
        raise InputError("Give --json or --csv, not both.")
    if scores and not (as_json or as_csv or STANDARD_INPUT in images):
        raise InputError("The scores of all classes do not fit into a table. Give --csv or --json as well.")
    require_model(model)
    details = console.PredictionDetails(scores, coverage)
    if STANDARD_INPUT in images:
        if len(images) > 1 or as_csv or strict:
            raise InputError(
                "With -, each line gets a JSON object. Leave other images, --csv and --strict out."
            )
        predict_lines(
            loaded_model(model, weights, allow_backbone, cache=not no_cache, workers=0, progress=False),
            details,
        )
        return
    from layup.images import unlabelled_photos

    photos = [photo for each in images for photo in unlabelled_photos(each)]
    reading = {"cache": not no_cache, "workers": workers}
    found = loaded_model(model, weights, allow_backbone, **reading).predictions(photos)
    require_usable(found, photos, strict)
    style = "json" if as_json else "csv" if as_csv else "table"
    console.predictions([photos[i] for i in found.kept], found, style, details)
    console.report_bad(found.bad, photos)
