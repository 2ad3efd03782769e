"""One JSON record per run: everything needed to repeat it, and all that it measured.

::

    schema       1, the number of this layout
    run          all that decides the numbers: dataset and setting, method and options, backbone, seeds
    layout       how the dataset was laid out on disk, and how it was split where the disk does not say
    versions     of layup, Python, torch, timm and NumPy; machine: what it ran on
    class_order  the classes in the order in which they were learned
    tasks        for each task its name, its classes, and how many images it has for training and testing
    matrix       R[t][i], the accuracy on the tests of task i after learning task t; null if not tested
    steps        what else was measured after each task: λ, times, passes, memory
    test         the truth of every test image, in the dataset's own order; the task that it belongs to; and
                 the prediction after the last task; all three are indices of class_order or tasks
    summary      the numbers that people quote, each by its full name (`layup.benchmark.metrics`)

Nothing in a record is ever executed, and an unfinished one is never mistaken for a finished one: it has
fewer steps than tasks, and no summary.
"""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from layup import schema, storage
from layup.benchmark.metrics import summary
from layup.errors import DamagedFileError, InputError, NewerFormatError, StorageError
from layup.formats import brief, json_text

logger = logging.getLogger(__name__)

SCHEMA = 1


def _is_run(value: Any) -> bool:
    """Names and values, also those of the options and of the backbone."""
    if not isinstance(value, dict):
        return False
    return all(isinstance(value.get(part, {}), dict) for part in ("options", "backbone"))


SHARE = schema.Rule("a number from 0 to 1", lambda value: schema.AMOUNT.holds(value) and value <= 1)
STEP: schema.Shape = {
    "per_class": schema.fields_of(SHARE),
    "chosen": schema.FIELDS,
    "learn_seconds": schema.AMOUNT,
    "predict_seconds": schema.AMOUNT,
    "forward_passes": schema.whole(),
    "training_passes": schema.whole(),
    "peak_memory": schema.whole().or_none(),
    "state_bytes": schema.whole(),
    "shared_by": schema.whole(1),
}
INDICES = schema.listed(schema.whole())
TASK: schema.Shape = {
    "name": schema.LABEL,
    "classes": schema.listed(schema.LABEL),
    "train": schema.whole(),
    "test": schema.whole(),
}
RECORD: schema.Shape = {
    "schema": schema.whole(1),
    "run": schema.Rule("a run and its options", _is_run),
    "layout": schema.TEXT,
    "versions": schema.FIELDS,
    "machine": schema.FIELDS,
    "class_order": schema.listed(schema.LABEL),
    "tasks": [TASK],
    "matrix": [schema.listed(SHARE.or_none())],
    "steps": [STEP],
    "test": {"truth": INDICES, "task": INDICES, "predictions": INDICES},
    "summary": schema.FIELDS.or_none(),
}
"""What a record must look like."""


@dataclass(frozen=True)
class TaskFacts:
    """A task in a record: its name, its classes, and how many images it has."""

    name: str
    classes: list[str]
    train: int
    test: int


@dataclass(frozen=True)
class Step:
    """What was measured after one task.

    accuracies: R[t, i] for every task i; None if it was not tested.
    per_class: the accuracy of every class that was tested, over all its test images.
    chosen: what the learner chose, such as λ.
    learn_seconds, predict_seconds: wall time.
    forward_passes: images that went through a backbone to be read, in this task; not those that a killed
        process had read before.
    training_passes: images that went through a backbone to train something.
    peak_memory: bytes, of the whole process until then; None if the system does not say.
    state_bytes: bytes of what the learner keeps.
    shared_by: how many variants, each with its own record, these times and passes were for.
    """

    accuracies: list[float | None]
    per_class: dict[str, float]
    chosen: dict[str, Any]
    learn_seconds: float
    predict_seconds: float
    forward_passes: int
    training_passes: int
    peak_memory: int | None
    state_bytes: int
    shared_by: int


@dataclass(frozen=True)
class Record:
    """A run, finished or not. Steps are added as tasks are done; all else is fixed.

    >>> tasks = [TaskFacts("1", ["cat"], 5, 2), TaskFacts("2", ["dog"], 5, 1)]
    >>> record = Record({"method": "nmc"}, "", {}, {}, ["cat", "dog"], tasks, [0, 1, 0], [0, 1, 0])
    >>> record.finished, record.matrix.shape
    (False, (0, 2))
    """

    run: Mapping[str, Any]
    layout: str
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    class_order: list[str]
    tasks: list[TaskFacts]
    truth: list[int]
    test_tasks: list[int]
    steps: list[Step] = field(default_factory=list)
    predictions: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        """A file name that identifies the run: readable, and unique by a hash of all of `run`."""
        return run_name(self.run)

    @property
    def finished(self) -> bool:
        """Whether every task was learned."""
        return len(self.steps) == len(self.tasks)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """R[t, i], NaN if task i was not tested after task t."""
        rows = [step.accuracies for step in self.steps]
        return np.array(rows, np.float64).reshape(len(rows), len(self.tasks))

    @property
    def test_sizes(self) -> list[int]:
        """How many test images each task has."""
        return [task.test for task in self.tasks]

    @property
    def summary(self) -> dict[str, float | None]:
        """The numbers that people quote, each by its full name."""
        return summary(self.matrix, self.test_sizes)

    def write(self, path: str | Path) -> None:
        """Write the record as JSON, atomically."""
        storage.write_text(path, _laid_out(self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON has it."""
        steps = [asdict(step) for step in self.steps]
        matrix = [step.pop("accuracies") for step in steps]
        return {
            "schema": SCHEMA,
            "run": dict(self.run),
            "layout": self.layout,
            "versions": dict(self.versions),
            "machine": dict(self.machine),
            "class_order": self.class_order,
            "tasks": [asdict(task) for task in self.tasks],
            "matrix": matrix,
            "steps": steps,
            "test": {"truth": self.truth, "task": self.test_tasks, "predictions": self.predictions},
            "summary": self.summary if self.finished else None,
        }

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read what `write` wrote."""
        try:
            storage.require_file(path)
            values = json.loads(Path(path).read_text("utf-8"))
            if (
                isinstance(values, dict)
                and isinstance(values.get("schema"), int)
                and values["schema"] > SCHEMA
            ):
                raise NewerFormatError(
                    f"'{path}' was written by a later layup (schema {values['schema']}, this one reads up to "
                    f"{SCHEMA}). Update layup."
                )
            return cls.from_dict(values)
        except FileNotFoundError as error:
            raise InputError(f"There is no record '{path}'.") from error
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.EINVAL, errno.ELOOP):
                raise DamagedFileError(f"'{path}' is not the record of a run: {error.strerror}.") from error
            raise StorageError(f"Cannot read '{path}' ({error.strerror}).") from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DamagedFileError(
                f"'{path}' is not the record of a run, or is damaged ({brief(str(error))}). "
                "`layup run` writes records."
            ) from error

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        schema.require(values, RECORD, "record")
        test = values["test"]
        steps = zip(values["matrix"], values["steps"], strict=True)
        record = cls(
            values["run"],
            values["layout"],
            values["versions"],
            values["machine"],
            values["class_order"],
            [TaskFacts(**task) for task in values["tasks"]],
            test["truth"],
            test["task"],
            [Step(accuracies=row, **step) for row, step in steps],
            test["predictions"],
        )
        record._require_sound()
        return record

    def _require_sound(self) -> None:
        """Refuse numbers that do not fit together: a wrong index would stand for another class."""
        known, classes, tasks = {*self.class_order}, len(self.class_order), len(self.tasks)
        if len(known) != classes:
            raise ValueError("a class is there twice")
        named = [*(task.classes for task in self.tasks), *(step.per_class for step in self.steps)]
        if not all(known.issuperset(each) for each in named):
            raise ValueError("a task or step names a class that is unknown")
        if len(self.steps) > tasks or any(len(step.accuracies) != tasks for step in self.steps):
            raise ValueError("the matrix does not have a column for each task")
        predictions = self.predictions if self.finished else self.truth
        if not len(self.truth) == len(self.test_tasks) == len(predictions):
            raise ValueError("truth, task and predictions are not of one length")
        for indices, end in ((self.truth, classes), (predictions, classes), (self.test_tasks, tasks)):
            if any(not 0 <= index < end for index in indices):
                raise ValueError(f"an index of a list of {end} is not from 0 to {end - 1}")


def _laid_out(values: Mapping[str, Any]) -> str:
    """JSON with a line for each value, and for each row of a table: thousands of predictions take one line.

    >>> print(_laid_out({"schema": 1, "matrix": [[1.0, None], [0.5, 1.0]], "predictions": [0, 1, 0]}), end="")
    {
     "schema": 1,
     "matrix": [
      [1.0, null],
      [0.5, 1.0]],
     "predictions": [0, 1, 0]
    }
    """

    def text(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], list | dict):
            return "[\n  " + ",\n  ".join(map(text, value)) + "]"
        return json_text(value)

    return (
        "{\n" + ",\n".join(f" {json.dumps(name)}: {text(value)}" for name, value in values.items()) + "\n}\n"
    )


def run_name(run: Mapping[str, Any]) -> str:
    """A file name for a run: readable, and unique by a hash of everything that decides its numbers.

    >>> name = run_name({"dataset": "folder:b", "setting": "cil", "method": "nmc", "tasks": 5, "seed": 7})
    >>> name.rpartition("-")[0]
    'b-cil-nmc-T5-s7'
    """
    digest = blake2b(json.dumps(run, sort_keys=True).encode(), digest_size=4).hexdigest()
    dataset = str(run.get("dataset", "")).rpartition(":")[2]
    parts = [dataset, run.get("setting"), run.get("method")]
    options = run.get("options") or {}
    parts += [f"k{options['k']}"] if "k" in options else []
    parts += [f"T{run['tasks']}"] if "tasks" in run else []
    parts += [f"s{run['seed']}"] if "seed" in run else []
    words = "-".join(str(part) for part in parts if part)
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in words) + f"-{digest}"


def find_records(paths: Iterable[str | Path]) -> list[Record]:
    """The finished records among files, and in folders (their *.json), in the order of their names.

    Files that are named must be records; a folder may also hold other JSON, which is skipped with a
    warning.

    >>> find_records([])
    Traceback (most recent call last):
    layup.errors.InputError: No results were given. Name record files or folders, such as results/.
    """
    given = [Path(path) for path in paths]
    if not given:
        raise InputError("No results were given. Name record files or folders, such as results/.")
    found: list[Record] = []
    for path in given:
        if not path.is_dir():
            record = Record.read(path)
            if not record.finished:
                raise InputError(
                    f"'{path}' is the record of a run that is not finished: {len(record.steps)} of "
                    f"{len(record.tasks)} tasks. Give the same `layup run` again, and it goes on."
                )
            found.append(record)
            continue
        for file in sorted(path.glob("*.json")):
            try:
                record = Record.read(file)
            except NewerFormatError:
                raise  # a comparison without them would mislead
            except (StorageError, InputError) as error:  # a broken link is not a record either
                logger.warning("Skipped: %s", error)
                continue
            if record.finished:
                found.append(record)
    if not found:
        raise InputError(
            f"There is no record of a finished run in {', '.join(map(str, given))}. `layup run` makes them."
        )
    return found
