"""Independent runs by a pool of workers: each is done by one of them, as `run` would do it, and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from layup import storage
from layup.backbones import Backbone
from layup.benchmark.datasets import Dataset, data_folder
from layup.benchmark.results import Record
from layup.benchmark.run_spec import RESULTS, RunSpec
from layup.cluster import Cluster
from layup.errors import LayupError
from layup.features import Reading, in_a_pool

NETWORK = ("backbone", "weights", "input_size", "engine")
DATASET = ("dataset", "data", "split_seed", "order", "sample", "held_out")
"""The values of a run that decide its network, and its dataset."""


@dataclass(frozen=True)
class Ran:
    """What became of a run: its records by variant, and whether they were there before."""

    records: Mapping[str, Record]
    before: bool

    def paths(self, folder: str | Path) -> dict[str, Path]:
        """Where the records are."""
        return {name: Path(folder, f"{record.name}.json") for name, record in self.records.items()}

    def keep(self, folder: str | Path) -> None:
        """Write records that a worker has not written here: one that does not see this folder."""
        for name, path in self.paths(folder).items():
            if not path.exists() or Record.read(path) != self.records[name]:
                storage.make_folder(folder)
                self.records[name].write(path)


class Runs:
    """Does runs, one after another; runs in a process of Ray's. Networks and datasets are loaded once."""

    def __init__(self, folder: str, reading: Reading, again: bool) -> None:
        self.folder, self.reading, self.again = folder, reading, again
        self._networks: dict[str, Backbone] = {}
        self._datasets: dict[str, Dataset] = {}

    def __call__(self, spec: RunSpec) -> Ran:
        """Do a run, unless it is finished."""
        spec.load_method()  # unknown options are refused before anything is loaded
        experiment = spec.resolve(
            self.folder,
            reading=self.reading,
            dataset=_once(self._datasets, _part(spec, DATASET), spec.load_dataset),
            backbone=_once(self._networks, _part(spec, NETWORK), spec.load_backbone),
        )
        if not self.again and (records := experiment.finished()) is not None:
            return Ran(records, before=True)
        *_, records = experiment.go(again=self.again)
        return Ran(records, before=False)


def spread_runs(
    specs: Sequence[RunSpec],
    folder: str | Path = RESULTS,
    cluster: Cluster | None = None,
    *,
    reading: Reading | None = None,
    again: bool = False,
) -> Iterator[tuple[int, Ran | LayupError]]:
    """Do independent runs, as `run` does, by many workers; gives what became of each with its number.

    They come as they are finished. A run that fails is an error among them, and the others go on. Finished
    runs are not repeated, and interrupted ones are resumed, by workers that see the folder; in any case it
    has the records afterwards.

    folder: where the records are kept. cluster: by default, the processors of this machine. reading: how
    images are read. again: run them anew, even if they are finished.
    """
    located = [replace(spec, data=data_folder(spec.data).absolute()) for spec in specs]
    given = str(Path(folder).absolute()), in_a_pool(reading or {}), again
    with (cluster or Cluster()).pool(Runs, *given) as pool:
        for number, found in pool.run(located):
            if isinstance(found, Ran):
                found.keep(folder)
            yield number, found


def _part(spec: RunSpec, names: Sequence[str]) -> str:
    return repr([getattr(spec, name) for name in names])


def _once(known: dict[str, Any], key: str, make: Callable[[], Any]) -> Any:
    """What was made before; otherwise it is made now."""
    if key not in known:
        known[key] = make()
    return known[key]
