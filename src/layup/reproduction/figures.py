"""The paper's figures: what each runs, the numbers behind it, and its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from layup.benchmark import Record, metrics, plots, short_dataset
from layup.benchmark.comparison import accuracy_curve, forgetting_curve
from layup.benchmark.metrics import Band, Interval
from layup.formats import DASH, percent
from layup.reproduction import analysis, drawings
from layup.reproduction.characteristics import (
    MEASURES,
    Characteristic,
    all_depths,
    characteristics,
    correlations,
)
from layup.reproduction.config import Column
from layup.reproduction.results import Pairing, Results, final_per_class
from layup.reproduction.runner import Runner, Wanted
from layup.reproduction.shown import Cell, Picture, Shown
from layup.reproduction.spec import NETWORKS, USUAL, Spec
from layup.reproduction.tables import PerNetwork
from layup.tables import Row, Table


@dataclass(frozen=True)
class PerLayer:
    """Figure 2: a ridge classifier of every layer by itself, against that of the last one.

    only: of the paper's datasets, these.
    """

    only: tuple[str, ...]

    def wanted(self, runner: Runner) -> Wanted:
        """A run for each dataset and network, which answers for every layer."""
        return [
            (column, spec)
            for column in _only(runner, self.only)
            for network in NETWORKS
            for spec in _layers(runner, network)
        ]

    def show(self, results: Results) -> Shown:
        """The share of classes that each layer predicts better than the last."""
        panels: dict[str, dict[str, list[float]]] = {}
        pairings = results.pairings(_only(results.runner, self.only))
        columns: list[list[Cell | str]] = []
        rows = max(results.runner.depth(network) for network in NETWORKS)
        for pairing in pairings:
            specs = _layers(results.runner, pairing.network)[::-1]  # from the first layer to the last
            records = results.records(pairing.column, specs)
            if len(records) < len(specs):
                columns.append([_missing(results, pairing, specs[-1]), *[""] * (rows - 1)])
                continue
            shares = analysis.share_better([final_per_class(records[spec]) for spec in specs])
            panels.setdefault(pairing.column.label, {})[pairing.network_name] = shares
            shown = [percent(share) for share in (max(shares), *shares[::-1])]
            columns.append([*shown, *[""] * (rows - len(shown))])
        labels = ["highest", *(f"last − {before}" for before in range(1, rows))]
        lines = [Row(*row) for row in zip(labels, zip(*columns, strict=True), strict=True)] if columns else []
        note = (
            "Percent of classes that a ridge classifier of one layer predicts strictly better than that of "
            "the last layer, after the last task; nothing adapted. 'last − 1' is the layer before the last."
        )
        headings = [pairing.label for pairing in pairings]
        y_label = "classes better than with the last layer"
        draw = partial(drawings.per_layer, panels=panels, y_label=y_label)
        return Shown([Table(headings, lines, notes=[note])], _picture("figure2", draw, y_label, panels))


@dataclass(frozen=True)
class Integrations:
    """Figure 3: the last k layers with one Gram matrix, or the average of a classifier for each."""

    only: tuple[str, ...]
    depths: tuple[int, ...] = (1, 4, 6, 12)

    def wanted(self, runner: Runner) -> Wanted:
        """Both ways, each k, each dataset and network; nothing adapted."""
        return [
            (column, spec.on(network))
            for column in _only(runner, self.only)
            for network in NETWORKS
            for way in self.ways().values()
            for spec in way
        ]

    def ways(self) -> dict[str, list[Spec]]:
        """Either way, for each k; one layer has nothing to average."""
        shared = [Spec("layup").having(k=k) for k in self.depths]
        averaged = [Spec("layup-average" if k > 1 else "layup").having(k=k) for k in self.depths]
        return {"shared Gram matrix": shared, "averaged classifiers": averaged}

    def show(self, results: Results) -> Shown:
        """A_T and the mean of A_t of both ways."""
        measures = {"final": "A_T after the last task", "curve": "mean of A_t over tasks"}
        panels: dict[str, dict[str, dict[str, list[Interval | None]]]] = {name: {} for name in measures}
        lines = []
        for pairing in results.pairings(_only(results.runner, self.only)):
            for way, specs in self.ways().items():
                records = [results.record(pairing.column, spec.on(pairing.network)) for spec in specs]
                last = [results.interval(pairing.column, spec.on(pairing.network)) for spec in specs]
                means = [None if record is None else _mean_of_curve(record) for record in records]
                if any(last):
                    panels["final"].setdefault(pairing.label, {})[way] = last
                    panels["curve"].setdefault(pairing.label, {})[way] = [
                        None if mean is None else Interval(mean, np.nan, np.nan, np.nan) for mean in means
                    ]
                ends = [
                    _missing(results, pairing, spec.on(pairing.network))
                    if each is None
                    else _with_interval(each)
                    for spec, each in zip(specs, last, strict=True)
                ]
                lines.append(Row(f"{pairing.label}: {way}", [*ends, *map(percent, means)]))
        groups = [f"k = {k}" for k in self.depths]
        columns = [f"{measure}, {group}" for measure in ("A_T", "mean A_t") for group in groups]
        pictures = [
            picture
            for name, words in measures.items()
            for picture in _picture(
                f"figure3-{name}",
                partial(drawings.compared_bars, panels=panels[name], groups=groups, y_label=words),
                f"Shared Gram matrix and averaged classifiers: {words}.",
                panels[name],
            )
        ]
        note = (
            "A_T with its 95 % interval over the test images; the mean of the curve has none, since a record "
            "keeps only the last answers. Nothing adapted."
        )
        return Shown([Table(columns, lines, notes=[note])], pictures)


@dataclass(frozen=True)
class Characteristics:
    """Figure 4: the k that is best on the tests, against what the data are like."""

    def wanted(self, runner: Runner) -> Wanted:
        """Every k, after a first session."""
        return [
            (column, spec)
            for column in runner.config.everything
            for network in NETWORKS
            for spec in all_depths(runner, network)
        ]

    def show(self, results: Results) -> Shown:
        """Best k, MMD² to the source and similarities, and how they go together."""
        found = characteristics(results)
        lines = [
            Row(
                each.pairing.label,
                [
                    f"{each.best} of {each.depth}",
                    percent(each.accuracy),
                    DASH if each.mmd is None else f"{each.mmd:.2f}",
                    f"{each.within:.3f}",
                    f"{each.between:.3f}",
                ],
            )
            for each in found
        ]
        lines += [
            Row(pairing.label, [_missing(results, pairing, spec), *[""] * 4])
            for pairing in results.pairings(results.config.everything)
            if pairing not in {each.pairing for each in found}
            for spec in all_depths(results.runner, pairing.network)[:1]
        ]
        panels = {
            label: [
                drawings.Point(
                    value, each.best / each.depth, each.pairing.column.label, each.pairing.network_name
                )
                for each in found
                if (value := getattr(each, name)) is not None
            ]
            for name, label in MEASURES.items()
        }
        panels = {label: members for label, members in panels.items() if members}
        columns = [
            "best k (by test accuracy)",
            "its A_T",
            "MMD² / largest",
            "within classes",
            "between classes",
        ]
        notes = [
            "The best k is the one of the highest test accuracy: it can be known only afterwards. "
            "Similarities are mean cosines over all pairs of training images, of the network's final "
            "embedding before any adaptation.",
            _source_note(results),
            *_correlations(found),
        ]
        draw = partial(drawings.against_measures, panels=panels, y_label="best k, as a share of all layers")
        caption = "The best k (by test accuracy) against what the data are like."
        return Shown([Table(columns, lines, notes=notes)], _picture("figure4", draw, caption, panels))


def _correlations(found: Sequence[Characteristic]) -> list[str]:
    words = [
        f"{network}, {MEASURES[name]}: {each.value:+.2f} (chance {each.chance:.2f})"
        for (network, name), each in correlations(found).items()
    ]
    if not words:
        return []
    return [f"Rank correlation of the best k with each, over datasets: {'; '.join(words)}."]


def _source_note(results: Results) -> str:
    if results.config.source is None:
        return "MMD² needs images that stand for the networks' training data, and no source was given."
    stand_in = "" if ":" in results.config.source else " It is no network's training data, only a stand-in."
    return (
        f"The source is {short_dataset(results.config.source)}; the paper's is miniImageNet.{stand_in} "
        "MMD² is unbiased, with a Gaussian kernel; its bandwidth is the median distance within the source, "
        "one for all datasets of a network. Images that are in the source as well make it smaller."
    )


@dataclass(frozen=True)
class Universality:
    """Figure 5: which classes are better off with six layers than with one, and by how much."""

    def wanted(self, runner: Runner) -> Wanted:
        """K = 1 and 6 after a first session."""
        return [
            (column, Spec("layup", network, USUAL).having(k=k))
            for column in runner.config.of("cil")
            for network in NETWORKS
            for k in (1, 6)
        ]

    def show(self, results: Results) -> Shown:
        """Shares of classes, and the mean change of those that change."""
        changes: dict[str, analysis.ClassChange] = {}
        lines = []
        for pairing in results.pairings(results.config.of("cil")):
            one, six = (Spec("layup", pairing.network, USUAL).having(k=k) for k in (1, 6))
            before, after = results.record(pairing.column, one), results.record(pairing.column, six)
            if before is None or after is None:
                lines.append(Row(pairing.label, [_missing(results, pairing, six), *[""] * 4]))
                continue
            found = analysis.class_change(final_per_class(before), final_per_class(after))
            changes[pairing.label] = found
            numbers = (found.better, found.equal, found.worse, found.gain, found.loss)
            lines.append(Row(pairing.label, [percent(number) for number in numbers]))
        columns = ["better, %", "equal, %", "worse, %", "gain of those better", "loss of those worse"]
        note = (
            "Classes that k = 6 predicts better than k = 1 after the last task; gains and losses in points."
        )
        draw = partial(drawings.class_shares, changes=changes)
        caption = "Classes that are better, equal and worse with six layers than with the last alone."
        return Shown([Table(columns, lines, notes=[note])], _picture("figure5", draw, caption, changes))


@dataclass(frozen=True)
class Series:
    """A line of a picture over tasks: runs that differ only in their seeds.

    label: its name; a network's role in it becomes the name that the network has here.
    """

    label: str
    specs: tuple[Spec, ...]


@dataclass(frozen=True)
class OverTasks:
    """Figures 6 to 8: A_t and F_t after every task.

    Where the series do not say which network, each dataset has a row of panels for each network.
    """

    name: str
    series: tuple[Series, ...]
    caption: str
    setting: str = "cil"

    def wanted(self, runner: Runner) -> Wanted:
        """All runs of all series."""
        return [
            (column, spec.on(network))
            for column in runner.config.of(self.setting)
            for network in self.networks
            for series in self.series
            for spec in series.specs
        ]

    @property
    def networks(self) -> tuple[str, ...]:
        """Those that make a row; one is enough where the series have their own."""
        own = all(spec.network is not None for series in self.series for spec in series.specs)
        return NETWORKS[:1] if own else NETWORKS

    def show(self, results: Results) -> Shown:
        """The curves, and their ends in a table."""
        curves = {"average accuracy Aₜ": accuracy_curve, "forgetting Fₜ": forgetting_curve}
        rows: dict[str, dict[str, dict[str, Band]]] = {}
        lines = []
        for pairing in results.pairings(results.config.of(self.setting), self.networks):
            row = pairing.label if len(self.networks) > 1 else pairing.column.label
            for series in self.series:
                label = _named(results, series.label)
                specs = [spec.on(pairing.network) for spec in series.specs]
                records = list(results.records(pairing.column, specs).values())
                if not records:
                    lines.append(Row(f"{row}: {label}", [_missing(results, pairing, specs[0]), "", ""]))
                    continue
                bands = {what: metrics.band([of(each) for each in records]) for what, of in curves.items()}
                for what, found in bands.items():
                    rows.setdefault(row, {}).setdefault(what, {})[label] = found
                ends = [_end(found) for found in bands.values()]
                lines.append(Row(f"{row}: {label}", [str(len(records)), *ends]))
        columns = ["seeds", "A_T", "F_T"]
        draw = partial(plots.over_tasks_grid, rows=rows)
        notes = ["± is the standard error over seeds."]
        return Shown([Table(columns, lines, notes=notes)], _picture(self.name, draw, self.caption, rows))


@dataclass(frozen=True)
class Depths(PerNetwork):
    """Table 4, with a picture of accuracy over k."""

    def show(self, results: Results) -> Shown:
        """The table and the picture."""
        shown = super().show(results)
        panels: dict[str, dict[str, list[Interval | None]]] = {}
        for pairing in results.pairings(results.config.of(self.setting), self._networks(results.runner)):
            specs = all_depths(results.runner, pairing.network)
            found = [results.interval(pairing.column, spec) for spec in specs]
            if any(found):
                panels.setdefault(pairing.column.label, {})[pairing.network_name] = found
        draw = partial(drawings.depths, panels=panels, y_label="A_T")
        caption = "Accuracy over the number of last layers, k; the ring is the best by test accuracy."
        return Shown(shown.tables, _picture(self.printed, draw, caption, panels))


def _layers(runner: Runner, network: str) -> list[Spec]:
    """A classifier of each layer, the last one first."""
    return [Spec("ridge", network).having(layer=n + 1) for n in range(runner.depth(network))]


def _only(runner: Runner, labels: tuple[str, ...]) -> list[Column]:
    """The datasets that the paper's figure shows; with other datasets all."""
    columns = runner.config.of("cil")
    return [column for column in columns if column.label in labels or not runner.config.like_paper]


def _missing(results: Results, pairing: Pairing, spec: Spec) -> Cell:
    """A cell that says why there is no record."""
    found = results.found(pairing.column, spec)
    return Cell(missing="" if isinstance(found, Record) else found.why)


def _mean_of_curve(record: Record) -> float:
    return metrics.mean_of_curve(accuracy_curve(record))


def _with_interval(found: Interval) -> str:
    return f"{percent(found.value)} [{percent(found.low)}, {percent(found.high)}]"


def _end(found: Band) -> str:
    error = found.error[-1]
    return percent(found.mean[-1]) + ("" if np.isnan(error) else f" ± {percent(error)}")


def _named(results: Results, label: str) -> str:
    for role in NETWORKS:
        label = label.replace(role, results.network_name(role))
    return label


def _picture(name: str, draw: Any, caption: str, content: Mapping[str, Any]) -> list[Picture]:
    """A picture, if there is anything to be seen on it."""
    return [Picture(name, draw, caption)] if content else []
