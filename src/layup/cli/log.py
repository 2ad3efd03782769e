"""`layup log`: what was done to a model."""

from __future__ import annotations

from layup.cli import console, reports
from layup.cli.app import app
from layup.cli.options import AsJson, Model


@app.command()
def log(model: Model, as_json: AsJson = False) -> None:
    """Show what was done to a model: every batch with its date, photos, classes and λ.

    layup log m.layup
    layup log m.layup --json
    """
    from layup.model import Entry, read_model

    header = read_model(model).header
    if as_json:
        console.print_json(header["log"])
    else:
        reports.log([Entry.from_dict(entry) for entry in header["log"]])
