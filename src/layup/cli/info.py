"""`layup info`: what a model file holds."""

from __future__ import annotations

from layup.cli import console, reports
from layup.cli.app import app
from layup.cli.files import require_model
from layup.cli.options import AsJson, Model


@app.command()
def info(model: Model, as_json: AsJson = False) -> None:
    """Check a model file, and show what it holds. Its network is not loaded.

    layup info m.layup
    layup info m.layup --json              also photos per class
    """
    require_model(model)
    from layup.model import Entry, last_expected, read_model, state_hash

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
