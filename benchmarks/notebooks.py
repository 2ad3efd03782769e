"""The notebooks of docs/notebooks, executed from top to bottom; their outputs are written into them.

python -m benchmarks.notebooks             all of them (a few minutes)
python -m benchmarks.notebooks photos      one
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent.parent / "docs" / "notebooks"
MOST = 600
"""Seconds that a cell may take."""


def executed(path: Path) -> Any:
    """A notebook with the outputs of today, from an empty folder and an empty cache.

    Nothing else changes with the machine: no times, no versions, no names of folders.
    """
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=MOST,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,  # however the pieces arrive
            resources={"metadata": {"path": folder}},
        )
        own = {name: f"{folder}/.{name}" for name in ("LAYUP_CACHE", "LAYUP_KEYS", "IPYTHONDIR")}
        quiet = {"PYTHONWARNINGS": "ignore:IProgress not found"}  # of tqdm, which would like other bars
        client.execute(env={**os.environ, **own, **quiet})
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def main(names: list[str]) -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(executed(path), path)
            print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
