"""Whole class-incremental runs beside the authors' protocol: images through the network, and time."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from layup.benchmark import Experiment, RunSpec
from layup.benchmark.methods import ONLY
from layup.formats import floored_percent, seconds
from layup.performance.protocol import literal, ours, sampled
from layup.performance.report import Report, agreement, spread_note, times
from layup.performance.timing import Ratio, Work, interleaved, ratio
from layup.progress import progress_bar

TASKS = 10
BACKBONES = ("vit-nano", "bundled")
SEEDS = 1993, 1994
"""Of a first run, and of another one after it."""


@dataclass(frozen=True)
class RunRow:
    """A run of layup beside the authors' protocol.

    literal_passes, passes, passes_again: images through the network by their protocol, in ours, and in
        another run of ours (other seed, so other tasks) after that.
    first, again: their seconds over ours, of those two runs.
    """

    backbone: str
    k: int
    dim: int
    tasks: int
    train: int
    test: int
    literal_passes: int
    passes: int
    passes_again: int
    first: Ratio
    again: Ratio
    literal_accuracy: float
    accuracy: float
    as_literal: float


def measure(pairs: int, backbones: Sequence[str] = BACKBONES, per_class: int | None = None) -> list[RunRow]:
    """A row for each network, on scikit-learn's digits (or so many images per class of them)."""
    rows = []
    with progress_bar(None, "networks") as bar:
        task = bar.add_task("Whole runs", total=len(backbones), note="")
        for name in backbones:
            bar.update(task, note=name)
            spec = sampled(RunSpec("digits", backbone=name, tasks=TASKS, seed=SEEDS[0]), per_class)
            experiment = spec.resolve()
            again = replace(spec, seed=SEEDS[1]).resolve(backbone=experiment.backbone)
            rows.append(measured(experiment, again, pairs))
            bar.advance(task)
    return rows


def measured(experiment: Experiment, other: Experiment, pairs: int) -> RunRow:
    """Their run, ours, and another of ours with the same network, in turn."""
    backbone, scenario = experiment.backbone, experiment.scenario
    k = backbone.default_k
    with tempfile.TemporaryDirectory() as folder:
        used, numbers = Path(folder, "used"), count()
        ours(experiment, used)  # what `again` finds; and a warm-up
        works = {
            "literal": Work(lambda: literal(experiment, k)),
            "first": Work(ours, lambda: (experiment, Path(folder, str(next(numbers))))),
            "again": Work(ours, lambda: (other, used)),
        }
        timed = interleaved(works, pairs, untimed=0)
    theirs, first, again = (timed[name].result for name in works)
    return RunRow(
        backbone.name,
        k,
        sum(layer.width for layer in backbone.layers[-k:]),
        len(scenario.tasks),
        sum(len(task.train) for task in scenario.tasks),
        sum(len(task.test) for task in scenario.tasks),
        theirs.passes,
        first.passes,
        again.passes,
        ratio(timed["literal"].seconds, timed["first"].seconds),
        ratio(timed["literal"].seconds, timed["again"].seconds),
        theirs.accuracies[ONLY],
        first.accuracies[ONLY],
        agreement(theirs.predictions[ONLY], first.predictions[ONLY]),
    )


def report(rows: Sequence[RunRow]) -> Report:
    """The rows as a table."""
    columns = [
        *("network", "images: training, test", "passes: authors'", "ours", "again"),
        *("time: authors'", "ours", "times as fast", "again", "times as fast"),
        *("A_T: authors', ours", "same labels"),
    ]
    cells = [
        [
            f"{row.backbone}, k = {row.k}, d = {row.dim:,}",
            f"{row.train:,}, {row.test:,}",
            *(f"{passes:,}" for passes in (row.literal_passes, row.passes, row.passes_again)),
            *(seconds(value) for value in (row.first.first_seconds, row.first.second_seconds)),
            times(row.first),
            seconds(row.again.second_seconds),
            times(row.again),
            f"{row.literal_accuracy:.3f}, {row.accuracy:.3f}",
            floored_percent(row.as_literal),
        ]
        for row in rows
    ]
    notes = [
        "Authors': after every task, the tests of all tasks so far pass the network again; λ by 64 LU solves "
        "in float32 a task. Ours: as `layup run`, with an empty cache.",
        "Again: another run (another order of classes) after it, whose features are cached.",
        spread_note(rows[0].first),
    ]
    ratios = {f"{row.backbone}: first run": row.first for row in rows}
    ratios |= {f"{row.backbone}: another run": row.again for row in rows}
    title = f"Class-incremental runs of {rows[0].tasks} tasks, digits"
    return Report("runs", title, columns, cells, notes, rows, ratios)
