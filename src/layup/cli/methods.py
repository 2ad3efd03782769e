"""The command that lists methods and explains them."""

from __future__ import annotations

from typing import Annotated

import typer

from layup.cli import console
from layup.cli.app import RESEARCH, app


@app.command(rich_help_panel=RESEARCH)
def methods(
    name: Annotated[str | None, typer.Argument(help="The method to explain.", metavar="NAME")] = None,
) -> None:
    """List the methods that `layup run` can run, or explain one.

    layup methods                            all methods
    layup methods ranpac                     its equations, its options, and what it keeps, costs and needs

    Settings are cil (class-incremental: new classes with every task), dil
    (domain-incremental: new domains) and ocl (online: new classes in a stream,
    each image seen once). "yes" under "adapts" means that the network is tuned
    to the first task (a "first session"), except in ocl and with --adapt none.
    For other methods, --adapt auto does this, and so does the short form
    NAME+fsa.
    """
    from layup.benchmark.methods import METHODS, method_class
    from layup.benchmark.recipes import recipe_rows

    if name is None:
        rows = []
        for each in METHODS:
            kind = method_class(each)
            does = kind.summary() if each == kind.name else f"Another name of {kind.name}"
            adapts = "yes" if kind.adapts else ""
            rows.append([each, does, ", ".join(kind.settings), adapts])
        console.table(["method", "what it does", "settings", "adapts"], rows, texts=4)
        return
    kind = method_class(name)
    if name != kind.name:
        console.say(f"Another name of {kind.name}.")
        console.say("")
    for line in kind.explanation().splitlines():
        console.say(line)
    if kind.option_names():
        console.table(["option", "default"], [[*pair] for pair in kind.option_defaults().items()], texts=2)
    if rows := recipe_rows(kind.name):
        console.say("")
        console.say(
            "Released by its authors, and used where nothing else is given (adapter: with --preset official):"
        )
        console.table(["dataset", "options", "adapter", "network"], rows, texts=4)
