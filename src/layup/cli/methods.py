"""Which methods there are, what each does, and what can be chosen."""

from __future__ import annotations

from typing import Annotated

import typer

from layup.cli import console
from layup.cli.app import app


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="Tell all of one method.", metavar="[NAME]")] = None,
) -> None:
    """List the methods that `layup run` can run, or tell all of one.

    layup methods                            what there is
    layup methods ranpac                     its equations, what it keeps, costs and needs, its options

    cil: new classes task by task. dil: new domains. ocl: one look at each image. Where adapts says yes, the
    network is first tuned to the first task, unless it is a stream or --adapt none is given; with others,
    --adapt auto does so, and NAME+fsa is short for that.
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
