"""A run in plain values: the one way from words to an experiment, for commands, benches and programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from layup.backbones import EAGER, Backbone, load_backbone
from layup.benchmark.datasets import Dataset, dataset_from, load_dataset
from layup.benchmark.experiment import Experiment
from layup.benchmark.methods import DepthsMethod, LayersMethod, Method, method_class
from layup.benchmark.recipes import Recipe, recipe_of, session_values
from layup.benchmark.results import Record
from layup.benchmark.scenarios import SHUFFLED, Scenario, scenario_of, usual_setting
from layup.errors import InputError
from layup.features import Reading
from layup.progress import progress_bar
from layup.registry import unknown_name
from layup.tuning import AUTO, PRESETS, WAYS, FirstSession, Way, prepared

DEFAULT = "default"
NO_ADAPTER = "none"
WITH_SESSION = "+fsa"
RESULTS = Path("results")

SWEEPS: dict[str, tuple[str, type[Method]]] = {
    "layup": ("k", DepthsMethod),
    "ridge": ("layer", LayersMethod),
}
"""By method, the option of which one run can have several values, and the method that runs them."""


@dataclass(frozen=True)
class RunSpec:
    """A run, in the words of `layup run`: plain values, of which only the dataset has to be given.

    >>> spec = RunSpec("digits", method="nmc", backbone="vit-nano", tasks=2)
    >>> experiment = spec.resolve("results")
    >>> experiment.scenario.setting, [task.classes for task in experiment.scenario.tasks]
    ('cil', [('4', '2', '7', '6', '0'), ('3', '5', '8', '9', '1')])

    Attributes:
        dataset: a name of `DATASETS`, folder:PATH or domains:PATH; or data that Python has, which
            `dataset_from` takes: a dataset of Hugging Face's or torchvision's, or a pair (train, test).
        setting: "cil" (new classes), "dil" (new domains) or "ocl" (a stream); by default as the data suggest.
        method: a name of `METHODS`; NAME+fsa adapts the network first.
        options: of the method, by name. Several k, or layers of "ridge", are one run with a record for each.
        backbone, weights, input_size, engine: see `load_backbone`.
        adapter: what tunes the network to the first task; "auto" for what suits it, "none" for nothing. By
            default as is usual for the method.
        session: values of that first session, by name, where they are not the preset's or the run's seed.
        preset: how images are prepared, and networks tuned: "default", "paper" or "official" (LayUP's text
            and released code; for methods of others, their own released code), or "ranpac".
        preprocessing: how images are prepared, if not as the preset says: see `FirstSession`.
        seed: of the order of classes, and of all that is random in methods.
        tasks, first, uneven, shuffled, batch, per_class: see `class_incremental` and `online`.
        order: of domains: their names, or "shuffled" by the seed.
        sample: only so many classes, and images of each, for training and for testing.
        tested_once: test after the last task only: A_T needs no more, and some methods take long to solve.
        held_out: predict this share of the training images, which is not learned, and no test images.
        split_seed: of the split of a folder that has no folders for training and testing.
        data: the folder of all datasets.
    """

    dataset: str | Any
    setting: str | None = None
    method: str = "layup"
    options: Mapping[str, Any] = field(default_factory=dict)
    backbone: str = "bundled"
    weights: str | Path | None = None
    input_size: int | None = None
    engine: str = EAGER
    adapter: str | None = None
    session: Mapping[str, Any] = field(default_factory=dict)
    preset: str = "default"
    preprocessing: str | None = None
    seed: int = 1993
    tasks: int | None = None
    first: int | None = None
    uneven: str | None = None
    shuffled: bool | str | None = None
    batch: int | None = None
    per_class: int | None = None
    order: Sequence[str] | str | None = None
    sample: tuple[int, int] | None = None
    tested_once: bool = False
    held_out: float | None = None
    split_seed: int = 0
    data: str | Path | None = None

    def trained(self, **values: Any) -> RunSpec:
        """The same with these epochs and learning rate: of the method, if it trains, or of the first session.

        >>> RunSpec("digits", method="l2p").trained(epochs=2, learning_rate=None).options
        {'epochs': 2}
        >>> RunSpec("digits", method="nmc+fsa").trained(epochs=2).session
        {'epochs': 2}
        """
        given = {name: value for name, value in values.items() if value is not None}
        if {"epochs", "learning_rate"} <= {*method_class(self.method_name).option_names()}:
            return replace(self, options={**given, **self.options})
        return replace(self, session={**given, **self.session})

    def resolve(
        self,
        folder: str | Path = RESULTS,
        *,
        reading: Reading | None = None,
        dataset: Dataset | None = None,
        backbone: Backbone | None = None,
    ) -> Experiment:
        """The experiment, whose records are kept in a folder; raises if it is impossible.

        `reading` says how images are read. Dataset and backbone are loaded, unless they are given: those of
        `load_dataset` and `load_backbone` serve every run that uses the same.
        """
        method = self.load_method()
        dataset = self.load_dataset() if dataset is None else dataset
        loaded = self.load_backbone() if backbone is None else backbone
        scenario = self.scenario(dataset)
        session = self.first_session(scenario.setting)
        network = prepared(loaded, self.way)
        return Experiment(scenario, method, network, Path(folder), session, self.preset, reading)

    @property
    def method_name(self) -> str:
        """The name of the method in `METHODS`."""
        return self.method.removesuffix(WITH_SESSION)

    def load_method(self) -> Method:
        """The method with its options, or those of its recipe; raises if it has no such options."""
        name = self.method_name
        kind = method_class(name)
        options = {**self.recipe.options, **self.options}
        for able, (option, sweep) in SWEEPS.items():
            several = options.get(option)
            if isinstance(several, list | tuple):
                others = {each: value for each, value in options.items() if each != option}
                if len(several) == 1:
                    return kind.with_options({**others, option: several[0]})
                if name != able:
                    raise InputError(
                        f"Several values of {option} are for the method {able!r}, not for {name!r}. Give one."
                    )
                return sweep.with_options({**others, "depths": tuple(several)})
        return kind.with_options(options)

    def load_dataset(self) -> Dataset:
        """The dataset, or a sample of it; raises if it is not there."""
        order = None if self.order is None or self.order == SHUFFLED else list(self.order)
        if isinstance(self.dataset, str):
            found = load_dataset(self.dataset, self.data, seed=self.split_seed, order=order)
        elif order is not None:
            raise InputError("Given data have no domains to be put in an order. Leave the order out.")
        else:
            found = dataset_from(self.dataset, seed=self.split_seed)
        found = found if self.sample is None else found.sampled(*self.sample)
        return found if self.held_out is None else found.held_out(self.held_out)

    def load_backbone(self) -> Backbone:
        """The network."""
        return load_backbone(
            self.backbone, weights=self.weights, input_size=self.input_size, engine=self.engine
        )

    @property
    def known_as(self) -> str:
        """The name of the dataset, by which something may have been released for it; none if it is given."""
        return self.dataset if isinstance(self.dataset, str) else ""

    @property
    def recipe(self) -> Recipe:
        """What the method's authors released for the dataset."""
        return recipe_of(method_class(self.method_name).name, self.known_as)  # some have two names

    @property
    def own_preset(self) -> str:
        """The preset of images and first sessions: released code of a method of others is its authors'."""
        if self.preset not in PRESETS:
            raise unknown_name("preset", self.preset, PRESETS)
        released = method_class(self.method_name).released
        return released if released is not None and self.preset != DEFAULT else self.preset

    @property
    def way(self) -> Way:
        """How images are prepared."""
        way = self.preprocessing or PRESETS[self.own_preset]["preprocessing"]
        if self.preprocessing is None and self.preset != DEFAULT:
            way = self.recipe.session.get("preprocessing", way)
        if way not in WAYS:
            raise unknown_name("preprocessing", way, WAYS)
        return way

    def scenario(self, dataset: Dataset) -> Scenario:
        """The tasks of the run."""
        names = ("tasks", "first", "uneven", "shuffled", "batch", "per_class", "order")
        choices = {name: getattr(self, name) for name in names}
        setting = self.setting or usual_setting(dataset)
        if self.preset == "official" and setting != "dil" and self.shuffled is None:
            choices["shuffled"] = True  # the authors' code always shuffles classes, VTAB's too
        return replace(scenario_of(dataset, setting, self.seed, **choices), tested_once=self.tested_once)

    def first_session(self, setting: str) -> FirstSession | None:
        """How the network is tuned to the first task in this setting, if at all."""
        kind = method_class(self.method_name)
        adapts = (kind.adapts and setting != "ocl") or self.method.endswith(WITH_SESSION)
        usual = AUTO if self.preset == DEFAULT else self.recipe.adapter or AUTO
        adapter = self.adapter or (usual if adapts else NO_ADAPTER)
        if adapter != NO_ADAPTER:
            # A first session that is part of a method is never dropped.
            tried = {} if self.adapter == AUTO and not kind.needs_session else {"trial": False}
            values: dict[str, Any] = {"seed": self.seed, "preprocessing": self.way, **tried}
            if kind.released is not None:
                values |= session_values(kind.name, kind.released, self.known_as, adapter)
            return FirstSession(adapter, self.own_preset, **{**values, **self.session})
        if self.session:
            raise InputError(
                f"{next(iter(self.session))} says how to tune the network, and nothing tunes it here. "
                "Choose an adapter.",
                about="adapter",
            )
        return None


def run(
    spec: RunSpec | Experiment,
    folder: str | Path = RESULTS,
    *,
    again: bool = False,
    progress: bool | None = None,
    on_task: Callable[[Mapping[str, Record]], None] | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> list[Record]:
    """Run a method over the tasks of a dataset: what `layup run` does. Gives its record, or one for each k.

    A finished run is not repeated, and an interrupted one resumes after its last task. An `Experiment` has
    its own folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spec = RunSpec("digits", method="nmc", backbone="vit-nano", tasks=2, sample=(4, 5))
    ...     [record] = run(spec, folder)
    ...     [again] = run(spec, folder)
    >>> record == again, record.matrix.shape
    (True, (2, 2))

    Args:
        spec: what to run.
        folder: where its records are kept.
        again: run it anew, even if it is finished.
        progress: show a bar; by default in a terminal.
        on_task: is given the records so far after each task, by k where there are several.
        on_wait: is called if another process is running it, and told which.
    """
    experiment = spec.resolve(folder) if isinstance(spec, RunSpec) else spec
    scenario = experiment.scenario
    records: Mapping[str, Record] = {}
    with progress_bar(progress, "tasks") as bar:
        title = f"{scenario.dataset.name}, {scenario.setting}, {experiment.method.name}"
        task = bar.add_task(title, total=len(scenario.tasks), note="")
        for records in experiment.go(again=again, on_wait=on_wait):
            bar.update(task, completed=len(next(iter(records.values())).steps))
            if on_task is not None:
                on_task(records)
    return list(records.values())
