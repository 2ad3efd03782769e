"""`layup forget`: photos that a model is to be free of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from unicodedata import normalize

import typer

from layup.cli import console, reports
from layup.cli.app import app
from layup.cli.files import changed_model, loaded_model, require_model_first, unlabelled
from layup.cli.options import AllowBackbone, Model, NoCache, Strict, Weights, Workers
from layup.errors import InputError
from layup.formats import plural

if TYPE_CHECKING:
    from layup.model import BatchReport, ImageModel


@app.command()
def forget(
    model: Model,
    photos: Annotated[
        list[Path] | None, typer.Argument(help="Photos, or folders of them.", metavar="[PHOTOS]...")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--class", help="Forget this class, without its photos.", metavar="NAME")
    ] = None,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    strict: Strict = False,
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Forget photos exactly: the model's sums become what they would be without these photos.

    layup forget m.layup withdrawn/        all photos in it, of any class
    layup forget m.layup a.jpg b.jpg
    layup forget m.layup --class tabby     a whole class, without its photos

    A photo that was never learned is refused. λ stays as it is. A class that
    has no photos left disappears. The cached features of these photos are
    deleted.
    """
    require_model_first("forget", model, *(photos or []))
    if (name is None) == (not photos):
        raise InputError("Give the photos to forget, or a class: one of the two.")
    paths = unlabelled(photos or [])
    with changed_model(model):
        loaded = loaded_model(model, weights, allow_backbone, cache=not no_cache, workers=workers)
        done = (
            loaded.forget_class(normalize("NFC", name))
            if name is not None
            else loaded.forget(paths, strict=strict)
        )
        loaded.expect()
        loaded.save(model)
    reports.batch(done, loaded, paths)
    reports.saved(model, loaded)
    _say_what_stays(done, loaded)


def _say_what_stays(done: BatchReport, model: ImageModel) -> None:
    """What forgetting cannot undo."""
    if not done.exact:
        why = "the cache does not have them all"
        if model.photos is None:
            why = "an anonymous model cannot tell which photos they are of"
        console.remark(
            "The prototype and the count of the class are gone. But the Gram matrix still holds its "
            f"{plural(sum(done.forgotten.values()), 'photo')}, as photos of no class: to subtract them, "
            f"their features are needed, and {why}. A model made with --per-class does not need them."
        )
    if model.classifier_.chosen().get("lambda") is not None:
        console.say(f"λ is kept: {model.lambda_:g}. What was forgotten may have had a part in choosing it.")
    if model.network.adapted:
        console.remark(
            "The network was tuned to the first photos that this model learned: that cannot be forgotten. "
            "If these were among them, only a new model without them is completely free of them."
        )
