"""The command line: typed commands, no logic. PyTorch is imported by those commands that need it."""

from layup.cli import (  # noqa: F401, I001 (their commands enter themselves, in this order in the help)
    learn,
    predict,
    evaluate,
    explain,
    audit,
    suggest,
    serve,
    sync,
    forget,
    undo,
    rename,
    merge,
    export,
    push,
    shards,
    info,
    log,
    backbones,
    cache,
    demo,
    run,
    results,
    reproduce,
    methods,
    bench,
)
from layup.cli.app import RESEARCH, app, main
from layup.cli.datasets import datasets_app

app.add_typer(datasets_app, name="datasets", rich_help_panel=RESEARCH)

__all__ = ["app", "main"]
