"""Many workers leave the records of one process, also of interrupted runs; failures stop no other."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from layup.benchmark import RunSpec, find_records, run, spread, spread_runs
from layup.cluster import Cluster
from layup.errors import LayupError

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
# Workers cannot import tests: what is defined here is sent to them.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

SPEC = RunSpec("digits", method="layup", options={"k": (1, 6)}, backbone="vit-nano", tasks=2, sample=(4, 9))
SPECS = [replace(SPEC, seed=seed) for seed in (1, 2, 3)]


def lasting(record):
    """A record without what a machine was like and what it took."""
    values = record.to_dict()
    for name in ("machine", "summary"):
        del values[name]
    for step in values["steps"]:
        for name in ("learn_seconds", "predict_seconds", "peak_memory", "forward_passes"):
            del step[name]
    return values


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    return {record.name: lasting(record) for spec in SPECS for record in run(spec, folder)}


def records_in(folder):
    return {record.name: lasting(record) for record in find_records([folder])}


def test_a_worker_does_a_run_once(tmp_path):
    """In this process, without Ray; what it wrote elsewhere is kept here."""
    do = spread.Runs(str(tmp_path / "there"), {"workers": 0}, False)
    first, again = do(SPECS[0]), do(SPECS[0])
    assert (first.before, again.before) == (False, True)
    assert first.records == again.records
    first.keep(tmp_path / "here")
    assert records_in(tmp_path / "here") == records_in(tmp_path / "there")


@pytest.mark.slow
def test_records_are_those_of_one_process(local, tmp_path, expected):
    found = dict(spread_runs(SPECS, tmp_path, Cluster()))
    assert sorted(found) == [0, 1, 2]
    assert not any(each.before for each in found.values())
    assert records_in(tmp_path) == expected
    again = dict(spread_runs(SPECS, tmp_path, Cluster()))
    assert all(each.before for each in again.values())
    assert again[1].records == found[1].records


@pytest.mark.slow
def test_an_interrupted_run_is_resumed(local, tmp_path, expected):
    started = SPECS[0].resolve(tmp_path).go()
    assert len(next(iter(next(started).values())).steps) == 1
    started.close()
    (begun,) = tmp_path.glob("unfinished/*/progress.json")
    before = begun.read_text()
    (found,) = dict(spread_runs(SPECS[:1], tmp_path, Cluster())).values()
    seconds = [record.steps[0].learn_seconds for record in found.records.values()]
    assert all(f'"learn_seconds": {each}' in before for each in seconds)  # the first task was not repeated
    assert all(expected[record.name] == lasting(record) for record in found.records.values())


class Killed(spread.Runs):
    """A worker whose process ends the first time that a run is tried."""

    def __call__(self, spec):
        mark = Path(self.folder, f"killed-{spec.seed}")
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(spec)


@pytest.mark.slow
def test_workers_that_are_killed_lose_no_run(local, tmp_path, expected, monkeypatch):
    monkeypatch.setattr(spread, "Runs", Killed)
    assert len(dict(spread_runs(SPECS, tmp_path, Cluster()))) == 3
    assert len([*tmp_path.glob("killed-*")]) == 3
    assert records_in(tmp_path) == expected


class Elsewhere(spread.Runs):
    """A worker on a machine that does not see the folder of the records."""

    def __init__(self, folder, reading, again):
        super().__init__(f"{folder}-elsewhere", reading, again)


@pytest.mark.slow
def test_records_come_back_where_no_storage_is_shared(local, tmp_path, expected, monkeypatch):
    monkeypatch.setattr(spread, "Runs", Elsewhere)
    folder = tmp_path / "results"
    assert len(dict(spread_runs(SPECS, folder, Cluster()))) == 3
    assert records_in(folder) == expected


@pytest.mark.slow
def test_a_run_that_fails_stops_no_other(local, tmp_path):
    specs = [SPECS[0], replace(SPEC, tasks=7), replace(SPEC, dataset="folder:nowhere")]
    found = dict(spread_runs(specs, tmp_path, Cluster()))
    assert isinstance(found[0], spread.Ran)
    assert all(isinstance(found[number], LayupError) for number in (1, 2))
    assert "nowhere" in str(found[2])
    assert len(records_in(tmp_path)) == 2
