"""`layup backbones`: the networks to choose from."""

from __future__ import annotations

from typing import Annotated

import typer

from layup.cli import console
from layup.cli.app import app
from layup.errors import InputError


@app.command()
def backbones(
    search: Annotated[
        str, typer.Argument(help="Part of a timm name, such as vit_base.", metavar="SEARCH")
    ] = "",
) -> None:
    """List the networks that come with layup, or search those of timm (PyTorch Image Models).

    layup backbones                  networks that work offline
    layup backbones vit_base         timm networks with vit_base in their name
    """
    from layup.backbones import BACKBONES, load_backbone, timm_names

    if search:
        names = timm_names(search)
        if not names:
            raise InputError(
                f"No pre-trained network of timm has {search!r} in its name. Try a shorter part."
            )
        console.table(["--backbone"], [[name] for name in names])
        return
    rows = []
    for name in BACKBONES.built_in:
        network = load_backbone(name)
        height, width = network.preprocessing.size
        values = sum(layer.width for layer in network.layers)
        used = console.share(network.default_k, network.depth)
        rows.append([name, f"{height} × {width}", str(network.depth), f"{values:,}", used])
    console.table(["--backbone", "pixels", "layers", "values", "default k"], rows)
    for name, package in BACKBONES.packages.items():
        console.say(f"{name}: from the installed package {package}.")
    console.say(
        "Also: any timm name with the tag of its weights, downloaded once (layup backbones vit_base lists "
        "some); and hf:NAME or hf:FOLDER, which need pip install 'layup-cl[hf]'."
    )
