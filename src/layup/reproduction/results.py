"""The records that items need, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from layup.benchmark import Record, metrics
from layup.benchmark.comparison import Difference, Group, difference, last_right
from layup.benchmark.metrics import Interval
from layup.errors import MismatchError
from layup.reproduction import analysis
from layup.reproduction.config import Column, ReproductionConfig
from layup.reproduction.runner import Found, Missing, Records, Runner
from layup.reproduction.spec import NETWORKS, PLAIN, Spec, each_combination


@dataclass(frozen=True)
class Results:
    """A runner and the records that it has gathered."""

    runner: Runner
    gathered: Records
    _known: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """A value that takes long to compute and is needed twice, computed the first time."""
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    @property
    def config(self) -> ReproductionConfig:
        """The config of the runner."""
        return self.runner.config

    def found(self, column: Column, spec: Spec) -> Found:
        """The record of a run, or why there is none."""
        return self.gathered.get((column, spec), Missing("It was not requested."))

    def record(self, column: Column, spec: Spec) -> Record | None:
        """The record of a run, if there is one."""
        found = self.found(column, spec)
        return found if isinstance(found, Record) else None

    def records(self, column: Column, specs: Iterable[Spec]) -> dict[Spec, Record]:
        """The records that exist, of several runs."""
        return {spec: record for spec in specs if (record := self.record(column, spec)) is not None}

    def interval(self, column: Column, spec: Spec) -> Interval | None:
        """A_T of a run, and how far it would vary with other test images.

        A method that learns all tasks jointly is scored by the tasks of the others: the mean over tasks
        differs from the mean over images if tasks are not of equal size.
        """
        record = self.record(column, spec)
        if record is None:
            return None
        if len(record.tasks) > 1:
            return interval(record)
        scenario = self.runner.scenario(column, spec)
        return metrics.bootstrap(last_right(record)[0], scenario.test_tasks)

    def gain(self, column: Column, spec: Spec, over: Spec) -> Difference | None:
        """How much better one run is than another, by a paired bootstrap; None if they are not a pair."""
        ours, theirs = self.record(column, spec), self.record(column, over)
        if ours is None or theirs is None:
            return None
        try:
            return difference(Group("ours", [ours]), Group("theirs", [theirs]))
        except MismatchError:
            return None

    def contrast(self, column: Column, weights: Mapping[Spec, float], level: float = 0.95) -> Interval | None:
        """A weighted sum of the A_T of several runs; None if one is missing, or they are not of one kind."""
        records = list(self.records(column, weights).values())
        if len(records) < len(weights) or len({_tests(record) for record in records}) > 1:
            return None
        right = [last_right(record)[0] for record in records]
        return analysis.contrast(right, list(weights.values()), records[0].test_tasks, level=level)

    def choices(self, column: Column, setting: str) -> list[Spec]:
        """Of LayUP's six combinations, those whose first session did best on its held-out images."""
        known = {
            spec: accuracy
            for spec, record in self.records(column, combinations(setting)).items()
            if (accuracy := held_out(record)) is not None
        }
        return [spec for spec, accuracy in known.items() if accuracy == max(known.values())]

    def network_name(self, role: str | None) -> str:
        """What a network is called here."""
        return role or "" if self.config.like_paper else self.config.networks[role or PLAIN]

    def combination(self, spec: Spec) -> str:
        """Network and adapter of a run, as text."""
        return ", ".join(filter(None, (self.network_name(spec.network), spec.adapter)))

    def pairings(self, columns: Sequence[Column], networks: Sequence[str] = NETWORKS) -> list[Pairing]:
        """Every dataset with every network."""
        return [Pairing(column, role, self.network_name(role)) for column in columns for role in networks]


@dataclass(frozen=True)
class Pairing:
    """A dataset with a network."""

    column: Column
    network: str
    network_name: str

    @property
    def label(self) -> str:
        """Both, as text."""
        return f"{self.column.label}, {self.network_name}"


def combinations(setting: str) -> tuple[Spec, ...]:
    """LayUP's six: three adapters, two networks."""
    return each_combination(Spec("layup", setting=setting).having(k=6))


def chosen_of(candidates: Sequence[Spec], choices: Sequence[Spec]) -> Spec | None:
    """The candidate of the chosen combination; of those without an adapter, that of its network.

    Of combinations that are tied, the first is chosen.
    """
    if not choices:
        return None
    choice = choices[0]
    same = (
        spec
        for spec in candidates
        if spec.network == choice.network and spec.adapter in (None, choice.adapter)
    )
    return next(same, None)


def interval(record: Record) -> Interval:
    """A_T of a record, and the interval of a bootstrap over its test images."""
    right, tasks = last_right(record)
    return metrics.bootstrap(right, tasks)


def _tests(record: Record) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The class and the task of every test image."""
    return tuple(record.class_order[index] for index in record.truth), tuple(record.test_tasks)


def held_out(record: Record) -> float | None:
    """The accuracy of a run's first session on the images of the first task that it held out, if it did."""
    course = record.steps[0].chosen.get("adaptation")
    return None if course is None else course["epochs"][course["kept"] - 1]["accuracy"]


def final_per_class(record: Record) -> dict[str, float]:
    """The accuracy of every class after the last task."""
    return record.steps[-1].per_class


def seeded(spec: Spec, seeds: Iterable[int]) -> list[Spec]:
    """The same run with each of these seeds."""
    return [replace(spec, seed=seed) for seed in seeds]
