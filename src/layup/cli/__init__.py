"""The command line: typed commands, no logic. PyTorch is imported by those commands that need it."""

from layup.cli import bench, methods, photos, reproduce, results, run  # noqa: F401 (their commands enter themselves)
from layup.cli.app import RESEARCH, app, main
from layup.cli.datasets import datasets_app

app.add_typer(datasets_app, name="datasets", rich_help_panel=RESEARCH)

__all__ = ["app", "main"]
