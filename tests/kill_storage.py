"""Kill a writer again and again, at random moments, and check each time that the file is whole.

Run by test_storage.py in a process of its own: `python kill_storage.py FOLDER KILLS`. Prints what it saw.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from layup import storage


def write_for_ever(path: Path, generation: int, report: int) -> None:
    while True:
        arrays = {
            name: np.full(size, float(generation)) for name, size in (("a", 20_000), ("b", 1), ("c", 9_000))
        }
        storage.write(path, "model", {"generation": generation}, arrays)
        os.write(report, generation.to_bytes(8, "little"))
        generation += 1


def start_writer(path: Path, generation: int) -> tuple[int, int]:
    reports, report = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_for_ever(path, generation, report)
        finally:
            os._exit(1)
    os.close(report)
    return child, reports


def last_report(reports: int) -> int:
    with os.fdopen(reports, "rb") as pipe:
        received = pipe.read()
    return int.from_bytes(received[-8:], "little")


def whole_generation(path: Path) -> int:
    header, arrays = storage.read(path, "model")
    values = {float(value) for array in arrays.values() for value in np.unique(array)}
    assert values == {float(header["generation"])}, (header, values)
    return int(header["generation"])


def main(folder: Path, kills: int) -> None:
    path = folder / "m.layup"
    storage.write(path, "model", {"generation": 0}, {"a": np.zeros(1)})
    chance = random.Random(0)
    generation = midway = unreported = 0
    for _ in range(kills):
        child, reports = start_writer(path, generation + 1)
        time.sleep(chance.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, f"the writer ended by itself: {status}"
        reported = last_report(reports)
        before, generation = generation, whole_generation(path)
        assert generation >= max(before, reported), (before, reported, generation)
        temporaries = list(folder.glob(".*.tmp"))
        assert len(temporaries) <= 1, temporaries
        midway += len(temporaries)
        unreported += generation > max(before, reported)
    storage.write(path, "model", {"generation": generation}, {})
    assert sorted(file.name for file in folder.iterdir()) == [".m.layup.lock", "m.layup"]
    print(json.dumps({"generations": generation, "midway": midway, "unreported": unreported}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
