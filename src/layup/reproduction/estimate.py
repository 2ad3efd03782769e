"""A forecast of images, passes, time and memory of each run.

A rough guess: features that are cached already are counted as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from layup.backbones import Backbone
from layup.benchmark import Experiment
from layup.errors import InputError, LayupError
from layup.features import Reading
from layup.formats import duration, size_of
from layup.reproduction.config import ReproductionConfig
from layup.reproduction.plan import items_of, wanted_by
from layup.reproduction.runner import OWN_EPOCHS, TOO_DEEP, Job, Runner, first_line
from layup.tables import Table

BACKWARD = 3
"""A training pass, in forward passes: forward, and back through weights and activations."""
SEARCH = 9
"""Operations of a search of λ: this many times d² per sample of a task, or d³ if that is less."""
PROBE = 32
"""Images of noise that are timed."""


@dataclass(frozen=True)
class Estimate:
    """What a run will take; nothing if it is `finished`, or if there is a reason `why` it cannot be run.

    passes: images to be read by a network that no earlier run of the same list has read.
    training: images to be trained on, epoch by epoch.
    memory: bytes besides the network; None if the method cannot tell.
    """

    job: Job
    finished: bool = False
    why: str = ""
    passes: int = 0
    training: int = 0
    seconds: float = 0.0
    memory: int | None = None


def estimates(runner: Runner, jobs: Iterable[Job]) -> list[Estimate]:
    """An estimate of every run, in order; shared work counts for the first of them."""
    found: list[Estimate] = []
    read: set[str] = set()
    machine = _Machine()
    for job in jobs:
        try:
            possible = runner.within(job)
            if job.depths and not possible.depths:
                raise InputError(TOO_DEEP.format(runner.config.networks[job.spec.network or ""]))
            experiment = runner.experiment(possible)
            if experiment.finished() is not None:
                found.append(Estimate(job, finished=True))
            else:
                found.append(_estimate(job, experiment, read, machine))
        except LayupError as error:
            found.append(Estimate(job, why=first_line(str(error))))
    return found


class _Machine:
    """How fast this machine is; each network is timed once, although every run has a backbone of its own."""

    def __init__(self) -> None:
        self._passes: dict[str, float] = {}

    @cached_property
    def operations(self) -> float:
        """Multiplications per second."""
        return operations_per_second()

    def pass_of(self, backbone: Backbone) -> float:
        """Seconds per image."""
        key = backbone.features_key
        if key not in self._passes:
            self._passes[key] = seconds_per_pass(backbone)
        return self._passes[key]


def _estimate(job: Job, experiment: Experiment, read: set[str], machine: _Machine) -> Estimate:
    scenario, backbone = experiment.scenario, experiment.backbone
    train = sum(len(task.train) for task in scenario.tasks)
    test = len(scenario.dataset.test)
    passes = training = 0
    epochs = experiment.method.options().get("epochs")
    setup = experiment.setup
    if epochs is not None and job.spec.method not in OWN_EPOCHS:
        # A network that is trained reads the test images of all tasks so far again after each task.
        training = train * (1 if scenario.setting == "ocl" else epochs)
        passes = sum(len(scenario.tested(number)) for number in range(len(scenario.tasks)))
    else:
        tuned = str(setup.checkpoint) if setup.checkpoint else ""
        both = tuned and job.spec.method.startswith("adam")
        for network in {tuned, ""} if both else {tuned}:
            key = f"{job.column}, {backbone.fingerprint}, {network}"
            passes += 0 if key in read else train + test
            read.add(key)
        if experiment.session is not None and tuned not in read:
            # Held-out images are passed as well, for early stopping.
            training += len(scenario.tasks[0].train) * experiment.session.epochs
            read.add(tuned)
    batch = scenario.batch or max(len(task.train) for task in scenario.tasks)
    dims = _solved(job, experiment)
    flops = SEARCH * len(scenario.tasks) * sum(dim**2 * min(dim, batch) for dim in dims)
    seconds = (passes + BACKWARD * training) * machine.pass_of(backbone) + flops / machine.operations
    memory = None if experiment.forecast is None else experiment.forecast.total
    return Estimate(job, passes=passes, training=training, seconds=seconds, memory=memory)


def _solved(job: Job, experiment: Experiment) -> list[float]:
    """The size of every Gram matrix on which λ is searched; empty if there is none."""
    widths = [layer.width for layer in experiment.backbone.layers]
    options = experiment.method.options()
    if "width" in options:
        return [float(options["width"])]
    if job.spec.method == "ridge":
        return [float(widths[-layer]) for layer in job.depths]
    networks = 2 if job.spec.method.startswith("adam") else 1
    depths = job.depths or ((options["k"],) if "lam" in options and "k" in options else ())
    return [float(networks * sum(widths[-k:])) for k in depths]


def seconds_per_pass(backbone: Backbone) -> float:
    """Seconds per image of a network, in a batch, on this machine."""
    height, width = backbone.preprocessing.size
    batch = torch.randn(PROBE, 3, height, width, generator=torch.Generator().manual_seed(0))
    return _quickest(lambda: backbone(batch)) / PROBE


def operations_per_second() -> float:
    """How many multiplications of a matrix product this machine does in a second."""
    side = 1024
    matrix = np.random.default_rng(0).standard_normal((side, side))
    return float(side**3) / _quickest(lambda: matrix @ matrix)


def _quickest(act: Callable[[], object], times: int = 4) -> float:
    """The seconds of the quickest of several times: the first is slower, and others may be disturbed."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        taken.append(time.perf_counter() - began)
    return min(taken)


def forecast(
    items: Sequence[str],
    config: ReproductionConfig,
    *,
    records: str | Path = "results",
    reading: Reading | None = None,
) -> Table:
    """What it would take to `reproduce` the same: one row per run, and the total in a note.

    Loads the networks to time them, and runs nothing.
    """
    runner = Runner(config, Path(records), reading or Reading())
    found = estimates(runner, runner.jobs(wanted_by(items_of(items), runner)))
    rows = [[each.job.title(config), *_cells(each)] for each in found]
    table = Table.of(["run", "images", "training passes", "time", "memory"], rows)
    return replace(table, notes=[_in_all(found)])


def _cells(each: Estimate) -> list[str]:
    if each.finished or each.why:
        return [each.why or "finished", "", "", ""]
    memory = "" if each.memory is None else size_of(each.memory)
    return [f"{each.passes:,}", f"{each.training:,}", duration(each.seconds), memory]


def _in_all(found: Sequence[Estimate]) -> str:
    open_runs = [each for each in found if not each.finished and not each.why]
    lacking = sum(bool(each.why) for each in found)
    memory = max((each.memory or 0 for each in open_runs), default=0)
    return (
        f"{len(open_runs)} of {len(found)} runs are to be done, {lacking} cannot be: "
        f"{sum(each.passes for each in open_runs):,} images to read, "
        f"{sum(each.training for each in open_runs):,} training passes, about "
        f"{duration(sum(each.seconds for each in open_runs))} on this machine, at most {size_of(memory)} "
        "besides the network. A rough guess: cached images need not be read again."
    )
