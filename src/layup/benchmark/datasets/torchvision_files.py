"""Datasets whose files torchvision reads: each in a folder whose name is its own choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from layup.benchmark.datasets.source import lacking


def torchvision_dataset(name: str) -> Any:
    """The class of that name in torchvision.datasets, which is loaded only now."""
    import layup.compat  # noqa: F401  # before torchvision

    from torchvision import datasets  # isort: skip

    return getattr(datasets, name)


def lacks_files(name: str, files: Sequence[str], folders: Sequence[str] = ()) -> Callable[[Path], str | None]:
    """What a folder lacks to be the one that torchvision reads."""

    def lacks(folder: Path) -> str | None:
        if folder.absolute().name != name:
            return f"name {name}"
        missing = [f"file {each}" for each in files if not (folder / each).is_file()]
        return lacking([*missing, *(f"folder {each}" for each in folders if not (folder / each).is_dir())])

    return lacks
