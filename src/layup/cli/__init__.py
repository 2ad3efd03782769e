"""The command line: typed commands, no logic. PyTorch is imported by those commands that need it."""

from layup.cli import photos  # noqa: F401 (its commands enter themselves)
from layup.cli.app import app, main

__all__ = ["app", "main"]
