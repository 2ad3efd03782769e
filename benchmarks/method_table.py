"""All methods on three datasets with two networks: accuracy, and what it costs.

    python -m benchmarks.method_table [--data ../shared/data] [--out .bench/table] [--networks ViT-Tiny]
                                      [--datasets birds PACS] [--rows nmc ranpac] [--seeds 0 1 2] [--finished]
                                      [--costs] [--save docs/images/methods.png] [--page docs/methods.md]

Runs what is missing in docs/methods/cells.json (hours; an interrupted run resumes, and the records are those
of `layup run`), or with --finished nothing, and prints a table with A_T in percent, the mean over seeds and
its standard error.
--costs adds the seconds to learn the birds with one thread, measured side by side in one go; --save, with it,
draws accuracy against cost. --page writes the tables into docs/methods.md. Needs the three archives and
vit-tiny.safetensors in the data folder.

A network's passes are counted per training image: forward ones to read it, and those that train through it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.cells import Cell, Cells
from benchmarks.choices import HERE, unpack
from benchmarks.marks import filled
from layup import storage
from layup.backbones import Backbone
from layup.benchmark import NO_ADAPTER, Experiment, Record, RunSpec, run
from layup.benchmark.comparison import last_right
from layup.benchmark.datasets import Dataset
from layup.benchmark.methods import METHODS, method_class
from layup.benchmark.methods.gradient import GradientMethod
from layup.benchmark.metrics import bootstrap, standard_error
from layup.benchmark.plots import INK, MARKERS, SAFE_COLOURS
from layup.benchmark.recipes import TRAINING
from layup.benchmark.scenarios import LentImages
from layup.cli import console
from layup.errors import LayupError
from layup.features import FeatureCache, Reading
from layup.formats import size_of
from layup.tables import Table, to_markdown
from layup.tuning import PRESETS

TINY = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
NETWORKS: dict[str, dict[str, Any]] = {"bundled": {}, "ViT-Tiny": {"backbone": TINY}}
SMALL = {"input_size": 112}
"""A quarter of the time that 224 pixels take."""
DATASETS: dict[str, dict[str, Any]] = {
    "CIFAR-100": {
        "dataset": "folder:{}",
        "of": "cifar100-subset",
        "tasks": 10,
        "per_class": 50,  # chosen by the seed; of 100, in half of the time
        "ViT-Tiny": SMALL,
    },
    "birds": {"dataset": "folder:{}", "of": "birds-subset", "tasks": 5, "ViT-Tiny": SMALL},
    "PACS": {"dataset": "domains:{}", "of": "pacs-subset", "setting": "cil", "tasks": 3, "ViT-Tiny": SMALL},
}
SMALL_BATCHES = {"batch_size": 16}
"""For methods that train: the released batches are for tasks of thousands of images."""
USUAL = {"bundled": "ssf", "ViT-Tiny": "adaptformer"}
"""The adapter of methods that have a first session, for each network."""


@dataclass(frozen=True)
class Entry:
    """A row: a method with its options, an adapter, and values of its first session."""

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    adapter: str = NO_ADAPTER
    session: dict[str, Any] = field(default_factory=dict)

    @property
    def trains(self) -> bool:
        """Whether it trains on every task."""
        return issubclass(method_class(self.method), GradientMethod)

    @property
    def slow(self) -> bool:
        """Whether testing after every task would take long, for wide projections must be solved for it."""
        return self.trains or "width" in method_class(self.method).option_names()


def entries(network: str) -> list[Entry]:
    """All rows of a network."""
    found = []
    for name in METHODS:
        kind = method_class(name)
        if name != kind.name or name == "ridge":  # another name of the same, and layup with k = 1
            continue
        if name == "layup":
            found += [Entry(f"layup, k = {k}", name, {"k": k}) for k in (1, 6)]
        elif not kind.needs_session:
            found.append(Entry(name, name, SMALL_BATCHES if issubclass(kind, GradientMethod) else {}))
    adapters = ("ssf",) if network == "bundled" else ("adaptformer", "ssf", "vpt")
    for adapter in adapters:
        found += [Entry(f"layup, k = {k}, {adapter}", "layup", {"k": k}, adapter) for k in (1, 6)]
    found.append(Entry("layup, k = 6, auto", "layup", {"k": 6}, "auto"))
    usual = USUAL[network]
    for name in ("nmc", "adam", "fsa+lda", "ranpac", "adam+layup", "ranpac+layup"):
        found.append(Entry(f"{name}, {usual}", name, {}, usual))
    # Is a difference one of methods, or of how their networks are tuned?
    values: Mapping[str, Any] = PRESETS["default"]
    ours = {name: values[name] for name in TRAINING}
    found += [Entry(f"{name}, {usual} as layup's", name, {}, usual, ours) for name in ("nmc", "ranpac")]
    return found


def spec_of(entry: Entry, network: str, dataset: str, seed: int, data: Path) -> RunSpec:
    """A run of the table."""
    facts = DATASETS[dataset]
    spec = RunSpec(
        facts["dataset"].format(unpack(data, facts["of"])),
        facts.get("setting"),
        entry.method,
        entry.options,
        adapter=None if entry.trains else entry.adapter,
        session=entry.session,
        seed=seed,
        tasks=facts["tasks"],
        per_class=facts.get("per_class"),
        tested_once=entry.slow,
        **{**NETWORKS[network], **facts.get(network, {})},
    )
    return spec if network == "bundled" else replace(spec, weights=data / "vit-tiny.safetensors")


@cache
def _loaded(name: str, weights: Path | None, input_size: int | None) -> Backbone:
    return RunSpec("digits", backbone=name, weights=weights, input_size=input_size).load_backbone()


@cache
def _dataset(name: str) -> Dataset:
    return RunSpec(name).load_dataset()


def experiment_of(spec: RunSpec, folder: Path) -> Experiment:
    """The run itself; networks and datasets are loaded once."""
    backbone = _loaded(spec.backbone, spec.weights, spec.input_size)
    reading: Reading = {"cache": FeatureCache(HERE / "cache")}
    return spec.resolve(folder, backbone=backbone, dataset=_dataset(spec.dataset), reading=reading)


def done(
    entry: Entry, spec: RunSpec, place: tuple[str, str], chosen: argparse.Namespace
) -> Cell | str | None:
    """The cell of a run on a network and a dataset; why it is impossible, or None if it has not been run."""
    try:
        experiment = experiment_of(spec, chosen.out)
        name = next(iter(experiment.blank.values())).name
        known = chosen.cells.get(name)
        if known is not None:
            return known  # type: ignore[no-any-return]
        finished = experiment.finished()
        if finished is None:
            if chosen.finished:
                return None
            finished = {"": run(experiment)[0]}
    except LayupError as error:
        return str(error)
    cell = measured(next(iter(finished.values())), entry, spec, place)
    chosen.cells.add(name, cell)
    return cell


def measured(record: Record, entry: Entry, spec: RunSpec, place: tuple[str, str]) -> Cell:
    """What the table shows of a record. A record with one task is tested by the tasks of the others."""
    right, tasks = last_right(record)
    if len(record.tasks) == 1:
        tasks = spec.scenario(_dataset(spec.dataset)).test_tasks
    found = bootstrap(right, tasks)
    images = sum(task.train for task in record.tasks)
    state = record.steps[-1].state_bytes
    return Cell(
        entry.label,
        *place,
        spec.seed,
        found.value,
        found.standard_error,
        *passes(record, entry),
        images,
        state,
    )


def shown(found: Sequence[Cell]) -> str:
    """The mean over seeds in percent, and its standard error (ᶜ: of two; ᵇ: of one, over test images)."""
    if not found:
        return "–"
    values = [cell.accuracy for cell in found]
    if len(values) > 1:
        few = "ᶜ" if len(values) == 2 else ""
        return f"{100 * np.mean(values):.1f} ± {100 * standard_error(values):.1f}{few}"
    return f"{100 * values[0]:.1f} ± {100 * found[0].error:.1f}ᵇ"


def passes(record: Record, entry: Entry) -> tuple[float, float]:
    """Passes per training image: those that read it, forwards, and those that train."""
    images = sum(task.train for task in record.tasks)
    training = sum(step.training_passes for step in record.steps)
    forward = 2.0 if method_class(entry.method).needs_session else 1.0
    course = record.steps[0].chosen.get("adaptation")
    if course is not None:  # trained once for all runs that share it
        session = record.run["adapter"]
        training = round((1 - session["held_out"]) * record.tasks[0].train * len(course["epochs"]))
    if entry.trains and entry.method != "joint-probe":
        forward = sum(step.forward_passes for step in record.steps) / images
    return forward, training / images


@cache
def seconds_per_pass(network: str, data: Path) -> tuple[float, float]:
    """Of an image of the birds with one thread: forwards, and forwards and backwards; the best of three."""
    torch.set_num_threads(1)
    spec = spec_of(Entry("nmc", "nmc"), network, "birds", 0, data)
    backbone = _loaded(spec.backbone, spec.weights, spec.input_size)
    batch = torch.zeros(16, 3, *backbone.preprocessing.size)

    def timed(backwards: bool) -> float:
        began = time.perf_counter()
        with torch.set_grad_enabled(backwards):
            result = backbone.network(batch.requires_grad_(backwards))
            if backwards:
                result.sum().backward()
        return (time.perf_counter() - began) / len(batch)

    return min(timed(False) for _ in range(3)), min(timed(True) for _ in range(3))


@cache
def arithmetic(method: str, options: tuple[tuple[str, Any], ...], network: str, data: Path) -> float:
    """Seconds of a closed-form method on the birds' cached features, with one thread: every task, learned,
    and one image predicted after each, which solves.
    """
    torch.set_num_threads(1)
    entry = Entry(method, method, dict(options), "auto" if method_class(method).needs_session else NO_ADAPTER)
    experiment = experiment_of(spec_of(entry, network, "birds", 0, data), HERE / "table")
    scenario = experiment.scenario
    learner = experiment.method.begin(experiment.setup)
    one = scenario.dataset.test.images[:1]
    taken = 0.0
    for number in range(len(scenario.tasks)):
        for batch in scenario.batches(number):
            began = time.perf_counter()
            learner.learn(batch.images, batch.labels)
            learner.predict(LentImages(list(one), "This test"))
            taken += time.perf_counter() - began
    return taken


def seconds(cell: Cell, entry: Entry, data: Path) -> float:
    """To learn the birds with one thread: passes, at what one takes here, and a closed form's arithmetic.

    What a method that trains does besides passes is not counted.
    """
    forward, training = seconds_per_pass(cell.network, data)
    found = cell.images * (cell.forward * forward + cell.training * training)
    if entry.trains:
        return found
    # A tuned network has features of the same size: it is timed as it was before.
    return found + arithmetic(entry.method, tuple(entry.options.items()), cell.network, data)


@dataclass(frozen=True)
class Line:
    """A row of the table, and its points in the picture.

    accuracy: the mean over all datasets, in percent, if none is missing.
    costs: bytes, and seconds if they were measured.
    """

    entry: Entry
    cells: list[str]
    accuracy: float | None
    costs: list[float]


def line(entry: Entry, network: str, chosen: argparse.Namespace) -> Line | None:
    """The row of a method; None if it was not chosen, cannot be run, or has not been run."""
    if chosen.rows and not any(fnmatch(entry.label, pattern) for pattern in chosen.rows):
        return None
    cells, means, last = [], [], None
    for dataset in chosen.datasets:
        specs = [spec_of(entry, network, dataset, seed, chosen.data) for seed in chosen.seeds]
        results = [done(entry, spec, (network, dataset), chosen) for spec in specs]
        found = [each for each in results if isinstance(each, Cell)]
        why = next((each for each in results if isinstance(each, str)), None)
        cells.append(shown(found))
        console.remark(f"{network}, {dataset}, {entry.label}: {why or cells[-1]}")
        means += [np.mean([cell.accuracy for cell in found])] if found else []
        if found and (last is None or dataset == "birds"):
            last = found[-1]
    if last is None:
        return None
    costs = [float(last.state_bytes)]
    cost = [f"{last.forward:.3g}", f"{last.training:.3g}" if last.training else "", size_of(last.state_bytes)]
    if chosen.costs:
        costs.append(seconds(last, entry, chosen.data))
        cost.append(f"{costs[-1]:,.0f}")
    whole = len(means) == len(chosen.datasets)
    return Line(entry, [entry.label, *cells, *cost], 100 * float(np.mean(means)) if whole else None, costs)


def draw(path: Path, lines: Sequence[Line], network: str) -> None:
    """Accuracy against bytes, and against seconds: a point per method; those that train have another sign."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.5), dpi=130, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    titles = ("bytes kept besides the frozen network", "seconds to learn the birds, one thread")
    for number, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        for each in lines:
            if each.accuracy is None:
                continue
            kind, at = int(each.entry.trains), (each.costs[number], each.accuracy)
            axes.plot(*at, MARKERS[kind], color=SAFE_COLOURS[kind], markersize=6)
            axes.annotate(
                each.entry.label, at, xytext=(5, 3), textcoords="offset points", fontsize=7, color=INK
            )
        axes.set_xscale("log")
        axes.set_xlabel(title, color=INK)
        axes.grid(alpha=0.2)
    panels[0].set_ylabel("A_T in percent, mean over the datasets", color=INK)
    figure.suptitle(f"Accuracy against cost, {network}", color=INK)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=HERE / "table")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--rows", nargs="+", help="only these rows, such as nmc or 'layup, *'")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--finished", action="store_true")
    parser.add_argument("--costs", action="store_true")
    parser.add_argument("--save", type=Path, help="with --costs: draw accuracy against cost")
    parser.add_argument("--page", type=Path, help="write the tables into this page, between their marks")
    parser.add_argument("--cells", type=Cells, default="docs/methods/cells.json", help="what was measured")
    chosen = parser.parse_args()
    for network in chosen.networks:
        console.say(f"{network}:")
        lines = [each for entry in entries(network) if (each := line(entry, network, chosen)) is not None]
        columns = ["method", *chosen.datasets, "passes per image", "trained", "state"]
        columns += ["seconds"] if chosen.costs else []
        table = to_markdown(Table.of(columns, [each.cells for each in lines]))
        print(table)
        if chosen.page:
            page = chosen.page.read_text("utf-8")
            storage.write_text(chosen.page, filled(page, f"methods, {network}", table))
        if chosen.save and chosen.costs:
            draw(chosen.save.with_stem(f"{chosen.save.stem}-{network.lower()}"), lines, network)


if __name__ == "__main__":
    main()
