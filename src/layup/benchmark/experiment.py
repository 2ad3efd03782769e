"""The one loop that runs every method in every setting, and what makes it resumable.

`run_tasks` is the loop: a learner is given task after task, and predicts after each. `Experiment` is a run
that leaves records: it knows what decides the numbers, resumes where it was killed, and is not repeated.

In its folder a finished run is one file, NAME.json. An unfinished one has a folder, unfinished/NAME, with
the records so far and the learner as it was after the last task in them: a new learner is written next to
the old one, and counts from the moment that the records name it. The checkpoint of a method that trains is
there as well. What a first session has tuned is in sessions/, where every run that begins with the same task
finds it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import torch

from layup import machine, storage
from layup.adapters import usual_adapter
from layup.backbones import Backbone, Passes
from layup.benchmark.methods import Learner, Method, Setup
from layup.benchmark.metrics import per_class_accuracy
from layup.benchmark.results import Record, Step, TaskFacts
from layup.benchmark.scenarios import Indices, LentImages, Scenario
from layup.errors import DamagedFileError, InputError, LayupError, StorageError
from layup.features import Reading
from layup.images import ImageSource, chosen
from layup.memory import Forecast, require
from layup.tuning import FirstSession

UNFINISHED = "unfinished"
SESSIONS = "sessions"
PROGRESS = "progress.json"
SCRATCH = "task.layup"


@dataclass(frozen=True)
class TaskDone:
    """The event after a task: which one, what was tested, and by variant the predictions and a step."""

    task: int
    tested: Indices
    predictions: Mapping[str, list[str]]
    steps: Mapping[str, Step]


def run_tasks(
    learner: Learner, scenario: Scenario, start: int = 0, *, passes: Passes | None = None
) -> Iterator[TaskDone]:
    """Let a learner learn task after task, and predict after each one: the loop of every experiment.

    The learner is given training images, which are revoked after each batch, and test images, which are
    revoked as well, and whose labels it never sees. `start` is the first task that it has not learned yet,
    `passes` the counter of the learner's backbone, if it has one.

    >>> from PIL import Image
    >>> from layup.backbones import load_backbone
    >>> from layup.benchmark.datasets import Dataset, Part
    >>> from layup.benchmark.methods import method_from
    >>> from layup.benchmark.scenarios import class_incremental
    >>> shades = Part([Image.new("RGB", (64, 64), name) for name in ("black", "white")], ["black", "white"])
    >>> tasks = class_incremental(Dataset("shades", ("black", "white"), shades, shades), tasks=2)
    >>> backbone = load_backbone("vit-nano")
    >>> learner = method_from("nmc", {}).begin(Setup(backbone, "cil", reading={"cache": False}))
    >>> for done in run_tasks(learner, tasks, passes=backbone.passes):
    ...     print(done.task, done.steps[""].accuracies, done.steps[""].forward_passes)
    0 [1.0, None] 2
    1 [1.0, 1.0] 3
    """
    passes = passes or Passes()
    for task in range(start, len(scenario.tasks)):
        before = replace(passes)
        began = time.perf_counter()
        for batch in scenario.batches(task):
            learner.learn(batch.images, batch.labels)
        learned = time.perf_counter()
        tested = scenario.tested(task)
        predictions = _predicted(learner, chosen(scenario.dataset.test.images, tested.tolist()))
        predicted = time.perf_counter()
        steps = {
            name: Step(
                *accuracies(scenario, tested, predictions[name]),
                chosen=report.chosen,
                learn_seconds=learned - began,
                predict_seconds=predicted - learned,
                forward_passes=passes.reading - before.reading,
                training_passes=passes.training - before.training,
                peak_memory=machine.peak_memory(),
                state_bytes=report.state_bytes,
                shared_by=len(predictions),
            )
            for name, report in learner.reports().items()
        }
        yield TaskDone(task, tested, predictions, steps)


def _predicted(learner: Learner, images: Sequence[ImageSource]) -> dict[str, list[str]]:
    """The predictions of test images, which are revoked afterwards; if there are none, nothing is solved."""
    if not len(images):
        return {name: [] for name in learner.reports()}
    lent = LentImages(images, "This test")
    predictions = learner.predict(lent)
    lent.revoke()
    return predictions


def accuracies(
    scenario: Scenario, tested: Indices, predictions: list[str]
) -> tuple[list[float | None], dict[str, float]]:
    """The accuracy on the tests of every task (None if it was not tested), and that of every class."""
    truth = [scenario.dataset.test.labels[index] for index in tested]
    right = np.array(truth) == np.array(predictions)
    tasks = scenario.test_tasks[tested]
    by_task = [right[tasks == number] for number in range(len(scenario.tasks))]
    return (
        [float(own.mean()) if len(own) else None for own in by_task],
        per_class_accuracy(truth, predictions),
    )


class Experiment:
    """A method on a scenario, whose records are kept in a folder.

    Open choices are resolved immediately: the adapter that suits the backbone, one task for a joint method,
    and the method's own options.

    session: how to adapt the backbone on the first task, if at all.
    preset: "default", "paper" or "official", see `layup.tuning.config`; it decides how images are prepared,
        and which of several equally good λ is taken.
    """

    def __init__(
        self,
        scenario: Scenario,
        method: Method,
        backbone: Backbone,
        folder: Path,
        session: FirstSession | None = None,
        preset: str = "default",
        reading: Reading | None = None,
    ) -> None:
        if session is not None and scenario.setting == "ocl":
            raise InputError(
                "A backbone cannot be adapted in the online setting: that takes several passes over the "
                "first task, and a stream has only one. Leave the adapter out, or use the setting 'cil'.",
                about="adapter",
            )
        if session is not None and isinstance(session.adapter, str):
            session = replace(session, adapter=usual_adapter(backbone.network))
        self.scenario = scenario.joint() if method.joint else scenario
        self.backbone, self.folder, self.session, self.preset = backbone, folder, session, preset
        self.reading = Reading() if reading is None else reading
        self.method = method.resolved(self.setup)

    @property
    def setup(self) -> Setup:
        """What the method works with."""
        checkpoint = None
        if self.session is not None:
            decides = {
                "backbone": self.backbone.fingerprint,
                "session": self.session.training(),
                "data": self.scenario.dataset.fingerprint,
                "images": self.scenario.tasks[0].train.tolist(),
                "versions": machine.versions(),
            }
            checkpoint = self.folder / SESSIONS / f"{_digest(decides)}.layup"
        return Setup(
            self.backbone,
            self.scenario.setting,
            self.session,
            checkpoint,
            self.reading,
            seed=self.scenario.seed,
            tasks=len(self.scenario.tasks),
            grid="official" if self.preset == "official" else "paper",
        )

    @cached_property
    def blank(self) -> dict[str, Record]:
        """A record with no step yet, for each variant."""
        scenario = self.scenario
        dataset = scenario.dataset
        indices = {name: index for index, name in enumerate(scenario.class_order)}
        shared = {
            "dataset": _without_folders(dataset.name),
            "data": dataset.fingerprint,
            "setting": scenario.setting,
            **({} if self.method.joint else {"tasks": len(scenario.tasks)}),
            **scenario.cut,
            "batch": scenario.batch,
            **({"tested_once": True} if scenario.tested_once else {}),
            "seed": scenario.seed,
            "backbone": {
                "name": self.backbone.name,
                "fingerprint": self.backbone.fingerprint,
                "pixels": list(self.backbone.preprocessing.size),
                "engine": self.backbone.engine,
            },
            "adapter": None if self.session is None else self.session.to_dict(),
            "preset": self.preset,
        }
        tasks = [
            TaskFacts(task.name, list(task.classes), len(task.train), len(task.test))
            for task in scenario.tasks
        ]
        return {
            name: Record(
                {**shared, "method": variant.name, "options": variant.options()},
                dataset.layout,
                machine.versions(),
                {
                    **machine.describe(),
                    "device": str(self.backbone.device),
                    "threads": torch.get_num_threads(),
                },
                list(scenario.class_order),
                tasks,
                [indices[label] for label in dataset.test.labels],
                scenario.test_tasks.tolist(),
            )
            for name, variant in self.method.variants().items()
        }

    @cached_property
    def forecast(self) -> Forecast | None:
        """The memory that it will take in addition to the network, if the method knows it."""
        tasks = [len(task.train) for task in self.scenario.tasks]
        batch = self.scenario.batch or max(tasks)
        return self.method.forecast(self.setup, batch, sum(tasks), len(self.scenario.class_order))

    @property
    def paths(self) -> dict[str, Path]:
        """Where the records are when the run is finished, by variant."""
        return {name: self.folder / f"{record.name}.json" for name, record in self.blank.items()}

    def finished(self) -> dict[str, Record] | None:
        """The records, if the run is finished."""
        found = {name: Record.read(path) for name, path in self.paths.items() if path.exists()}
        return found if len(found) == len(self.paths) else None

    def go(
        self, *, again: bool = False, on_wait: Callable[[str], None] | None = None
    ) -> Iterator[dict[str, Record]]:
        """Run what is not done yet; after each task, give the records so far, by variant.

        What an earlier run has done comes first, immediately. With `again` it is run anew, but cached
        features and a trained first session are used. `on_wait` is called if another process is running it,
        and told which.
        """
        home = self.folder / UNFINISHED / _together([record.name for record in self.blank.values()])
        storage.make_folder(home.parent)
        if self.session is not None:
            storage.make_folder(self.folder / SESSIONS)
        with storage.locked(home, on_wait=on_wait):
            if again:
                _remove(home)
            elif done := self.finished():
                _remove(home)  # the last run may have been killed before it did so
                yield done
                return
            if self.forecast is not None:
                require(self.forecast, "This run")
            storage.make_folder(home)
            backbone = self.backbone.counted()
            records, learner = self._resumed(home, backbone)
            machine.reset_peak_memory()
            start = len(next(iter(records.values())).steps)
            if start:
                yield records
            for event in run_tasks(learner, self.scenario, start, passes=backbone.passes):
                records = {name: self._extended(record, name, event) for name, record in records.items()}
                self._keep(home, learner, records)
                yield records
            for name, path in self.paths.items():
                if again or not path.exists():  # another run may have left one of several
                    records[name].write(path)
            _remove(home)  # but not its lock: others may be waiting for it

    def _extended(self, record: Record, name: str, event: TaskDone) -> Record:
        """The record with one more step, and with the predictions if it was the last."""
        predictions: list[int] = []
        if event.task == len(self.scenario.tasks) - 1:
            indices = {label: index for index, label in enumerate(record.class_order)}
            predictions = [indices[label] for label in event.predictions[name]]
        return replace(record, steps=[*record.steps, event.steps[name]], predictions=predictions)

    def _keep(self, home: Path, learner: Learner, records: Mapping[str, Record]) -> None:
        """Save what is needed to resume from here: the learner first, then the records that name it."""
        file = home / f"learner-{len(next(iter(records.values())).steps)}.layup"
        learner.save(file)
        progress = {
            "learner": file.name,
            "records": {name: record.to_dict() for name, record in records.items()},
        }
        storage.write_text(home / PROGRESS, json.dumps(progress))
        for other in home.glob("learner-*.layup"):
            if other != file:
                storage.delete(other)

    def _resumed(self, home: Path, backbone: Backbone) -> tuple[dict[str, Record], Learner]:
        """The records and the learner as an earlier run left them, or both blank."""
        file = home / PROGRESS
        setup = replace(self.setup, backbone=backbone, scratch=home / SCRATCH)
        if file.exists():
            try:
                progress = json.loads(file.read_text("utf-8"))
                records = {name: Record.from_dict(progress["records"][name]) for name in self.blank}
                # A record is of one version: what another version has begun is begun anew.
                if all(record.versions == machine.versions() for record in records.values()):
                    return records, self.method.resume(setup, home / progress["learner"])
            except (ValueError, TypeError, KeyError, RecursionError, LayupError) as error:
                why = str(error).rstrip(".") if isinstance(error, LayupError) else f"{PROGRESS} is damaged"
                raise DamagedFileError(
                    f"The unfinished run in '{home}' cannot go on: {why}. Begin it anew.", about="again"
                ) from error
        return dict(self.blank), self.method.begin(setup)


def _without_folders(name: str) -> str:
    """A dataset's name without its folder on this machine: its fingerprint identifies it.

    >>> _without_folders("folder:/home/me/photos"), _without_folders("digits")
    ('folder:photos', 'digits')
    """
    kind, colon, path = name.rpartition(":")
    return f"{kind}{colon}{Path(path).absolute().name}" if colon else name


def _together(names: list[str]) -> str:
    """One name for a run that leaves several records."""
    return names[0] if len(names) == 1 else f"{names[0]}-and-{len(names) - 1}-more-{_digest(names)}"


def _digest(values: Any) -> str:
    return blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=6).hexdigest()


def _remove(folder: Path) -> None:
    try:
        if folder.exists():
            (folder / PROGRESS).unlink(missing_ok=True)  # first, so that what is left is not resumed
            rmtree(folder)
    except OSError as error:
        raise StorageError(f"Cannot delete '{folder}' ({error.strerror}). Delete it by hand.") from error
