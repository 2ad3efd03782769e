"""Datasets → tasks: what is learned when, and what is tested after. Pure functions of seeds.

`class_incremental` divides the classes among tasks, `domain_incremental` makes each domain a task, and
`online` is the former as a stream of small batches that does not say where a task begins. A learner is given
batches: training images, which cannot be read again afterwards, and labels. Test images stay with the
scenario.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from layup.benchmark.datasets import Dataset, Part, listed
from layup.errors import InputError, TaskOverError
from layup.images import ImageSource, chosen
from layup.registry import unknown_name
from layup.sampling import sample

SETTINGS = ("cil", "dil", "ocl")
STREAM_BATCH = 10
SHUFFLED = "shuffled"
TASKS = "tasks"

KNOWN_TO = {
    "tasks": SETTINGS,
    "first": ("cil", "ocl"),
    "uneven": ("cil", "ocl"),
    "shuffled": ("cil", "ocl"),
    "order": ("dil",),
    "batch": ("ocl",),
    "per_class": SETTINGS,
}
"""The settings that know each choice."""

Indices = NDArray[np.int64]


class LentImages(Sequence[ImageSource]):
    """Images that can be read until they are revoked, with every slice of them.

    >>> lent = LentImages(["a.png", "b.png"], "Task 1")
    >>> len(lent), lent[1]
    (2, 'b.png')
    >>> lent.revoke()
    >>> lent[1]
    Traceback (most recent call last):
    layup.errors.TaskOverError: Task 1 is over: its images cannot be read again. A learner sees a task once.
    """

    def __init__(self, images: Sequence[ImageSource], owner: str) -> None:
        self._loan = [images]  # slices share it
        self._indices = range(len(images))
        self._owner = owner

    @overload
    def __getitem__(self, index: int) -> ImageSource: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> ImageSource | Self:
        if not self._loan:
            raise TaskOverError(
                f"{self._owner} is over: its images cannot be read again. A learner sees a task once."
            )
        if isinstance(index, slice):
            part = copy(self)
            part._indices = self._indices[index]
            return part
        return self._loan[0][self._indices[index]]

    def __len__(self) -> int:
        return len(self._indices)

    def revoke(self) -> None:
        """From now on, reading is an error."""
        self._loan.clear()


@dataclass(frozen=True)
class Batch:
    """What a learner is given at a time: images, while they are lent, and one label each."""

    images: LentImages
    labels: list[str]


@dataclass(frozen=True)
class Task:
    """A step of a scenario: its classes, and the indices of its images in the dataset."""

    name: str
    classes: tuple[str, ...]
    train: Indices
    test: Indices


@dataclass(frozen=True)
class Scenario:
    """A dataset divided into tasks, which come one after the other.

    seed, cut: what decided the tasks: the seed, and all other choices by name.
    batch: how many images a learner gets at a time; None for a whole task.
    tested_once: after the last task only. Then A_T is known, but not how it came about.
    """

    setting: str
    dataset: Dataset
    class_order: tuple[str, ...]
    tasks: tuple[Task, ...]
    seed: int
    cut: Mapping[str, Any]
    batch: int | None = None
    tested_once: bool = False

    def __post_init__(self) -> None:
        if untested := [task.name for task in self.tasks if not len(task.test)]:
            raise InputError(
                f"There are no test images for task {listed(untested)} of '{self.dataset.name}', so that "
                "nothing could be measured. Add some, or use fewer tasks."
            )

    def batches(self, task: int) -> Iterator[Batch]:
        """The training images of a task, in one batch or in several; each is revoked before the next."""
        part, indices = self.dataset.train, self.tasks[task].train
        size = self.batch or len(indices)
        for start in range(0, len(indices), size):
            wanted = indices[start : start + size].tolist()
            # A stream does not say to which task an image belongs.
            owner = f"Task {task + 1}" if self.batch is None else "This part of the stream"
            batch = Batch(LentImages(chosen(part.images, wanted), owner), [part.labels[i] for i in wanted])
            try:
                yield batch
            finally:
                batch.images.revoke()

    def tested(self, task: int) -> Indices:
        """The indices of the test images that are predicted after a task, in the dataset's order.

        Those of all tasks so far; in the setting "dil", those of all domains. None before the last task of a
        scenario that is `tested_once`.
        """
        if self.tested_once and task < len(self.tasks) - 1:
            return np.empty(0, np.int64)
        last = len(self.tasks) if self.setting == "dil" else task + 1
        return np.sort(np.concatenate([each.test for each in self.tasks[:last]]))

    def joint(self) -> Scenario:
        """All tasks as one: not continual learning, but an upper bound for it.

        >>> from layup.benchmark.datasets import load_dataset
        >>> [len(task.classes) for task in class_incremental(load_dataset("digits"), 5).joint().tasks]
        [10]
        """
        train = np.sort(np.concatenate([task.train for task in self.tasks]))
        test = np.sort(np.concatenate([task.test for task in self.tasks]))
        # How the tasks would have been divided does not matter.
        cut = {name: value for name, value in self.cut.items() if name == "per_class"}
        return replace(self, tasks=(Task("all", self.class_order, train, test),), cut=cut)

    @property
    def test_tasks(self) -> Indices:
        """The task that each test image belongs to."""
        tasks = np.full(len(self.dataset.test), -1, np.int64)
        for number, task in enumerate(self.tasks):
            tasks[task.test] = number
        return tasks


def usual_setting(dataset: Dataset) -> str:
    """New domains if the dataset has domains, else new classes."""
    return "dil" if dataset.domains else "cil"


def scenario_of(dataset: Dataset, setting: str | None = None, seed: int = 1993, **choices: Any) -> Scenario:
    """The scenario of a setting, by default the usual one of the dataset, with the choices that it knows.

    Choices are those of `class_incremental` and `online`, and the `order` of domains: "shuffled", or their
    names, in the order that the dataset already has. Those that are None are left open.

    >>> from layup.benchmark.datasets import load_dataset
    >>> scenario_of(load_dataset("digits"), tasks=2, batch=5)
    Traceback (most recent call last):
    layup.errors.InputError: batch is for 'ocl', and the setting is 'cil'. Leave it out.
    """
    setting = setting or usual_setting(dataset)
    if setting not in SETTINGS:
        raise unknown_name("setting", setting, SETTINGS)
    given = {name: value for name, value in choices.items() if value is not None}
    for name in given:
        if setting not in KNOWN_TO[name]:
            of = " and ".join(map(repr, KNOWN_TO[name]))
            raise InputError(f"{name} is for {of}, and the setting is {setting!r}. Leave it out.", about=name)
    if setting != "dil":
        return (online if setting == "ocl" else class_incremental)(dataset, seed=seed, **given)
    tasks, order = given.pop("tasks", None), given.pop("order", None)
    scenario = domain_incremental(dataset, seed, shuffled=order == SHUFFLED, **given)
    if tasks not in (None, len(scenario.tasks)):
        raise InputError(
            f"In the setting 'dil' each of {len(scenario.tasks)} domains is a task, so that there cannot be "
            f"{tasks} tasks. Leave their number out.",
            about="tasks",
        )
    return scenario


def class_incremental(
    dataset: Dataset,
    tasks: int | None = None,
    seed: int = 1993,
    *,
    first: int | None = None,
    uneven: str | None = None,
    shuffled: bool | str | None = None,
    per_class: int | None = None,
) -> Scenario:
    """New classes with every task; the seed decides their order, as in the field's own code.

    Args:
        dataset: what to divide into tasks.
        tasks: how many; by default as many as is usual for the dataset.
        seed: of the order of classes, by NumPy's legacy generator: 1993 gives the well-known orders.
        first: classes in the first task, if it is to be larger or smaller than the others.
        uneven: which task takes the rest if the classes cannot be divided equally, "first" or "last".
        shuffled: whether to change the dataset's own order of classes; by default as is usual for it. With
            "tasks" the tasks keep the classes that they have in that order, and change places.
        per_class: learn only so many training images per class, chosen by the seed.

    >>> from layup.benchmark.datasets import load_dataset
    >>> scenario = class_incremental(load_dataset("digits"), tasks=4, seed=0)
    >>> [task.classes for task in scenario.tasks]
    [('2', '8', '4'), ('9', '1', '6'), ('7', '3', '0'), ('5',)]
    """
    if first is not None and uneven is not None:
        raise InputError(
            "Say how many classes the first task has, or which task is the uneven one, not both."
        )
    classes = len(dataset.classes)
    tasks = dataset.tasks if tasks is None else tasks
    if first is None and uneven is None and dataset.first is not None:
        # Usual for this dataset, if the other tasks are then equal.
        fits = tasks > 1 and (classes - dataset.first) % (tasks - 1) == 0
        first, uneven = (dataset.first, None) if fits else (None, "first")
    sizes = task_sizes(classes, tasks, first=first, uneven="last" if uneven is None else uneven)
    shuffled = dataset.shuffled if shuffled is None else shuffled
    if shuffled not in (True, False, TASKS):
        raise InputError(f"shuffled = {shuffled!r} is no order of classes. Use True, False or {TASKS!r}.")
    class_order = _permuted(dataset.classes, seed) if shuffled is True else dataset.classes
    ends = np.cumsum(sizes)
    groups = [class_order[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    if shuffled == TASKS:
        groups = [groups[i] for i in _permutation(tasks, seed)]
        class_order = tuple(name for names in groups for name in names)
    kept = _kept(dataset.train, dataset.train.labels, per_class, seed)
    train, test = np.asarray(dataset.train.labels), np.asarray(dataset.test.labels)
    cut = []
    for number, names in enumerate(groups, start=1):
        cut.append(
            Task(
                str(number),
                names,
                np.flatnonzero(np.isin(train, names) & kept),
                np.flatnonzero(np.isin(test, names)),
            )
        )
    # None if there is no uneven task, or if the size of the first one is given.
    uneven = (uneven or "last") if first is None and len(set(sizes)) > 1 else None
    choices = {"first": first, "uneven": uneven, "shuffled": shuffled, "per_class": per_class}
    return Scenario("cil", dataset, class_order, tuple(cut), seed, choices)


def online(
    dataset: Dataset,
    tasks: int | None = None,
    seed: int = 1993,
    *,
    batch: int = STREAM_BATCH,
    first: int | None = None,
    uneven: str | None = None,
    shuffled: bool | str | None = None,
    per_class: int | None = None,
) -> Scenario:
    """The tasks of `class_incremental` as a stream: one pass, so many images at a time, in a seeded order.

    >>> from layup.benchmark.datasets import load_dataset
    >>> scenario = online(load_dataset("digits"), batch=1)
    >>> [len(batch.images) for batch in scenario.batches(0)][:3]
    [1, 1, 1]
    """
    if batch < 1:
        raise InputError(f"A stream of {batch} images at a time is impossible. Use a batch of 1 or more.")
    offline = class_incremental(
        dataset, tasks, seed, first=first, uneven=uneven, shuffled=shuffled, per_class=per_class
    )
    rng = np.random.default_rng(seed)
    mixed = tuple(replace(task, train=rng.permutation(task.train)) for task in offline.tasks)
    return replace(offline, setting="ocl", tasks=mixed, batch=batch)


def domain_incremental(
    dataset: Dataset, seed: int = 1993, *, shuffled: bool = False, per_class: int | None = None
) -> Scenario:
    """The same classes in one domain after the other: in the dataset's order, or shuffled by the seed.

    >>> from layup.benchmark.datasets import load_dataset
    >>> styles = load_dataset("digits-styles")
    >>> scenario = domain_incremental(styles)
    >>> [task.name for task in scenario.tasks] == list(styles.domains)
    True
    """
    if not dataset.domains:
        raise InputError(
            f"'{dataset.name}' has no domains, which the setting 'dil' needs. Use a dataset that has them "
            "(digits-styles, domains:PATH, … see `layup datasets`), or the setting 'cil'."
        )
    domains = _permuted(dataset.domains, seed) if shuffled else dataset.domains
    train, test = np.asarray(dataset.train.domains), np.asarray(dataset.test.domains)
    labels = np.asarray(dataset.train.labels)
    groups = list(zip(dataset.train.labels, dataset.train.domains or (), strict=True))
    kept = _kept(dataset.train, groups, per_class, seed)
    cut = []
    for domain in domains:
        indices = np.flatnonzero((train == domain) & kept)
        present = set(labels[indices].tolist())
        names = tuple(name for name in dataset.classes if name in present)
        cut.append(Task(domain, names, indices, np.flatnonzero(test == domain)))
    choices = {"order": SHUFFLED if shuffled else ",".join(domains), "per_class": per_class}
    return Scenario("dil", dataset, dataset.classes, tuple(cut), seed, choices)


def task_sizes(classes: int, tasks: int, *, first: int | None = None, uneven: str = "last") -> list[int]:
    """How many classes each task has: all the same, except the one that takes the rest.

    If that one would get nothing, the rest goes to several tasks instead, one class each.

    >>> task_sizes(196, 10), task_sizes(196, 10, uneven="first")[:2], task_sizes(100, 6, first=50)
    ([20, 20, 20, 20, 20, 20, 20, 20, 20, 16], [16, 20], [50, 10, 10, 10, 10, 10])
    >>> task_sizes(10, 6)
    [1, 1, 2, 2, 2, 2]
    """
    if uneven not in ("first", "last"):
        raise unknown_name("position of the uneven task", uneven, ("first", "last"))
    if not 1 <= tasks <= classes:
        raise InputError(
            f"{classes} classes cannot be divided among {tasks} tasks. Use from 1 to {classes} tasks."
        )
    if first is not None:
        others = tasks - 1
        if not 1 <= first <= classes - others or (others == 0 and first != classes):
            allowed = f"from 1 to {classes - others}" if others else f"all {classes}"
            raise InputError(
                f"The first of {tasks} tasks cannot have {first} of {classes} classes. Use {allowed}."
            )
        return [first, *(task_sizes(classes - first, others) if others else [])]
    size = -(-classes // tasks)
    odd = classes - size * (tasks - 1)
    sizes = [size] * (tasks - 1) + [odd]
    if odd < 1:
        larger = classes % tasks
        sizes = [size - 1] * (tasks - larger) + [size] * larger
    return sizes[::-1] if uneven == "first" else sizes


def _permuted(names: tuple[str, ...], seed: int) -> tuple[str, ...]:
    """The names in the order of `_permutation`."""
    return tuple(names[i] for i in _permutation(len(names), seed))


def _permutation(count: int, seed: int) -> list[int]:
    """The order of NumPy's legacy generator, which all code of the field uses."""
    if not 0 <= seed < 2**32:
        raise InputError(f"The seed {seed} cannot order anything. Use a whole number from 0 to 2^32 - 1.")
    return [int(i) for i in np.random.RandomState(seed).permutation(count)]


def _kept(part: Part, groups: Sequence[Hashable], per_class: int | None, seed: int) -> NDArray[np.bool_]:
    """Which training images are used: all, or so many per group; a smaller choice is part of a larger one."""
    if per_class is None:
        return np.ones(len(part), np.bool_)
    if per_class < 1:
        raise InputError(
            f"{per_class} training images per class are impossible. Use 1 or more, or leave it out."
        )
    kept = np.zeros(len(part), np.bool_)
    kept[sample(groups, per_class, seed)] = True
    return kept
