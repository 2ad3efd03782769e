"""`layup undo`: take the last batch back."""

from __future__ import annotations

from layup.cli import reports
from layup.cli.app import app
from layup.cli.files import changed_model, loaded_model
from layup.cli.options import AllowBackbone, Model, Weights


@app.command()
def undo(model: Model, weights: Weights = None, allow_backbone: AllowBackbone = False) -> None:
    """Take the last batch back: the model becomes what it was before it, with its λ.

    layup undo m.layup

    The features of its photos come from the cache, so the photos are not needed.
    They stay in the cache, so learning them again is fast. What was forgotten,
    moved, renamed or merged cannot be undone.
    """
    with changed_model(model):
        loaded = loaded_model(model, weights, allow_backbone)
        done = loaded.undo()
        loaded.save(model)
    reports.batch(done, loaded, [])
    reports.saved(model, loaded)
