"""Section 4.3 of the paper: what methods keep and compute, by formula and as measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from layup.benchmark import Record
from layup.errors import LayupError
from layup.formats import seconds, size_of, whole_percent
from layup.reproduction import costs
from layup.reproduction.config import Column
from layup.reproduction.costs import Cost, Setup
from layup.reproduction.results import Results
from layup.reproduction.runner import Missing, Runner, Wanted, first_line
from layup.reproduction.shown import Cell, Shown
from layup.reproduction.spec import PLAIN, USUAL, Spec
from layup.tables import Row, Table

FORMULAS: dict[str, Callable[[Setup], Cost]] = {
    "LayUP": costs.layup,
    "RanPAC": costs.ranpac,
    "SLCA": costs.slca,
    "ADAM": costs.adam,
}
RUNS = {
    "LayUP": Spec("layup", PLAIN, USUAL).having(k=6),
    "RanPAC": Spec("ranpac", PLAIN, USUAL),
    "SLCA": Spec("slca", PLAIN),
    "ADAM": Spec("adam", PLAIN, USUAL),
}
SAID: dict[str, tuple[float, float | None]] = {
    "RanPAC": (0.81, 0.9),
    "SLCA": (0.82, None),
    "ADAM": (0.75, None),
}
"""What LayUP saves compared with each, in memory and in operations, according to the paper."""
LARGEST = 10_000
"""Larger matrices are not solved just to be timed."""


@dataclass(frozen=True)
class Complexity:
    """The paper's count, the same count for the network that was run, and what was measured with it."""

    def wanted(self, runner: Runner) -> Wanted:
        """One run of each method, on the first class-incremental dataset."""
        return [(column, spec) for column in _first(runner) for spec in RUNS.values()]

    def show(self, results: Results) -> Shown:
        """Both tables."""
        return Shown([_by_formula(), *_measured(results)])


def _by_formula() -> Table:
    ours = costs.layup(Setup())
    lines = []
    for name, formula in FORMULAS.items():
        cost = formula(Setup())
        said_memory, said_operations = (
            "" if said is None else whole_percent(said) for said in SAID.get(name, (None, None))
        )
        memory = operations = ""
        if name != "LayUP":
            memory = whole_percent(costs.saving(ours.values, cost.values))
            if cost.operations and ours.operations:
                operations = whole_percent(costs.saving(ours.operations, cost.operations))
        counted = "trains only" if cost.operations is None else f"{cost.operations:.2g}"
        lines.append(
            Row(name, [f"{cost.values:,}", memory, said_memory, counted, operations, said_operations])
        )
    columns = ["values kept", "LayUP saves", "paper", "operations", "LayUP saves", "paper"]
    notes = [
        "By formula (`layup.reproduction.costs`), for ViT-B/16, k = 6, 200 classes and M = 10,000; without "
        "network, head and prototypes, as the paper counts. That LayUP saves a negative share of SLCA's "
        "operations means that it has more."
    ]
    return Table(columns, lines, "By formula, at the paper's size", notes)


def _measured(results: Results) -> list[Table]:
    title = "Measured, at the size that was run"
    columns = _first(results.runner)
    if not columns:
        return _nothing(title, "There is no class-incremental dataset.")
    column = columns[0]
    try:
        network = results.runner.network(PLAIN)
    except LayupError as error:
        return _nothing(title, first_line(str(error)))
    classes = len(results.runner.dataset(column).classes)
    widths = {layer.width for layer in network.layers}
    setup = Setup(
        width=max(widths),
        blocks=network.depth,
        classes=classes,
        projection=results.runner.options(RUNS["RanPAC"]).get("width", Setup().projection),
    )
    sizes = {"LayUP": setup.k * setup.width, "RanPAC": setup.projection}
    lines = []
    for name, spec in RUNS.items():
        found = results.found(column, spec)
        if isinstance(found, Missing):
            lines.append(Row(name, [Cell(missing=found.why), *[""] * 5]))
            continue
        # Ours shares the frozen weights of ADAM's two networks, so only the adapter is new.
        cost = costs.adam(setup, shared=True) if name == "ADAM" else FORMULAS[name](setup)
        lines.append(
            Row(
                name,
                [
                    f"{cost.values:,}",
                    size_of(found.steps[-1].state_bytes),
                    f"{_learning(found):,.1f}",
                    f"{sum(step.training_passes for step in found.steps):,}",
                    f"{sizes[name]:,}" if name in sizes else "",
                    _solved(sizes[name], classes) if name in sizes else "",
                ],
            )
        )
    notes = [
        f"{column.label} ({classes} classes), {results.network_name(PLAIN)}, M = {setup.projection:,}. "
        "State: everything a method keeps besides the frozen network, prototypes included; sums take 8 "
        "bytes per value and half of a symmetric matrix, trained values 4. Seconds of learning are of whole "
        "runs on a shared machine, with features that other runs may have left in the cache, and of LayUP "
        "for all k of its run: not to be compared closely. The solve is timed here, side by side: Cholesky "
        "in float64."
    ]
    headings = ["values by formula", "state", "seconds of learning", "training passes", "rows of G", "solve"]
    return [Table(headings, lines, title, notes)]


def _nothing(title: str, why: str) -> list[Table]:
    return [Table(["measured"], [Row("", [Cell(missing=why)])], title)]


def _first(runner: Runner) -> list[Column]:
    """The first class-incremental dataset that is available, if any."""
    for column in runner.config.of("cil"):
        with suppress(LayupError):
            runner.dataset(column)
            return [column]
    return []


def _learning(record: Record) -> float:
    return sum(step.learn_seconds for step in record.steps)


def _solved(rows: int, classes: int) -> str:
    """How long (G + λI)⁻¹ c takes for a G with this many rows."""
    if rows > LARGEST:
        return ""
    rng = np.random.default_rng(0)
    gram = np.eye(rows) + 1e-3 * rng.standard_normal((rows, 1)) @ np.ones((1, rows)) / rows
    gram = (gram + gram.T) / 2
    right = rng.standard_normal((rows, classes))
    began = time.perf_counter()
    linalg.cho_solve(linalg.cho_factor(gram), right)
    return seconds(time.perf_counter() - began)
