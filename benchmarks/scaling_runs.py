"""Slices of a plan, computed in processes with one thread each: one, two, and one of Ray's."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from layup.model import ImageModel
from layup.performance import Work, interleaved
from layup.sharding import Plan, compute, compute_on_ray, union
from layup.sharding.shard import shard_path


class Worker:
    """A process that computes slices of a plan, like one of Ray's."""

    plan: Plan
    model: ImageModel


def begin(folder: str) -> None:
    """Read a plan and load its network."""
    torch.set_num_threads(1)
    Worker.plan = Plan.read(folder)
    Worker.model = Worker.plan.start(cache=False, workers=0, progress=False)
    _ = Worker.model.backbone_


def ready() -> None:
    """Nothing: whoever asks knows that a process has begun."""
    time.sleep(0.5)  # or one process would be ready for both


def work(number: int) -> float:
    """Compute a slice: the seconds of processor that it took."""
    began = time.process_time()
    compute(Worker.plan, number, lambda: Worker.model)
    return time.process_time() - began


def best(run: Callable[[], object], times: int = 3, clock: Callable[[], float] = time.process_time) -> float:
    """The seconds of processor that something takes when little disturbs it; or of another clock."""
    found = []
    for _ in range(times):
        began = clock()
        run()
        found.append(clock() - began)
    return min(found)


def united() -> float:
    """Seconds to merge the plan."""
    return best(lambda: union(Worker.plan), clock=time.perf_counter)


class Pool:
    """Processes with one thread each, which have begun."""

    def __init__(self, plan: Plan, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        folder = str(plan.folder)
        self.plan = plan
        self.processes = ProcessPoolExecutor(workers, context, initializer=begin, initargs=(folder,))
        began = time.perf_counter()
        for future in [self.processes.submit(ready) for _ in range(workers)]:
            future.result()
        self.starting = time.perf_counter() - began - 0.5
        self.processor: list[float] = []
        """Of each run, the seconds of processor that all slices took together."""

    def run(self) -> list[float]:
        """Compute all slices; when each was done, in seconds."""
        began = time.perf_counter()
        futures = [self.processes.submit(work, number) for number in range(len(self.plan.slices))]
        ends = [time.perf_counter() - began for _ in as_completed(futures)]
        self.processor.append(sum(future.result() for future in futures))
        return ends

    def measured(self, run: Callable[..., Any], *arguments: Any) -> Any:
        """What a function finds in one of the processes."""
        return self.processes.submit(run, *arguments).result()


def on_ray(plan: Plan) -> list[float]:
    """The same with one worker of Ray's, which begins first."""
    ends: list[float] = []
    compute_on_ray(
        plan,
        processes=1,
        done=lambda done: ends.append(time.perf_counter()),
        cache=False,
        workers=0,
        progress=False,
    )
    return ends


def forget(plan: Plan) -> tuple[()]:
    """Remove all shards."""
    for number in range(len(plan.slices)):
        shard_path(plan, number).unlink(missing_ok=True)
    return ()


@dataclass(frozen=True)
class Runs:
    """What was measured of a plan.

    one, two: seconds of every round with one process and with two, without their start. loop, ray: seconds
    of all slices but the first, of one process and of Ray's, of every round. processor: of all slices, with
    one process and with two. merging: of the merge. bytes: of lists and shards.
    """

    plan: Plan
    one: Any
    two: Any
    loop: Any
    ray: Any
    processor: tuple[float, float]
    merging: float
    bytes: int


def runs(plan: Plan, one: Pool, rounds: int, with_ray: bool) -> Runs:
    """All ways in turn."""
    two = Pool(plan, 2)
    ends: dict[str, list[list[float]]] = {"one": [], "two": [], "ray": []}
    ways: dict[str, Callable[[], list[float]]] = {"one": one.run, "two": two.run}
    if with_ray:
        ways["ray"] = lambda: on_ray(plan)

    def kept(name: str) -> Callable[[], None]:
        return lambda: ends[name].append(ways[name]())

    interleaved({name: Work(kept(name), lambda: forget(plan)) for name in ways}, rounds)
    two.processes.shutdown()
    merging = one.measured(united)
    ends = {name: found[1:] for name, found in ends.items()}  # the first was untimed
    moved = sum(shard_path(plan, number).stat().st_size for number in range(len(plan.slices)))
    moved += sum(path.stat().st_size for path in plan.folder.glob("slice-*.csv"))
    return Runs(
        plan,
        np.array([each[-1] for each in ends["one"]]),
        np.array([each[-1] for each in ends["two"]]),
        np.array([each[-1] - each[0] for each in ends["one"]]),
        np.array([each[-1] - each[0] for each in ends["ray"]]),
        (min(one.processor), min(two.processor)),
        merging,
        moved,
    )
