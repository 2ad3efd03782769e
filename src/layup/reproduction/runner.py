"""Runs what items need: each run once, by the loop of `layup run`, with the same records.

Runs that differ only in depth are one run. If something cannot be run, a sentence says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from layup.adapters import usual_adapter
from layup.backbones import Backbone, load_backbone
from layup.benchmark import NO_ADAPTER, Experiment, Record, RunSpec, Scenario, spread_runs
from layup.benchmark.datasets import Dataset
from layup.benchmark.methods import method_class
from layup.benchmark.scenarios import TASKS
from layup.cluster import Cluster
from layup.errors import InputError, LayupError
from layup.features import Reading
from layup.reproduction.config import Column, ReproductionConfig
from layup.reproduction.spec import ADAPTERS, FIRST_SEED, SWEPT, USUAL, Spec, together
from layup.tuning import FirstSession

OWN_EPOCHS = ("joint-probe",)
"""Methods that train, but on cached features: their epochs are never cut."""

RUNNING = "running"
FINISHED = "finished"
TOO_DEEP = "'{}' does not have that many layers."
PAPER_DEPTH = 12


@dataclass(frozen=True)
class Missing:
    """Why there is no record."""

    why: str


Found = Record | Missing
Wanted = list[tuple[Column, Spec]]
Records = Mapping[tuple[Column, Spec], Found]


@dataclass(frozen=True)
class Job:
    """One run: a dataset, a spec without its depth, and its depths (empty if it has none)."""

    column: Column
    spec: Spec
    depths: tuple[int, ...] = ()

    @property
    def specs(self) -> list[Spec]:
        """All specs whose records it gives."""
        if not self.depths:
            return [self.spec]
        return [self.spec.having(**{SWEPT[self.spec.method]: depth}) for depth in self.depths]

    def title(self, config: ReproductionConfig) -> str:
        """The run in a line."""
        spec = self.spec
        words = [self.column.label, spec.setting, spec.method, config.networks[spec.network or ""]]
        words += [spec.adapter] if spec.adapter else []
        words += [f"{name}={value}" for name, value in spec.options]
        if self.depths:
            first, last = self.depths[0], self.depths[-1]
            words.append(f"{SWEPT[spec.method]} {first}{f' … {last}' * (last > first)}")
        words += [f"{spec.tasks} tasks"] if spec.tasks else []
        words += [f"{spec.per_class} per class"] if spec.per_class else []
        return ", ".join([*words, f"seed {spec.seed}"])


def jobs_of(wanted: Iterable[tuple[Column, Spec]]) -> list[Job]:
    """The runs that give all of these; one for all depths of the same.

    >>> column = Column("digits", "digits", "cil")
    >>> found = jobs_of((column, Spec("layup", "IN1K").having(k=k)) for k in (1, 6))
    >>> [job.depths for job in found]
    [(1, 6)]
    """
    by_column: dict[Column, list[Spec]] = {}
    for column, spec in wanted:
        by_column.setdefault(column, []).append(spec)
    return [
        Job(column, whole, depths)
        for column, specs in by_column.items()
        for whole, depths in together(specs).items()
    ]


@dataclass
class Runner:
    """A config, and a folder of records.

    only_finished: run nothing; runs that are not finished are missing.
    cluster: where runs are done, if not by this process, one after another.
    """

    config: ReproductionConfig
    folder: Path
    reading: Reading = field(default_factory=Reading)
    only_finished: bool = False
    cluster: Cluster | None = None
    _datasets: dict[Column, Dataset | LayupError] = field(default_factory=dict)
    _networks: dict[str, Backbone | LayupError] = field(default_factory=dict)

    def dataset(self, column: Column) -> Dataset:
        """A dataset, loaded once."""
        found: Dataset = _once(self._datasets, column, lambda: column.load(self.config.data))
        return found

    def network(self, role: str) -> Backbone:
        """What stands for one of the paper's networks, loaded once."""
        name = self.config.networks[role]
        how = self.config.loading.get(name, {})
        found: Backbone = _once(self._networks, role, lambda: load_backbone(name, **how))
        return found

    def depth(self, role: str) -> int:
        """How many layers a network has; for the paper's it is known without the weights."""
        if not self.config.like_paper:
            with suppress(LayupError):
                return self.network(role).depth
        return PAPER_DEPTH

    def experiment(self, job: Job) -> Experiment:
        """The run itself; raises a `LayupError` if it is impossible."""
        spec = job.spec
        if spec.method in self.config.without:
            raise InputError(f"'{spec.method}' is left out.")
        run_spec = self.run_spec(job)
        dataset, network = self.dataset(job.column), self.network(spec.network or "")
        if (session := run_spec.first_session(spec.setting)) is not None:
            self._require_fit(session, spec)
        return run_spec.resolve(self.folder, reading=self.reading, dataset=dataset, backbone=network)

    def run_spec(self, job: Job) -> RunSpec:
        """The run in plain values, as large as this config has it."""
        column, spec, config = job.column, job.spec, self.config
        network = config.networks[spec.network or ""]
        depths = {SWEPT[spec.method]: job.depths} if job.depths else {}
        epochs = None if spec.adapter is None else config.session_epochs
        return RunSpec(
            column.dataset,
            spec.setting,
            spec.method,
            {**self.options(spec), **dict(spec.options), **depths},
            network,
            **config.loading.get(network, {}),
            adapter=spec.adapter or NO_ADAPTER,
            session={} if epochs is None else {"epochs": epochs},
            preset=config.preset,
            seed=spec.seed,
            shuffled=self._order(column, spec),
            tasks=spec.tasks,
            per_class=spec.per_class,
            sample=column.sample,
            data=config.data,
        )

    def _order(self, column: Column, spec: Spec) -> str | None:
        """Other seeds have other orders of classes or, where that is fixed (VTAB), of tasks."""
        # In the authors' code no order is fixed.
        if spec.seed == FIRST_SEED or spec.setting == "dil" or self.config.preset == "official":
            return None
        return None if self.dataset(column).shuffled else TASKS

    def scenario(self, column: Column, spec: Spec) -> Scenario:
        """The tasks of a run."""
        return self.run_spec(Job(column, spec)).scenario(self.dataset(column))

    def _require_fit(self, session: FirstSession, spec: Spec) -> None:
        """Refuse an adapter that does not fit the network, before anything is read."""
        network = self.network(spec.network or "")
        key = f"{spec.network}, {spec.adapter}"
        _once(self._networks, key, lambda: session.attach(network))

    def options(self, spec: Spec) -> dict[str, Any]:
        """The options that this config changes."""
        own = dict(self.config.options.get(spec.method, {}))
        trains = "epochs" in method_class(spec.method).option_names() and spec.method not in OWN_EPOCHS
        return own | ({"epochs": self.config.epochs} if trains and self.config.epochs is not None else {})

    def narrow(self, spec: Spec) -> int | None:
        """The random projections of RanPAC, if this config has fewer than its authors."""
        own, usual = (each.get("width", 0) for each in (self.options(spec), usual_options(spec.method)))
        return own if 0 < own < usual else None

    def resolved(self, column: Column, spec: Spec) -> Spec:
        """The spec with the dataset's tasks and the network's adapter, where it leaves them open."""
        # If there is no dataset or network, the run will say why.
        if spec.adapter == USUAL:
            spec = replace(spec, adapter=ADAPTERS[0])
            if not self.config.like_paper:
                with suppress(LayupError):
                    network = self.network(spec.network or "").network
                    spec = replace(spec, adapter=usual_adapter(network))
        if spec.tasks is None and spec.setting != "dil":
            with suppress(LayupError):
                spec = replace(spec, tasks=self.dataset(column).tasks)
        return spec

    def jobs(self, wanted: Iterable[tuple[Column, Spec]]) -> list[Job]:
        """The runs that give all of these."""
        return jobs_of((column, self.resolved(column, spec)) for column, spec in wanted)

    def gather(self, wanted: Sequence[tuple[Column, Spec]], on_job: Callable[[Job, str], None]) -> Records:
        """Run what is missing, and return all records; `on_job` is called with the outcome of every run."""
        found: dict[tuple[Column, Spec], Found] = {}
        jobs = self.jobs(wanted)
        spread = self._spread(jobs, on_job)
        for job in jobs:
            done = self._given(job, spread[job]) if job in spread else self._done(job, on_job)
            found |= {(job.column, spec): each for spec, each in done.items()}
        return {(column, spec): found[column, self.resolved(column, spec)] for column, spec in wanted}

    def _spread(
        self, jobs: Sequence[Job], on_job: Callable[[Job, str], None]
    ) -> dict[Job, Mapping[str, Record] | LayupError]:
        """What came of the runs that a cluster can do: those that are possible, and not finished yet."""
        if self.cluster is None or self.only_finished:
            return {}
        found: dict[Job, Mapping[str, Record] | LayupError] = {}
        if not (todo := [job for job in jobs if self._is_open(job)]):
            return found
        specs = [self.run_spec(self.within(job)) for job in todo]
        for number, ran in spread_runs(specs, self.folder, self.cluster, reading=self.reading):
            job = todo[number]
            found[job] = ran if isinstance(ran, LayupError) else ran.records
            on_job(job, first_line(str(ran)) if isinstance(ran, LayupError) else FINISHED)
        return found

    def _is_open(self, wanted: Job) -> bool:
        """Whether a run is possible, and not finished."""
        job = self.within(wanted)
        if wanted.depths and not job.depths:
            return False
        try:
            return self.experiment(job).finished() is None
        except LayupError:
            return False

    def _done(self, wanted: Job, on_job: Callable[[Job, str], None]) -> dict[Spec, Found]:
        job = self.within(wanted)
        if wanted.depths and not job.depths:
            return self._given(wanted, {})
        try:
            experiment = self.experiment(job)
            records, what = experiment.finished(), "finished before"
            if records is None and self.only_finished:
                raise InputError("It has not been run.")
            if records is None:
                on_job(job, RUNNING)
                *_, records = experiment.go()
                what = FINISHED
        except LayupError as error:
            on_job(job, first_line(str(error)))
            return self._given(wanted, error)
        on_job(job, what)
        return self._given(wanted, records)

    def _given(self, wanted: Job, came: Mapping[str, Record] | LayupError) -> dict[Spec, Found]:
        """By spec what came of a run; its network may not be deep enough for all of them."""
        job = self.within(wanted)
        too_deep = Missing(TOO_DEEP.format(self.config.networks[job.spec.network or ""]))
        found: dict[Spec, Found] = dict.fromkeys(wanted.specs, too_deep)
        if isinstance(came, LayupError):
            return {**found, **dict.fromkeys(job.specs, Missing(first_line(str(came))))}
        several = len(job.depths) > 1
        possible = [] if wanted.depths and not job.depths else job.specs
        return {**found, **{spec: came[str(spec.depth) if several else ""] for spec in possible}}

    def within(self, job: Job) -> Job:
        """The run with those of its depths that the network has."""
        depth = self.depth(job.spec.network or "")
        return replace(job, depths=tuple(k for k in job.depths if k <= depth))


def usual_options(method: str) -> dict[str, Any]:
    """The options of a method where nothing is chosen."""
    return method_class(method).with_options({}).options()


def first_line(text: str) -> str:
    """What an error says before it goes into details.

    >>> first_line("There is no x. Use y.\\nExpected: z")
    'There is no x. Use y.'
    """
    return text.partition("\n")[0]


def _once(known: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    """What was made before, or the error that was raised; otherwise it is made now."""
    if key not in known:
        try:
            known[key] = make()
        except LayupError as error:
            known[key] = error
    if isinstance(known[key], LayupError):
        raise known[key]
    return known[key]
