"""`layup rename`: another name for a class."""

from __future__ import annotations

from typing import Annotated
from unicodedata import normalize

import typer

from layup.cli import console
from layup.cli.app import app
from layup.cli.files import changed_model, loaded_model
from layup.cli.options import Model
from layup.errors import InputError
from layup.formats import plural


@app.command()
def rename(
    model: Model,
    old: Annotated[str, typer.Argument(help="The class as it is called now.", metavar="OLD")],
    new: Annotated[str, typer.Argument(help="What to call it, or another class.", metavar="NEW")],
) -> None:
    """Rename a class. If NEW is a class already, the two become one.

    layup rename m.layup tabbi tabby
    layup rename m.layup kitten cat        kitten becomes a part of cat

    Two classes that became one cannot be told apart again.
    """
    old, new = (normalize("NFC", name) for name in (old, new))  # as the names of classes are
    with changed_model(model):
        loaded = loaded_model(model)
        there = new in loaded.classes_
        if there and new == old:
            raise InputError(f"The class {old!r} has this name already.")
        loaded.rename(old, new)
        loaded.save(model)
    photos = plural(loaded.counts_[new], "photo")
    console.say(f"{old!r} is now {'part of ' if there else ''}{new!r}: {photos}.")
    console.knowledge(model, loaded.counts_, loaded.classifier_.chosen())
