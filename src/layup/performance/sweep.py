"""A sweep over k from one set of sums, beside a run for every k."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from layup.backbones import Backbone
from layup.benchmark import Experiment, RunSpec
from layup.benchmark.methods import ONLY
from layup.formats import floored_percent, seconds
from layup.performance.protocol import Outcome, literal, ours, sampled
from layup.performance.report import Report, agreement, spread_note, times
from layup.performance.runs import TASKS
from layup.performance.timing import Ratio, Work, interleaved, ratio
from layup.progress import progress_bar

DEPTHS = tuple(range(1, 13))
BACKBONE = "vit-nano"
"""What is swept over if nothing else is asked for: its runs are short."""
WARM_UP = 8
"""Images per class of a run before all others: what a process does only once takes a second."""


@dataclass(frozen=True)
class SweepRow:
    """All k from one set of sums, beside another way.

    way: "literal" (runs of the literal procedure) or "layup" (runs of layup that share a cache).
    faster: the seconds of these runs over those of the sweep.
    passes, sweep_passes: images through the network.
    alike: the share of answers, over test images and k, that are the same in both.
    """

    way: str
    backbone: str
    depths: tuple[int, ...]
    tasks: int
    faster: Ratio
    passes: int
    sweep_passes: int
    alike: float


def measure(
    pairs: int, name: str = BACKBONE, tasks: int = TASKS, per_class: int | None = None
) -> list[SweepRow]:
    """Two rows, on scikit-learn's digits (or so many images per class of them), with this network."""
    spec = sampled(RunSpec("digits", backbone=name, tasks=tasks), per_class)
    backbone = spec.load_backbone()
    return measured(spec, backbone, [k for k in DEPTHS if k <= backbone.depth], pairs)


def measured(spec: RunSpec, backbone: Backbone, depths: Sequence[int], pairs: int) -> list[SweepRow]:
    """One run for all k, and two kinds of runs for each, in turn, after small ones that are not timed."""
    dataset = spec.load_dataset()

    def at(k: int | Sequence[int]) -> Experiment:
        return replace(spec, options={"k": k}).resolve(dataset=dataset, backbone=backbone)

    every, single = at(tuple(depths)), {k: at(k) for k in depths}
    small = replace(sampled(spec, WARM_UP), tasks=1, options={"k": tuple(depths)}).resolve(backbone=backbone)
    with tempfile.TemporaryDirectory() as folder, progress_bar(None, "runs") as bar:
        numbers = count()
        task = bar.add_task("Sweep over k", total=pairs * (2 * len(depths) + 1), note="")

        def empty() -> tuple[Path]:
            return (Path(folder, str(next(numbers))),)

        def sweep(cache: Path) -> Outcome:
            found = ours(every, cache)
            bar.advance(task)
            return found

        def by_authors() -> list[Outcome]:
            found = []
            for k in depths:
                found.append(literal(single[k], k))
                bar.advance(task)
            return found

        def separate(cache: Path) -> list[Outcome]:
            found = []
            for k in depths:
                found.append(ours(single[k], cache))
                bar.advance(task)
            return found

        ours(small, *empty())
        literal(small, max(depths))
        works = {"sweep": Work(sweep, empty), "literal": Work(by_authors), "layup": Work(separate, empty)}
        timed = interleaved(works, pairs, untimed=0)
    swept = timed["sweep"]
    predictions = [swept.result.predictions[str(k)] for k in depths]
    return [
        SweepRow(
            way,
            backbone.name,
            tuple(depths),
            len(every.scenario.tasks),
            ratio(timed[way].seconds, swept.seconds),
            sum(run.passes for run in timed[way].result),
            swept.result.passes,
            agreement(predictions, [run.predictions[ONLY] for run in timed[way].result]),
        )
        for way in ("literal", "layup")
    ]


def report(rows: Sequence[SweepRow]) -> Report:
    """The rows as a table."""
    names = {"literal": "runs of the literal procedure", "layup": "runs of layup, one cache"}
    columns = ["instead of", "passes", "ours", "time", "ours", "times as fast", "same labels"]
    cells = [
        [
            f"{len(row.depths)} {names[row.way]}",
            f"{row.passes:,}",
            f"{row.sweep_passes:,}",
            *(seconds(value) for value in (row.faster.first_seconds, row.faster.second_seconds)),
            times(row.faster),
            floored_percent(row.alike),
        ]
        for row in rows
    ]
    first = rows[0]
    depths = f"k = {first.depths[0]} … {first.depths[-1]}"
    notes = [
        f"Ours: {depths} in one run, as `layup run` does it, with an empty cache; λ is searched for every k.",
        spread_note(first.faster),
    ]
    ratios = {f"{depths}: {len(row.depths)} {names[row.way]}": row.faster for row in rows}
    tasks = "one task" if first.tasks == 1 else f"{first.tasks} tasks"
    title = f"A sweep over k, {tasks} of digits, {first.backbone}"
    other = re.sub(r"[^a-zA-Z0-9_.]+", "-", first.backbone)
    name = "sweep" if first.backbone == BACKBONE else f"sweep-{other}"
    return Report(name, title, columns, cells, notes, rows, ratios)
