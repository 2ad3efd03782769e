"""`layup push`: a model for everyone, on the Hugging Face hub."""

from __future__ import annotations

from typing import Annotated

import typer

from layup.cli import console
from layup.cli.app import app
from layup.cli.files import loaded_predictor
from layup.cli.options import AllowBackbone, Model, Weights


@app.command()
def push(
    model: Model,
    repository: Annotated[
        str, typer.Argument(help="user/name on the hub; or a folder, such as ./name.", metavar="REPOSITORY")
    ],
    whole: Annotated[
        bool,
        typer.Option(
            "--whole", help="Share the sums as well: others can teach the model, and see more of your photos."
        ),
    ] = False,
    private: Annotated[
        bool | None, typer.Option("--private/--public", help="Who may see a new repository.")
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--license", help="The licence of the model, such as mit.", metavar="NAME")
    ] = None,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
) -> None:
    """Share a model on the Hugging Face hub, with a card that is made from it.

    layup push m.layup user/pets           predict-only: weights instead of sums
    layup push m.layup user/pets --private
    layup push m.layup ./pets              the same files, into a folder
    layup predict hf:user/pets photo.jpg   anybody can ask it

    The card says classes and counts, the accuracy to expect, the network and its
    licence, and what the file reveals. Log in to the hub before (hf auth login),
    or set HF_TOKEN. Needs pip install 'layup-cl\\[hf]'.
    """
    loaded = loaded_predictor(model, weights, allow_backbone)
    where = loaded.push_to_hub(repository, whole=whole, private=private, licence=licence)
    console.say(f"'{model}' is shared {'whole' if whole else 'predict-only'}: {where}")
