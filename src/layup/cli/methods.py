"""The command that lists methods and explains them."""

from __future__ import annotations

from typing import Annotated

import typer

from layup.cli import console
from layup.cli.app import app


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="Explain this method.", metavar="[NAME]")] = None,
) -> None:
    """List the methods that `layup run` can run, or explain one.

    layup methods                            all methods
    layup methods ranpac                     its equations, what it keeps, costs and needs, its options

    cil: new classes task by task. dil: new domains. ocl: as cil, each image seen once. Where adapts says yes,
    the network is first tuned to the first task, except in ocl or with --adapt none. For other methods,
    --adapt auto does so; NAME+fsa is short for it.
    """
    from layup.benchmark.methods import METHODS, method_class

    if name is None:
        rows = []
        for each in METHODS:
            kind = method_class(each)
            adapts = "yes" if kind.adapts else ""
            rows.append([each, kind.summary(), ", ".join(kind.settings), adapts])
        console.table(["method", "what it does", "settings", "adapts"], rows, texts=4)
        return
    kind = method_class(name)
    for line in kind.explanation().splitlines():
        console.say(line)
    if kind.option_names():
        console.table(["option", "default"], [[*pair] for pair in kind.option_defaults().items()], texts=2)
