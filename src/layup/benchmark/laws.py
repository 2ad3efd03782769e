"""The laws that every learner obeys, to be checked on any method, also your own.

A law has a short id and a description of one sentence. It is called with a method, its setup and a few real
images, and raises `LawBrokenError` if the method breaks it. `check` checks all laws. A method opts out of a
law by its id, with a reason: `Method.exempt`. Two laws are about the algebra of sums, and are checked at a
given λ where the method has one: a λ that is searched depends on the last task.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import torch
from PIL import Image

from layup.backbones import BATCH
from layup.benchmark.datasets import Dataset, Part
from layup.benchmark.methods import Learner, Method, Report, Setup
from layup.benchmark.scenarios import LentImages
from layup.errors import BadImageError, InputError, TaskOverError
from layup.features import Reading
from layup.images import ImageSource, open_image
from layup.registry import unknown_name
from layup.sampling import by_class

TaskData: TypeAlias = tuple[Sequence[ImageSource], Sequence[str]]
"""The data of one task: images, and one label each."""

FEWEST = 4
"""The fewest images per class and task: half of them are still several."""

HALVINGS = 5
"""How closely the point is searched where a prediction changes: to 1/32 of the way between two images."""

NO_IMAGE = "there is no such image.png"


class LawBrokenError(AssertionError):
    """A method does what a law forbids."""


@dataclass(frozen=True)
class Examples:
    """The data of three small tasks, and test images.

    The first two tasks bring at least two new classes each. In the last one an old class returns, with at
    least twice as many images, and a new class arrives. Four real images per class are enough.
    """

    tasks: Sequence[TaskData]
    test_images: Sequence[ImageSource]

    def __post_init__(self) -> None:
        if fault := self._fault():
            raise InputError(f"These examples cannot show whether laws are obeyed: {fault}.")

    @classmethod
    def of(cls, dataset: Dataset, images: int = 6) -> Examples:
        """Examples of the first five classes, with so many images per class.

        >>> from layup.benchmark.datasets import load_dataset
        >>> [sorted(set(labels)) for _, labels in Examples.of(load_dataset("digits")).tasks]
        [['0', '1'], ['2', '3'], ['0', '4']]
        """
        if len(dataset.classes) < 5:
            raise InputError(
                f"Examples take five classes. '{dataset.name}' has {len(dataset.classes)}. Use another."
            )
        a, b, c, d, e = dataset.classes[:5]
        some, twice = slice(images), slice(images, 3 * images)
        wanted = {a: some, b: some}, {c: some, d: some}, {a: twice, e: some}
        tasks = [_some(dataset.train, each) for each in wanted]
        return cls(tasks, _some(dataset.test, dict.fromkeys((a, b, c, d, e), some))[0])

    def _fault(self) -> str | None:
        if len(self.tasks) != 3:
            return f"there are {len(self.tasks)} tasks instead of three"
        first, second, third = (set(labels) for _, labels in self.tasks)
        if len(first) < 2 or len(second) < 2 or first & second:
            return "the first two tasks do not bring two new classes each"
        if not third & (first | second) or not third - first - second:
            return "the last task does not have both a class that returns and a new one"
        for images, labels in self.tasks:
            if len(images) != len(labels) or min(Counter(labels).values()) < FEWEST:
                return f"a task does not have one label per image and {FEWEST} images per class"
        numbers = [Counter(labels) for _, labels in self.tasks]
        if not any(numbers[2][name] >= 2 * before > 0 for name, before in (numbers[0] + numbers[1]).items()):
            return "no class returns in the last task with twice as many images, to show wrong weights"
        return None if len(self.test_images) else "there are no test images"


def _some(part: Part, wanted: Mapping[str, slice]) -> TaskData:
    """These images of each of these classes, interleaved as in a shuffled folder."""
    members = by_class(part.labels)
    chosen = [members.get(name, [])[which] for name, which in wanted.items()]
    turns = [index for turn in zip_longest(*chosen) for index in turn if index is not None]
    return [part.images[index] for index in turns], [part.labels[index] for index in turns]


@dataclass(frozen=True)
class Case:
    """What a law looks at: a method in a setup, the data of its tasks, and test images."""

    method: Method
    setup: Setup
    tasks: list[TaskData]
    test_images: list[ImageSource]

    @classmethod
    def of(cls, method: Method, setup: Setup, examples: Examples) -> Case:
        """A method with all images in memory; a joint method gets one task."""
        tasks: list[TaskData] = [_in_memory(task) for task in examples.tasks]
        tasks = [joined(tasks)] if method.joint else tasks
        setup = replace(setup, tasks=len(tasks) if setup.tasks is None else setup.tasks)
        return cls(method, setup, tasks, [_array(image) for image in examples.test_images])

    @cached_property
    def course(self) -> list[tuple[dict[str, list[str]], dict[str, Report]]]:
        """What a learner that is simply taught predicts and reports after each task."""
        learner = self.begin()
        found = []
        for images, labels in self.tasks:
            learner.learn(list(images), list(labels))
            found.append((learner.predict(self.test_images), learner.reports()))
        return found

    def begin(self) -> Learner:
        """A learner that knows nothing yet."""
        return self.method.begin(self.setup)

    def taught(self, *tasks: TaskData) -> Learner:
        """A learner after these tasks, by default after all."""
        learner = self.begin()
        for images, labels in tasks or self.tasks:
            learner.learn(list(images), list(labels))
        return learner

    def uncached(self) -> Case:
        """The same, but every image goes through the network each time."""
        reading: Reading = {**self.setup.reading, "cache": False}
        return replace(self, setup=replace(self.setup, reading=reading))

    def anew(self) -> Case:
        """The same, but the first session, if there is one, is trained each time as well."""
        return replace(self, setup=replace(self.uncached().setup, checkpoint=None))

    def at_given_lambda(self) -> Case:
        """The same, with λ = 1 where the method would choose it, which depends on the last task."""
        if isinstance(getattr(self.method, "lam", 1.0), int | float):
            return self
        given: dict[str, Any] = {"lam": 1.0}
        return replace(self, method=replace(self.method, **given))

    def fixed_and_free(self) -> tuple[list[TaskData], list[TaskData]]:
        """The tasks whose order matters, and the others: a first session trains on the first task."""
        fixed = 0 if self.setup.session is None else 1
        return self.tasks[:fixed], self.tasks[fixed:]


Violations: TypeAlias = Callable[[Case], Iterator[str]]
"""What a method does against a law, and what was expected, each in one clause."""


@dataclass(frozen=True)
class Law:
    """A law, to be called with a method, a setup and examples; raises `LawBrokenError`.

    several: whether it is about several tasks, and says nothing about a joint method.
    for_all: whether no method may opt out of it.
    """

    id: str
    description: str
    violations: Violations
    several: bool = False
    for_all: bool = False

    def __call__(self, method: Method, setup: Setup, examples: Examples) -> None:
        """Raise if the method breaks the law."""
        self.judge(Case.of(method, setup, examples))

    def judge(self, case: Case) -> None:
        """Raise at the first violation."""
        for seen in self.violations(case):
            raise LawBrokenError(f"The method {case.method.name!r} breaks the law {self}: {seen}.")

    def __str__(self) -> str:
        """The id, and what it means."""
        return f"{self.id!r} ({self.description})"


LAWS: dict[str, Law] = {}
"""All laws by id; the first are those on which others rest."""


def check(method: Method, setup: Setup, examples: Examples) -> None:
    """Check all laws except those that the method opts out of; the first broken one raises `LawBrokenError`.

    Costs about twenty times what it takes to learn the examples. docs/laws.md has an example.
    """
    case = Case.of(method, setup, examples)
    for law in laws_of(method).values():
        law.judge(case)


def laws_of(method: Method | type[Method]) -> dict[str, Law]:
    """The laws that a method has to obey, by id: all except its exemptions.

    >>> from layup.benchmark.methods import method_class
    >>> laws_of(method_class("layup")) == LAWS
    True
    """
    exempt = exemptions(method)
    return {id_: law for id_, law in LAWS.items() if id_ not in exempt}


def exemptions(method: Method | type[Method]) -> dict[str, str]:
    """The laws that a method need not obey, by id, and why: its own, and for a joint method those of several.

    >>> from layup.benchmark.methods import method_class
    >>> exemptions(method_class("joint"))["order"]
    'it learns all tasks jointly'
    """
    for id_ in method.exempt:
        if id_ not in LAWS:
            raise unknown_name("law", id_, LAWS)
        if LAWS[id_].for_all:
            raise InputError(
                f"The method {method.name!r} opts out of the law {LAWS[id_]}, and no method may."
            )
    joint = [id_ for id_, law in LAWS.items() if law.several and method.joint]
    return {**method.exempt, **dict.fromkeys(joint, "it learns all tasks jointly")}


def joined(tasks: Sequence[TaskData]) -> TaskData:
    """Several tasks as one."""
    images = [image for images, _ in tasks for image in images]
    return images, [label for _, labels in tasks for label in labels]


def _law(
    id_: str, description: str, *, several: bool = False, for_all: bool = False
) -> Callable[[Violations], Violations]:
    """Register what yields the violations of a law."""

    def enter(violations: Violations) -> Violations:
        LAWS[id_] = Law(id_, description, violations, several, for_all)
        return violations

    return enter


# ---- what the others rest on


@_law("any-class", "a new class may arrive at any time, and an old one may return", several=True)
def _comes_and_returns(case: Case) -> Iterator[str]:
    learner = case.begin()
    before = b""
    for number, (images, labels) in enumerate(case.tasks, start=1):
        try:
            learner.learn(list(images), list(labels))
        except Exception as error:
            said = str(error).rstrip(".")
            yield f"task {number} ended in {type(error).__name__} ({said}), and should have been learned"
        after = _file(learner)
        if after == before:
            yield f"task {number} left its file as it was, and should have been learned"
        before = after


@_law("known-classes", "only classes that were learned are predicted")
def _only_learned(case: Case) -> Iterator[str]:
    known: set[str] = set()
    for (_, labels), (predictions, reports) in zip(case.tasks, case.course, strict=True):
        known |= set(labels)
        if predictions.keys() != reports.keys():
            yield "its predictions and its reports do not have the same names, and should"
        for given in predictions.values():
            if strange := sorted(set(given) - known):
                yield f"a prediction is {strange[0]!r}, and should be one of {', '.join(sorted(known))}"
            if len(given) != len(case.test_images):
                images = len(case.test_images)
                yield f"there are {len(given)} predictions for {images} images, and should be one for each"


@_law("same-seed", "the same seed gives the same learner")
def _seed(case: Case) -> Iterator[str]:
    found = []
    for luck in range(2):
        with _luck(luck):
            learner = case.anew().taught()
            found.append((learner.predict(case.test_images), _file(learner)))
    (predictions, file), (other_predictions, other_file) = found
    if other_predictions != predictions:
        yield "taught twice, its predictions differ, and should be equal"
    if other_file != file:
        yield "taught twice, its files differ, and should be equal"


@_law("independent-predictions", "a prediction depends on its image alone", for_all=True)
def _alone(case: Case) -> Iterator[str]:
    learner, others = case.uncached().taught(), list(case.tasks[0][0])
    for images in _closer_and_closer(learner, case.test_images):
        together = learner.predict(images)
        alone = [learner.predict([image]) for image in images]
        mixed = learner.predict([*others, *images[::-1]])
        for name, expected in together.items():
            for how, predictions in (
                ("one by one", [each[name][0] for each in alone]),
                ("in reverse, after others", mixed[name][len(others) :][::-1]),
            ):
                if odd := sum(map(str.__ne__, predictions, expected)):
                    yield f"{how}, {odd} of {len(images)} images get other predictions, and should not"


@_law("pure-predict", "predicting changes nothing")
def _predicting(case: Case) -> Iterator[str]:
    learner = case.taught()
    before = _file(learner)
    learner.predict(case.test_images)
    learner.reports()
    if _file(learner) != before:
        yield f"after {len(case.test_images)} predictions its file has changed, and should not"


# ---- tasks


@_law("learns", "it learns")
def _learns(case: Case) -> Iterator[str]:
    learner = case.begin()
    # In the last task, which has both, a method may rightly prefer old classes to new ones.
    for number, (images, labels) in enumerate(case.tasks[:2], start=1):
        learner.learn(list(images), list(labels))
        chance = max(Counter(labels).values())
        for predictions in learner.predict(images).values():
            right = sum(map(str.__eq__, predictions, labels))
            if right <= chance:
                yield (
                    f"of the {len(labels)} images of task {number} it gets {right} right, and should get "
                    f"more than the {chance} of a constant prediction"
                )


@_law("order", "the order of tasks and images does not matter", several=True)
def _order(case: Case) -> Iterator[str]:
    case = case.at_given_lambda()
    fixed, free = case.fixed_and_free()
    reverse = [(images[::-1], labels[::-1]) for images, labels in free[::-1]]
    yield from _differ(case, "in reverse", [*fixed, *reverse])


@_law("batches", "one batch or many are the same", several=True)
def _one_or_many(case: Case) -> Iterator[str]:
    case = case.at_given_lambda()
    fixed, free = case.fixed_and_free()
    images, labels = joined(free)
    singly: list[TaskData] = [([image], [label]) for image, label in zip(images, labels, strict=True)]
    yield from _differ(case, "in one batch", [*fixed, (images, labels)])
    yield from _differ(case, "image by image", [*fixed, *singly])


@_law("bad-image", "a bad image ends the task, and nothing is learned from it")
def _bad_image(case: Case) -> Iterator[str]:
    learner = case.begin()
    for images, labels in case.tasks:
        before = _file(learner)
        # It comes after more images than are read at a time.
        times = BATCH // len(images) + 1
        try:
            learner.learn([*list(images) * times, NO_IMAGE], [*list(labels) * times, labels[0]])
            yield "a task with a missing file was learned, and should have ended in BadImageError"
        except BadImageError:
            pass
        if _file(learner) != before:
            yield "after a task with a bad image its file has changed, and should not"
        learner.learn(list(images), list(labels))
    if learner.predict(case.test_images) != case.course[-1][0]:
        yield "after bad images it predicts otherwise than without them, and should not"


@_law("no-looking-back", "no image is read again after its task or its prediction")
def _no_return(case: Case) -> Iterator[str]:
    learner = case.begin()
    try:
        for images, labels in case.tasks:
            lent = LentImages(images, "A task")
            learner.learn(lent, list(labels))
            lent.revoke()
            for _twice in range(2):
                lent = LentImages(case.test_images, "A prediction")
                learner.predict(lent)
                lent.revoke()
            learner.reports()
            _file(learner)
    except TaskOverError as error:
        yield f"it went back to images that had been revoked ({str(error)[:-1]}), and should not"


@_law("no-alias", "what was learned does not change with the images")
def _no_alias(case: Case) -> Iterator[str]:
    learner, rng = case.begin(), np.random.default_rng(0)
    for task in case.tasks:
        arrays, names = _in_memory(task)
        learner.learn(arrays, names)
        names[:] = names[::-1]
        for array in arrays:
            array[:] = rng.integers(0, 2, array.shape)
    if learner.predict(case.test_images) != case.course[-1][0]:
        yield "with noise written over the images it has learned, it predicts otherwise, and should not"


# ---- what is kept


@_law("save-and-load", "a saved learner goes on as if it had not been saved")
def _saved(case: Case) -> Iterator[str]:
    learner = case.begin()
    for (images, labels), (predictions, reports) in zip(case.tasks, case.course, strict=True):
        learner.learn(list(images), list(labels))
        file = _file(learner)
        with TemporaryDirectory() as folder:
            (Path(folder) / "learner.layup").write_bytes(file)
            learner = case.method.resume(case.setup, Path(folder) / "learner.layup")
        if _file(learner) != file:
            yield "a learner from a file leaves another file, and should leave the same"
        if learner.predict(case.test_images) != predictions:
            yield "a learner from a file predicts otherwise than one that was never saved, and should not"
        if not _alike(learner.reports(), reports):
            yield "a learner from a file reports otherwise than one that was never saved, and should not"


@_law("memory-per-image", "more images of the same classes take no more memory")
def _memory_per_image(case: Case) -> Iterator[str]:
    few, all_ = (_kept_bytes(case.anew().taught(task)) for task in (_half(case.tasks[0], 0), case.tasks[0]))
    if few != all_:
        yield f"it keeps {few:,} bytes after half of a task and {all_:,} after all of it, and should not"


@_law("memory-per-task", "more tasks of the same classes take no more memory", several=True)
def _memory_per_task(case: Case) -> Iterator[str]:
    one, two = (
        _kept_bytes(case.anew().taught(*tasks))
        for tasks in ([case.tasks[0]], [_half(case.tasks[0], 0), _half(case.tasks[0], 1)])
    )
    if one != two:
        yield f"it keeps {one:,} bytes after one task and {two:,} if it comes as two, and should not"


# ---- helpers


def _differ(case: Case, way: str, tasks: Sequence[TaskData]) -> Iterator[str]:
    """A violation if a learner that is taught in this way makes other predictions than usual."""
    simply, learner = case.taught(), case.taught(*tasks)
    for images in _closer_and_closer(simply, case.test_images):
        expected = simply.predict(images)
        for name, predictions in learner.predict(images).items():
            if others := sum(map(str.__ne__, predictions, expected[name])):
                yield f"taught {way}, {others} of {len(images)} images get other predictions, and should not"


def _closer_and_closer(learner: Learner, images: Sequence[ImageSource]) -> Iterator[list[Any]]:
    """Images; then blends of two, a little before and after the prediction changes.

    Small differences show there. The margin is large enough that rounding does not.
    """
    yield list(images)
    pictures = [open_image(image) for image in images]
    pairs = [(picture, pictures[i - 1].resize(picture.size)) for i, picture in enumerate(pictures)]

    def blends(shares: Sequence[float]) -> list[Any]:
        return [Image.blend(*pair, share) for pair, share in zip(pairs, shares, strict=True)]

    def predictions(shares: Sequence[float]) -> list[str]:
        return next(iter(learner.predict(blends(shares)).values()))

    before, after = [0.0] * len(pairs), [1.0] * len(pairs)
    first = predictions(before)
    for _halving in range(HALVINGS):
        middle = [(low + high) / 2 for low, high in zip(before, after, strict=True)]
        for index, same in enumerate(map(str.__eq__, predictions(middle), first)):
            (before if same else after)[index] = middle[index]
    margin = 0.5**HALVINGS
    yield blends([max(0.0, low - margin) for low in before])
    yield blends([min(1.0, high + margin) for high in after])


def _file(learner: Learner) -> bytes:
    """All that is needed to go on."""
    with TemporaryDirectory() as folder:
        learner.save(Path(folder) / "learner.layup")
        return (Path(folder) / "learner.layup").read_bytes()


def _alike(one: Any, other: Any) -> bool:
    """Whether two reports are equal; numbers may differ by rounding, which depends on how they are summed."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    if isinstance(one, Report) and isinstance(other, Report):
        return _alike(asdict(one), asdict(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    return bool(one == other)


def _kept_bytes(learner: Learner) -> int:
    """How many bytes a learner reports that it keeps."""
    return sum(report.state_bytes for report in learner.reports().values())


def _half(task: TaskData, rest: int) -> TaskData:
    """Every other image of each class."""
    images, labels = task
    turns = [list(labels[:i]).count(label) for i, label in enumerate(labels)]
    chosen = [i for i, turn in enumerate(turns) if turn % 2 == rest]
    return [images[i] for i in chosen], [labels[i] for i in chosen]


def _array(image: ImageSource) -> Any:
    """A copy of an image as an array."""
    return image.copy() if isinstance(image, np.ndarray) else np.array(open_image(image))


def _in_memory(task: TaskData) -> tuple[list[Any], list[str]]:
    """A copy of the data of a task, whose images are arrays."""
    images, labels = task
    return [_array(image) for image in images], list(labels)


@contextmanager
def _luck(seed: int) -> Iterator[None]:
    """All global random numbers follow from the seed in this block, and are restored after it."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - to catch those who draw from it
    try:
        with torch.random.fork_rng(devices=[]):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.default_generator.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
