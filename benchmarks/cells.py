"""What the table of methods has measured, kept in the repository: a later measurement goes on from there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from layup import storage


@dataclass(frozen=True)
class Cell:
    """One run of the table.

    row, network, dataset, seed: what was run, in the table's words.
    accuracy, error: A_T, and its standard error over test images.
    forward, training: passes per training image, those that read it and those that train.
    images: how many were learned.
    state_bytes: what is kept besides the frozen network.
    """

    row: str
    network: str
    dataset: str
    seed: int
    accuracy: float
    error: float
    forward: float
    training: float
    images: int
    state_bytes: int


class Cells:
    """Cells by the name of their run's record, which has a hash of all that decides its numbers."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._known: dict[str, Cell] = self._read()

    def get(self, name: str) -> Cell | None:
        """The cell of a run, if it was measured."""
        return self._known.get(name)

    def add(self, name: str, cell: Cell) -> None:
        """Keep a cell, and read those that other processes have added."""
        with storage.locked(self.path):
            self._known = {**self._read(), name: cell}
            storage.write_text(self.path, _laid_out(self._known))

    def _read(self) -> dict[str, Cell]:
        if not self.path.exists():
            return {}
        found = json.loads(self.path.read_text("utf-8"))
        return {name: Cell(**values) for name, values in found.items()}


def _laid_out(cells: Mapping[str, Cell]) -> str:
    """JSON with a line per cell, sorted by what was run."""
    ordered = sorted(cells.items(), key=lambda item: tuple(map(str, asdict(item[1]).values())))
    lines = [f" {json.dumps(name)}: {json.dumps(asdict(cell), ensure_ascii=False)}" for name, cell in ordered]
    return "{\n" + ",\n".join(lines) + "\n}\n"
