"""`layup evaluate`: how often a model is right, and where it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layup import storage
from layup.cli import console, findings
from layup.cli.app import app
from layup.cli.files import (
    here,
    labelled,
    predicted,
    predictor,
    require_model_first,
    require_predictor,
    require_usable,
)
from layup.cli.options import (
    Address,
    AllowAddresses,
    AllowBackbone,
    AsJson,
    LabelColumn,
    NoCache,
    Photos,
    Ray,
    Root,
    SharedModel,
    Strict,
    Weights,
    Workers,
    cluster_of,
)


@app.command()
def evaluate(
    model: SharedModel,
    photos: Photos,
    picture: Annotated[
        Path | None, typer.Option(help="File for the confusion matrix. Default: next to the model.")
    ] = None,
    wrong: Annotated[
        Path | None,
        typer.Option(
            help="A CSV file for all wrong photos, the most confident mistakes first. Next to it, a picture "
            "with the same name (wrong.csv: wrong.png) shows the worst 36.",
            metavar="FILE.csv",
        ),
    ] = None,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="Leave out photos that the model has learned.")
    ] = False,
    label: LabelColumn = None,
    root: Root = None,
    as_json: AsJson = False,
    ray: Ray = False,
    address: Address = None,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    allow_addresses: AllowAddresses = False,
    strict: Strict = False,
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Measure accuracy on photos that a model has not learned, and show what it confuses.

    layup evaluate m.layup test-photos/    test-photos/CLASS/*.jpg
    layup evaluate m.layup test-photos/ --wrong wrong.csv
    layup evaluate m.layup photos/ --unseen
    layup evaluate hf:user/name photos/    a model on the Hugging Face hub
    layup evaluate m.layup photos/ --ray   on all processors
    """
    require_model_first("evaluate", model, photos)
    source = here(model)
    require_predictor(source)
    cluster = cluster_of(ray, address, allow_addresses)
    paths, labels = labelled(photos, allow_addresses, label, root)
    from layup.benchmark import Evaluation, mistakes_csv, plots

    files = findings.outputs(model if source is model else Path(model.name), picture, wrong)
    reading = {"cache": not no_cache, "workers": workers}
    loading = {"weights": weights, "allow_backbone": allow_backbone, **reading}
    loaded = predictor(source, weights, allow_backbone, **reading)
    tested = findings.chosen(loaded, paths, labels, unseen)
    seen = predicted(loaded, source, tested.photos, cluster, loading)
    require_usable(seen, tested.photos, strict)
    found = Evaluation(tested.photos, tested.labels, seen)
    plots.confusion_matrix(files.picture, *found.confusion)
    if files.wrong is not None:
        storage.write_text(files.wrong, mistakes_csv(found.mistakes))
    if files.sheet is not None:
        plots.contact_sheet(files.sheet, found.mistakes)
    if as_json:
        console.print_json({**found.to_dict(), "learned": tested.learned, **files.to_dict()})
    else:
        findings.report(found, files)
    findings.report_unknown(found.unknown)
    console.report_bad(seen.bad, tested.photos)
