"""One point of `growth`, in a separate process, so that nothing else is counted as its memory.

python -m layup.performance.point '{"dim": 256, "classes": 10, "samples": 500, "tasks": 1}'
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from layup import machine
from layup.errors import LayupError

PAGE = 4096
"""Bytes: memory is not allocated in smaller pieces."""


@dataclass(frozen=True)
class Size:
    """What to learn: dimensions, classes, samples per task, and tasks."""

    dim: int
    classes: int
    samples: int
    tasks: int = 1


@dataclass(frozen=True)
class Point:
    """What learning took: seconds, and peak bytes beyond those of an idle process.

    The bytes include the features of one task and everything computed from them.
    """

    size: Size
    seconds: float
    memory: int


def measured_apart(size: Size) -> Point:
    """Measure in a separate process. Starting one takes a few seconds."""
    command = [sys.executable, "-m", "layup.performance.point", json.dumps(asdict(size))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it was killed, perhaps for lack of memory"])[-1]
        raise LayupError(f"Learning {asdict(size)} failed in its process: {said}. Give smaller numbers.")
    return Point(size, **json.loads(done.stdout))


def measured_here(size: Size) -> Point:
    """Learn all tasks, searching λ on each and predicting after it, and measure time and memory."""
    from layup.algebra import RidgeClassifier
    from layup.performance.sample import Population

    def learn(size: Size) -> tuple[float, int | None]:
        """Seconds, and the most bytes that were held while learning."""
        population, model = Population(size.dim, size.classes), RidgeClassifier("search", grid="paper")
        seconds, most = 0.0, 0
        for number in range(size.tasks):
            batch = population.batch(size.samples, range(size.classes), seed=number)
            machine.reset_peak_memory()  # generating the task does not count
            started = time.perf_counter()
            model.partial_fit(*batch).predict(batch[0][:1])
            seconds += time.perf_counter() - started
            del batch
            if (peak := machine.peak_memory()) is None:
                return seconds, None
            most = max(most, peak)
        return seconds, most

    learn(Size(dim=32, classes=2, samples=64))  # loads what is loaded on first use
    machine.reset_peak_memory()
    idle = machine.peak_memory()
    seconds, most = learn(size)
    if idle is None or most is None:
        raise LayupError(
            "This system does not say how much memory a process takes, so growth cannot be seen."
        )
    return Point(size, seconds, max(most - idle, PAGE))


def main() -> None:
    """Print the point of the size in the arguments, as JSON."""
    point = measured_here(Size(**json.loads(sys.argv[1])))
    sys.stdout.write(json.dumps({"seconds": point.seconds, "memory": point.memory}))


if __name__ == "__main__":
    main()
