"""`layup predict`: the classes of photos."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layup.cli import console
from layup.cli.app import app
from layup.cli.fiftyone import fiftyone_labels
from layup.cli.files import (
    here,
    predicted,
    predictor,
    require_model_first,
    require_predictor,
    require_usable,
    unlabelled,
)
from layup.cli.lines import predict_lines
from layup.cli.options import (
    Address,
    AllowAddresses,
    AllowBackbone,
    AsJson,
    NoCache,
    Ray,
    Root,
    SharedModel,
    Strict,
    Weights,
    Workers,
    cluster_of,
)
from layup.errors import InputError

STANDARD_INPUT = Path("-")


@app.command()
def predict(
    model: SharedModel,
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
    as_fiftyone: Annotated[
        bool,
        typer.Option(
            "--fiftyone", help="Print the labels.json that FiftyOne reads, with confidence and logits."
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
    root: Root = None,
    ray: Ray = False,
    address: Address = None,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    allow_addresses: AllowAddresses = False,
    strict: Strict = False,
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Predict the classes of photos.

    layup predict m.layup a.jpg b.jpg
    layup predict m.layup holiday.zip --csv > labels.csv
    layup predict m.layup a.jpg --json     confidence from 0 to 1, scores, …
    layup predict m.layup a.jpg --coverage 0.95
    layup predict m.layup photos/ --fiftyone > labels.json
    layup predict m.layup photos/ --csv --ray    on all processors
    layup predict m.layup -                paths in, JSON out, line by line
    layup predict m.onnx a.jpg             what `layup export` wrote, without PyTorch

    The confidence says how often such a prediction is right, for photos like
    those that were learned, if it is of any known class. A photo that is probably
    of none of them is marked as unknown, with how probable that is. Both were
    measured when the model learned, by judging each photo without itself; with
    few photos they are rules of thumb.
    """
    require_model_first("predict", model, *images)
    if as_json + as_csv + as_fiftyone > 1:
        raise InputError("Give one of --json, --csv and --fiftyone.")
    if as_fiftyone and (scores or coverage is not None):
        raise InputError("FiftyOne's labels have all logits. Leave --scores and --coverage out.")
    if scores and not (as_json or as_csv or STANDARD_INPUT in images):
        raise InputError("The scores of all classes do not fit into a table. Give --csv or --json as well.")
    model = here(model)
    require_predictor(model)
    cluster = cluster_of(ray, address, allow_addresses)
    details = console.PredictionDetails(scores, coverage)
    if STANDARD_INPUT in images:
        if len(images) > 1 or as_csv or as_fiftyone or strict or cluster:
            raise InputError(
                "With -, each line gets a JSON object. Leave other images, --csv, --fiftyone, --strict and "
                "--ray out."
            )
        predict_lines(
            predictor(model, weights, allow_backbone, cache=not no_cache, workers=0, progress=False),
            details,
            allow_addresses,
        )
        return
    photos = unlabelled(images, allow_addresses, root)
    reading = {"cache": not no_cache, "workers": workers}
    loading = {"weights": weights, "allow_backbone": allow_backbone, **reading}
    loaded = predictor(model, weights, allow_backbone, **reading)
    found = predicted(loaded, model, photos, cluster, loading)
    require_usable(found, photos, strict)
    kept = [photos[i] for i in found.kept]
    if as_fiftyone:
        console.print_json(fiftyone_labels(kept, found))
    else:
        style = "json" if as_json else "csv" if as_csv else "table"
        console.predictions(kept, found, style, details)
    console.report_bad(found.bad, photos)
