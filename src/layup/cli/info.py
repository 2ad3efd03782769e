"""`layup info`: what a model file holds."""

from __future__ import annotations

from dataclasses import asdict

from layup.cli import console, reports
from layup.cli.app import app
from layup.cli.files import here, require_predictor
from layup.cli.options import AsJson, SharedModel
from layup.model import is_onnx


@app.command()
def info(model: SharedModel, as_json: AsJson = False) -> None:
    """Check a model file, and show what it holds. Its network is not loaded, unless it is a part of it.

    layup info m.layup
    layup info m.layup --json              also photos per class
    layup info m.onnx                      what `layup export` wrote
    """
    model = here(model)
    require_predictor(model)
    if is_onnx(model):
        from layup.export import OnnxModel

        about = OnnxModel(model).about
        if as_json:
            console.print_json(asdict(about))
        else:
            console.graph_information(about, model)
        return
    from layup.model import (
        Entry,
        is_predict_only,
        last_expected,
        read_model,
        read_predict_only,
        state_hash,
    )

    if is_predict_only(model):
        header = read_predict_only(model).header
        if as_json:
            console.print_json(header)
        else:
            console.predict_only_information(header, model)
        return
    found = read_model(model)
    header = found.header
    learned = state_hash(header["backbone"]["fingerprint"], header["features"], found.sums)
    log = [Entry.from_dict(entry) for entry in header["log"]]
    expected = last_expected(log)
    if as_json:
        counts = dict(zip(header["labels"], header["counts"], strict=True))
        console.print_json({**header, "classes": counts, "expected": expected, "state_hash": learned})
    else:
        console.information(header, model, learned)
        reports.expectation(expected, log)
