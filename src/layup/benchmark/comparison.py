"""Records of runs → rows to compare: repeats put together, means with their errors, paired differences.

Two runs are repeats of one experiment if they differ in nothing but seeds. Each experiment is a `Group` with
a short label, which says how it differs from the others.

An error is of one kind only: over seeds if an experiment was repeated; over test images (a bootstrap) if it
was run once, or if the seeds do not change the last predictions: the same sums give the same predictions, in
any order of learning. `Measured.over` says which.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from layup.benchmark import metrics
from layup.benchmark.metrics import Band, Curve
from layup.benchmark.results import Record
from layup.benchmark.run_names import facts_of, labels, natural_order, short_dataset, without_seeds
from layup.errors import InputError, MismatchError
from layup.formats import csv_text
from layup.registry import unknown_name

Over = Literal["seeds", "images"] | None

ACCURACIES = tuple(metrics.summary(np.empty((0, 0)), []))
"""The names of the numbers that a record sums up."""

# Only these follow from the last predictions, which a record keeps. True: every image counts the same.
FROM_LAST_PREDICTIONS = {
    "average_accuracy": False,
    "mean_over_all_tasks": False,
    "sample_weighted_accuracy": True,
    "sample_weighted_over_all_tasks": True,
}


def authors_passes(record: Record) -> int:
    """How many images the authors' protocol would have sent through the backbone to read them.

    Each training image once, and the tests of each task after that task and every later one; in DIL too, as
    their code tests the domains seen so far. Passes to train an adapter are not counted.
    """
    last = len(record.tasks)
    return sum(task.train + task.test * (last - i) for i, task in enumerate(record.tasks))


def _peak(record: Record) -> int | None:
    known = [step.peak_memory for step in record.steps if step.peak_memory is not None]
    return max(known, default=None)


COSTS: dict[str, Callable[[Record], float | None]] = {
    "seconds": lambda record: sum(step.learn_seconds + step.predict_seconds for step in record.steps),
    "learn_seconds": lambda record: sum(step.learn_seconds for step in record.steps),
    "predict_seconds": lambda record: sum(step.predict_seconds for step in record.steps),
    "forward_passes": lambda record: sum(step.forward_passes for step in record.steps),
    "training_passes": lambda record: sum(step.training_passes for step in record.steps),
    "authors_forward_passes": authors_passes,
    "peak_memory": _peak,
    "state_bytes": lambda record: record.steps[-1].state_bytes,
}
"""What a run took, by name; times and counts are those of the whole run."""

METRICS = (*ACCURACIES, *COSTS)
"""All that `Group.measure` knows."""


@dataclass(frozen=True)
class Measured:
    """A mean over runs and its standard error; None if it is undefined.

    over: what the error is over, "seeds" or (for one run, or if all predict the same) test "images".
    """

    mean: float | None
    error: float | None = None
    over: Over = None


@dataclass(frozen=True)
class Difference:
    """How much better one experiment's A_T is than another's, and how sure that is.

    over: "seeds": the mean and standard error over pairs of runs of one seed. "images": one pair, or several
    whose predictions are the same, with the standard error and the 95 % interval (low, high) of a paired
    bootstrap over the test images.
    """

    mean: float
    error: float | None
    over: Over
    pairs: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Group:
    """An experiment: runs that differ only in their seeds."""

    label: str
    records: list[Record]

    @property
    def run(self) -> dict[str, Any]:
        """What its runs have in common: all except the seeds."""
        return without_seeds(self.records[0].run)

    @property
    def seeds(self) -> list[Any]:
        """The seed of each run."""
        return [record.run.get("seed") for record in self.records]

    def measure(self, name: str) -> Measured:
        """The mean over runs of one of `METRICS`, with its error."""
        if name not in METRICS:
            raise unknown_name("metric", name, METRICS)
        values = [COSTS[name](record) if name in COSTS else record.summary[name] for record in self.records]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return Measured(None)
        mean = float(np.mean(known))
        if self.same_predictions and name in FROM_LAST_PREDICTIONS:
            right, tasks = last_right(self.records[0])
            found = metrics.bootstrap(right, tasks, by_image=FROM_LAST_PREDICTIONS[name])
            return Measured(mean, found.standard_error, "images")
        if np.allclose(known, mean, rtol=0, atol=1e-12):  # seeds make no difference
            return Measured(mean)
        return Measured(mean, metrics.standard_error(known), "seeds")

    @cached_property
    def same_predictions(self) -> bool:
        """Whether all runs end with the same predictions: there was one run, or the seeds do not matter."""
        first, *others = (_named(record, record.predictions) for record in self.records)
        return all(first == other for other in others)

    def curve(self, of: Callable[[Record], Curve]) -> Band:
        """The mean and the standard error over runs of a curve, such as `accuracy_curve`."""
        return metrics.band([of(record) for record in self.records])

    def per_class(self, *, first: bool = False) -> dict[str, float]:
        """The accuracy of each class after the last task, or when it was first tested; the mean over runs."""
        found: dict[str, list[float]] = {}
        for record in self.records:
            steps = [step.per_class for step in record.steps]
            ordered = steps[::-1] if first else steps
            last = {name: value for step in ordered for name, value in step.items()}
            for name, value in last.items():
                found.setdefault(name, []).append(value)
        return {
            name: float(np.mean(values)) for name, values in found.items() if len(values) == len(self.records)
        }

    def confusion(self) -> tuple[list[str], NDArray[np.int64]]:
        """Classes, and how often each was predicted as which after the last task, summed over different runs.

        The classes are in the order of learning if that was the same in all runs, and sorted otherwise.
        """
        orders = [record.class_order for record in self.records]
        same = all(order == orders[0] for order in orders)
        names = list(orders[0]) if same else sorted(set().union(*orders))
        table = np.zeros((len(names), len(names)), np.int64)
        for record in self.records[:1] if self.same_predictions else self.records:
            classes = np.array(record.class_order)
            table += metrics.confusion(classes[record.truth], classes[record.predictions], names)[1]
        return names, table


def accuracy_curve(record: Record) -> Curve:
    """A_t of a run."""
    return metrics.average_accuracy_curve(record.matrix)


def forgetting_curve(record: Record) -> Curve:
    """F_t of a run."""
    return metrics.forgetting_curve(record.matrix)


def over_all_curve(record: Record) -> Curve:
    """The mean over all domains after each task; NaN if they were not all tested."""
    return metrics.mean_over_all_curve(record.matrix)


@dataclass(frozen=True)
class Comparison:
    """Experiments in the order of their labels, and notes on comparing them."""

    groups: list[Group]
    notes: list[str]
    subject: str
    """What all have in common, for a title: the dataset and the setting."""

    def find(self, text: str) -> Group:
        """The group of this label or, failing that, of this number, counted from 1."""
        for group in self.groups:
            if group.label == text:
                return group
        if text.isdecimal() and 0 < int(text) <= len(self.groups):
            return self.groups[int(text) - 1]
        labels = [group.label for group in self.groups]
        raise unknown_name(f"row (labels, or numbers from 1 to {len(labels)})", text, labels)


def compare(records: Iterable[Record]) -> list[Comparison]:
    """Put repeats together, and find a short label for each experiment.

    Each dataset and setting is a separate comparison: numbers of two cannot be compared.

    >>> compare([])
    Traceback (most recent call last):
    layup.errors.InputError: There is nothing to compare: no records were given.
    """
    parts: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        run = record.run
        key = (short_dataset(run.get("dataset")), str(run.get("setting")), str(run.get("data") or ""))
        parts.setdefault(key, []).append(record)
    if not parts:
        raise InputError("There is nothing to compare: no records were given.")
    named = [(dataset, setting) for dataset, setting, _ in parts]
    found = []
    for (dataset, setting, data), members in parts.items():
        # The same name may stand for other images, such as those of another split.
        several = named.count((dataset, setting)) > 1
        found.append(_compared(members, f"{dataset}{f' {data[:8]}' if several else ''}, {setting}"))
    return found


def compare_to(records: Iterable[Record], against: str | None) -> list[tuple[Comparison, Group | None]]:
    """The comparisons of records, each with the group of this label or number, if it has one.

    Raises if no comparison has one.
    """
    parts: list[tuple[Comparison, Group | None]] = []
    unknown: InputError | None = None
    for found in compare(records):
        baseline = None
        if against is not None:
            try:
                baseline = found.find(against)
            except InputError as error:
                unknown = error
        parts.append((found, baseline))
    if unknown and not any(baseline for _, baseline in parts):
        raise unknown
    return parts


def _compared(records: Sequence[Record], subject: str) -> Comparison:
    grouped: dict[str, dict[str, Record]] = {}
    notes = []
    for record in records:
        if not record.finished:
            raise InputError(
                f"The run '{record.name}' is not finished: {len(record.steps)} of {len(record.tasks)} tasks."
            )
        repeats = grouped.setdefault(_canonical(without_seeds(record.run)), {})
        known = repeats.setdefault(_canonical(record.run), record)
        if known.matrix.tobytes() != record.matrix.tobytes() or known.predictions != record.predictions:
            notes.append(f"The run '{record.name}' is there twice, with other numbers: the first one counts.")
    members = [list(repeats.values()) for repeats in grouped.values()]
    names = labels([group[0].run for group in members])
    groups = [Group(name, group) for name, group in zip(names, members, strict=True)]
    if len({frozenset(map(str, group.seeds)) for group in groups}) > 1:
        notes.append(
            "Not all were run with the same seeds: differences are between those of the seeds in common."
        )
    return Comparison(sorted(groups, key=lambda group: natural_order(group.label)), notes, subject)


def difference(group: Group, baseline: Group) -> Difference:
    """How much better a group's A_T is than the baseline's, run against run of the same seed.

    What two runs share, such as the order of classes and the test images, then cancels.
    """
    ours, theirs = _by_seed(group), _by_seed(baseline)
    common = [seed for seed in ours if seed in theirs]
    if not common:
        raise MismatchError(
            f"'{group.label}' and '{baseline.label}' have no seed in common ({_listed(ours)}; "
            f"{_listed(theirs)}), so no runs that can be paired. Run both with the same seeds."
        )
    found = []
    for seed in common:
        for record in (*ours[seed], *theirs[seed]):
            _require_same_tests(record, theirs[seed][0], group, baseline)
        found.append(_average(ours[seed]) - _average(theirs[seed]))
    mean = float(np.mean(found))
    alike = group.same_predictions and baseline.same_predictions
    if len(common) > 1 and not alike:
        return Difference(mean, metrics.standard_error(found), "seeds", len(common))
    a, b = ours[common[0]], theirs[common[0]]
    if (len(a) > 1 or len(b) > 1) and not alike:
        return Difference(mean, None, None, 1)
    right, tasks = last_right(a[0])
    if tasks.tolist() != last_right(b[0])[1].tolist():
        raise MismatchError(
            f"'{group.label}' and '{baseline.label}' divide the test images among tasks in different ways, "
            "so a single pair of runs has no paired error. Run both with two seeds or more."
        )
    interval = metrics.paired_bootstrap(right, last_right(b[0])[0], tasks)
    return Difference(mean, interval.standard_error, "images", 1, interval.low, interval.high)


def to_json(
    comparison: Comparison, names: Sequence[str], baseline: Group | None = None
) -> list[dict[str, Any]]:
    """The rows of a comparison as JSON: for each group what was run, and each metric by its full name."""
    rows = []
    for group in comparison.groups:
        row: dict[str, Any] = {
            "subject": comparison.subject,
            "label": group.label,
            "runs": len(group.records),
            "seeds": group.seeds,
            "run": group.run,
            "metrics": {name: asdict(group.measure(name)) for name in names},
        }
        if baseline is not None:
            row["against"] = baseline.label
            row["difference"] = None if group is baseline else asdict(difference(group, baseline))
        rows.append(row)
    return rows


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Such rows as CSV, a line each: what was run, each metric, its error, and over what that is."""
    lines = []
    for row in rows:
        line = {name: row[name] for name in ("subject", "label", "runs")}
        line["seeds"] = " ".join(map(str, row["seeds"]))
        line |= {f"run.{name}": value for name, value in facts_of(row["run"]).items()}
        measured = dict(row["metrics"])
        if "against" in row:
            line["against"] = row["against"]
            measured["difference"] = row["difference"] or {}
        for name, found in measured.items():
            line |= {
                name: found.get("mean"),
                f"{name}.standard_error": found.get("error"),
                f"{name}.error_over": found.get("over"),
            }
        lines.append(line)
    columns = list(dict.fromkeys(name for line in lines for name in line))
    # What was run comes before what was measured, also where groups do not have the same options.
    first = ("subject", "label", "runs", "seeds")
    columns.sort(key=lambda name: name not in first and not name.startswith("run."))
    return csv_text([columns, *([line.get(column) for column in columns] for line in lines)])


def _data_name(run: Mapping[str, Any]) -> str:
    """A dataset and what it holds: the same name may stand for other images."""
    return f"{short_dataset(run.get('dataset'))} {str(run.get('data') or '')[:8]}".strip()


def _canonical(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def last_right(record: Record) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether each last prediction is right, and the task of each."""
    return np.array(record.truth) == np.array(record.predictions), np.array(record.test_tasks)


def _named(record: Record, indices: Sequence[int]) -> list[str]:
    return [record.class_order[index] for index in indices]


def _by_seed(group: Group) -> dict[Any, list[Record]]:
    found: dict[Any, list[Record]] = {}
    for record, seed in zip(group.records, group.seeds, strict=True):
        found.setdefault(seed, []).append(record)
    return found


def _average(records: Sequence[Record]) -> float:
    """A_T, the mean over runs."""
    values = [record.summary["average_accuracy"] for record in records]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        raise InputError(f"'{records[0].name}' has a task without tests, so no average accuracy to compare.")
    return float(np.mean(known))


def _require_same_tests(a: Record, b: Record, group: Group, baseline: Group) -> None:
    # Indices of classes mean different classes in runs of different orders: compare names.
    if _named(a, a.truth) != _named(b, b.truth):
        raise MismatchError(
            f"'{group.label}' and '{baseline.label}' were tested on different images: {_tests(a)}, and "
            f"{_tests(b)}. Only runs of the same tests can be paired."
        )


def _tests(record: Record) -> str:
    return f"{len(record.truth):,} of {_data_name(record.run)}"


def _listed(seeds: Iterable[Any]) -> str:
    return ", ".join(map(str, seeds))
