"""The laws that every learner obeys, each in one sentence, to be checked on any method, also one of your own.

A law is a function of a method, what it works with, and a small world of real images; it raises
`LawBrokenError` if it sees the method break it. `check` checks all. A method opts out of a law in the open,
by name and with a reason: `Method.exempt`. Two laws are about the algebra of sums, and so are checked at a
given λ where the method has one: a λ that is searched depends on the last lesson.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
"""A lesson: images, and one label each."""

FEWEST = 4
"""Images of every class of a lesson: half of them are still several."""

HALVINGS = 5
"""How closely the place is looked for where an answer changes: to 1/32 of the way between two images."""

NO_IMAGE = "there is no such image.png"


class LawBrokenError(AssertionError):
    """A method does what a law forbids."""


@dataclass(frozen=True)
class Examples:
    """Three small lessons, and images to ask about.

    The first two lessons bring new classes, two each or more; in the last one an old class returns, with
    twice as many images or more, and a new one comes. Four real images of a class are enough.
    """

    tasks: Sequence[TaskData]
    asked: Sequence[ImageSource]

    def __post_init__(self) -> None:
        if fault := self._fault():
            raise InputError(f"This world cannot show whether laws are obeyed: {fault}.")

    @classmethod
    def of(cls, dataset: Dataset, images: int = 6) -> Examples:
        """So many images of each of the first five classes, twice as many of what returns, and as many asked.

        >>> from layup.benchmark.datasets import load_dataset
        >>> [sorted(set(labels)) for _, labels in Examples.of(load_dataset("digits")).tasks]
        [['0', '1'], ['2', '3'], ['0', '4']]
        """
        if len(dataset.classes) < 5:
            raise InputError(
                f"A world takes five classes, and '{dataset.name}' has {len(dataset.classes)}. Use another."
            )
        a, b, c, d, e = dataset.classes[:5]
        some, twice = slice(images), slice(images, 3 * images)
        wanted = {a: some, b: some}, {c: some, d: some}, {a: twice, e: some}
        tasks = [_some(dataset.train, each) for each in wanted]
        return cls(tasks, _some(dataset.test, dict.fromkeys((a, b, c, d, e), some))[0])

    def _fault(self) -> str | None:
        if len(self.tasks) != 3:
            return f"it has {len(self.tasks)} lessons, and not three"
        first, second, third = (set(labels) for _, labels in self.tasks)
        if len(first) < 2 or len(second) < 2 or first & second:
            return "its first two lessons do not bring two new classes each"
        if not third & (first | second) or not third - first - second:
            return "in its last lesson there is not both a class that returns and one that is new"
        for images, labels in self.tasks:
            if len(images) != len(labels) or min(Counter(labels).values()) < FEWEST:
                return f"a lesson has not one label for each image, and {FEWEST} images of every class"
        numbers = [Counter(labels) for _, labels in self.tasks]
        if not any(numbers[2][name] >= 2 * before > 0 for name, before in (numbers[0] + numbers[1]).items()):
            return "nothing returns in its last lesson with twice as many images, to show wrong weights"
        return None if len(self.asked) else "there are no images to ask about"


def _some(part: Part, wanted: Mapping[str, slice]) -> TaskData:
    """These images of each of these classes, which take turns as in a shuffled folder."""
    members = by_class(part.labels)
    chosen = [members.get(name, [])[which] for name, which in wanted.items()]
    turns = [index for turn in zip_longest(*chosen) for index in turn if index is not None]
    return [part.images[index] for index in turns], [part.labels[index] for index in turns]


@dataclass(frozen=True)
class Case:
    """What a law looks at: a method in a setup, the lessons that it is taught, and images to ask about."""

    method: Method
    setup: Setup
    tasks: list[TaskData]
    asked: list[ImageSource]

    @classmethod
    def of(cls, method: Method, setup: Setup, examples: Examples) -> Case:
        """A method in a world, with all images in memory; one that learns at once gets one lesson."""
        tasks: list[TaskData] = [_in_memory(task) for task in examples.tasks]
        tasks = [joined(tasks)] if method.joint else tasks
        setup = replace(setup, tasks=len(tasks) if setup.tasks is None else setup.tasks)
        return cls(method, setup, tasks, [_array(image) for image in examples.asked])

    @cached_property
    def course(self) -> list[tuple[dict[str, list[str]], dict[str, Report]]]:
        """What a learner that is simply taught answers and reports after each lesson."""
        learner = self.begin()
        found = []
        for images, labels in self.tasks:
            learner.learn(list(images), list(labels))
            found.append((learner.predict(self.asked), learner.reports()))
        return found

    def begin(self) -> Learner:
        """A learner that knows nothing yet."""
        return self.method.begin(self.setup)

    def taught(self, *tasks: TaskData) -> Learner:
        """A learner after these lessons, by default after all."""
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
        """The same, with λ = 1 where the method would choose it, which depends on the last lesson."""
        if isinstance(getattr(self.method, "lam", 1.0), int | float):
            return self
        given: dict[str, Any] = {"lam": 1.0}
        return replace(self, method=replace(self.method, **given))

    def fixed_and_free(self) -> tuple[list[TaskData], list[TaskData]]:
        """The lessons whose place matters, and the others: the first session is of the first lesson."""
        fixed = 0 if self.setup.session is None else 1
        return self.tasks[:fixed], self.tasks[fixed:]


Violations: TypeAlias = Callable[[Case], Iterator[str]]
"""What a method is seen to do against a law, and what was expected, each in one clause."""


@dataclass(frozen=True)
class Law:
    """A law, to be called with a method, a setup and a world; raises `LawBrokenError`.

    several: whether it is about several lessons, and says nothing of a method that learns all at once.
    for_all: whether no method may opt out of it.
    """

    name: str
    violations: Violations
    several: bool = False
    for_all: bool = False

    def __call__(self, method: Method, setup: Setup, examples: Examples) -> None:
        """Raise if the method is seen to break the law."""
        self.judge(Case.of(method, setup, examples))

    def judge(self, case: Case) -> None:
        """Raise at the first violation."""
        for seen in self.violations(case):
            raise LawBrokenError(f"The method {case.method.name!r} breaks the law {self.name!r}: {seen}.")


LAWS: dict[str, Law] = {}
"""All laws by name; the first are those on which others rest."""


def check(method: Method, setup: Setup, examples: Examples) -> None:
    """Check all laws but those that the method opts out of; the first that is broken is a `LawBrokenError`.

    Costs some twenty times what it takes to learn the world's lessons. docs/laws.md has an example.
    """
    case = Case.of(method, setup, examples)
    for law in laws_of(method).values():
        law.judge(case)


def laws_of(method: Method | type[Method]) -> dict[str, Law]:
    """The laws that a method has to obey: all but its exemptions.

    >>> from layup.benchmark.methods import method_class
    >>> laws_of(method_class("layup")) == LAWS
    True
    """
    exempt = exemptions(method)
    return {name: law for name, law in LAWS.items() if name not in exempt}


def exemptions(method: Method | type[Method]) -> dict[str, str]:
    """The laws that a method need not obey, and why: those it opts out of, or those about several lessons.

    >>> from layup.benchmark.methods import method_class
    >>> exemptions(method_class("joint"))["a class may come or return at any time"]
    'it learns all lessons as one'
    """
    for name in method.exempt:
        if name not in LAWS:
            raise unknown_name("law", name, LAWS)
        if LAWS[name].for_all:
            raise InputError(f"The method {method.name!r} opts out of {name!r}, and no method may.")
    joint = [name for name, law in LAWS.items() if law.several and method.joint]
    return {**method.exempt, **dict.fromkeys(joint, "it learns all lessons as one")}


def joined(tasks: Sequence[TaskData]) -> TaskData:
    """Several lessons as one."""
    images = [image for images, _ in tasks for image in images]
    return images, [label for _, labels in tasks for label in labels]


def _law(name: str, *, several: bool = False, for_all: bool = False) -> Callable[[Violations], Violations]:
    """Enter what yields the violations of a law among the laws, under this name."""

    def enter(violations: Violations) -> Violations:
        LAWS[name] = Law(name, violations, several, for_all)
        return violations

    return enter


# ---- what the others rest on


@_law("a class may come or return at any time", several=True)
def _comes_and_returns(case: Case) -> Iterator[str]:
    learner = case.begin()
    before = b""
    for number, (images, labels) in enumerate(case.tasks, start=1):
        try:
            learner.learn(list(images), list(labels))
        except Exception as error:
            said = str(error).rstrip(".")
            yield f"lesson {number} ended in {type(error).__name__} ({said}), and should have been learned"
        after = _file(learner)
        if after == before:
            yield f"lesson {number} left its file as it was, and should have been learned"
        before = after


@_law("only classes that were learned are answers")
def _only_learned(case: Case) -> Iterator[str]:
    known: set[str] = set()
    for (_, labels), (predictions, reports) in zip(case.tasks, case.course, strict=True):
        known |= set(labels)
        if predictions.keys() != reports.keys():
            yield "its answers and its reports are not by the same names, and should be"
        for given in predictions.values():
            if strange := sorted(set(given) - known):
                yield f"an answer is {strange[0]!r}, and should be one of {', '.join(sorted(known))}"
            if len(given) != len(case.asked):
                yield f"there are {len(given)} answers to {len(case.asked)} images, and should be one to each"


@_law("the same seed gives the same learner")
def _seed(case: Case) -> Iterator[str]:
    found = []
    for luck in range(2):
        with _luck(luck):
            learner = case.anew().taught()
            found.append((learner.predict(case.asked), _file(learner)))
    (predictions, file), (other_predictions, other_file) = found
    if other_predictions != predictions:
        yield "taught twice, it answers in two ways, and should answer in one"
    if other_file != file:
        yield "taught twice, it leaves two different files, and they should be equal"


@_law("an answer depends on its image alone", for_all=True)
def _alone(case: Case) -> Iterator[str]:
    learner, others = case.uncached().taught(), list(case.tasks[0][0])
    for asked in _closer_and_closer(learner, case.asked):
        together = learner.predict(asked)
        alone = [learner.predict([image]) for image in asked]
        mixed = learner.predict([*others, *asked[::-1]])
        for name, expected in together.items():
            for how, predictions in (
                ("one by one", [each[name][0] for each in alone]),
                ("backwards, after others", mixed[name][len(others) :][::-1]),
            ):
                if odd := sum(map(str.__ne__, predictions, expected)):
                    yield f"asked {how}, {odd} of {len(asked)} images have other answers, and should not"


@_law("answering changes nothing")
def _predicting(case: Case) -> Iterator[str]:
    learner = case.taught()
    before = _file(learner)
    learner.predict(case.asked)
    learner.reports()
    if _file(learner) != before:
        yield f"after {len(case.asked)} answers its file is another one, and should be the same"


# ---- lessons


@_law("it learns")
def _learns(case: Case) -> Iterator[str]:
    learner = case.begin()
    # In the last lesson, which has both, a method may rightly prefer the old to the new.
    for number, (images, labels) in enumerate(case.tasks[:2], start=1):
        learner.learn(list(images), list(labels))
        chance = max(Counter(labels).values())
        for predictions in learner.predict(images).values():
            right = sum(map(str.__eq__, predictions, labels))
            if right <= chance:
                yield (
                    f"of the {len(labels)} images of lesson {number} it gets {right} right, and should get "
                    f"more than the {chance} of an answer that is always the same"
                )


@_law("the order of lessons and images does not matter", several=True)
def _order(case: Case) -> Iterator[str]:
    case = case.at_given_lambda()
    fixed, free = case.fixed_and_free()
    backwards = [(images[::-1], labels[::-1]) for images, labels in free[::-1]]
    yield from _differ(case, "backwards", [*fixed, *backwards])


@_law("one lesson or many are the same", several=True)
def _one_or_many(case: Case) -> Iterator[str]:
    case = case.at_given_lambda()
    fixed, free = case.fixed_and_free()
    images, labels = joined(free)
    singly: list[TaskData] = [([image], [label]) for image, label in zip(images, labels, strict=True)]
    yield from _differ(case, "all at once", [*fixed, (images, labels)])
    yield from _differ(case, "image by image", [*fixed, *singly])


@_law("a bad image ends the lesson, and nothing is learned of it")
def _bad_image(case: Case) -> Iterator[str]:
    learner = case.begin()
    for images, labels in case.tasks:
        before = _file(learner)
        # It comes after more images than are read at a time.
        times = BATCH // len(images) + 1
        try:
            learner.learn([*list(images) * times, NO_IMAGE], [*list(labels) * times, labels[0]])
            yield "a lesson with a file that is not there was learned, and should have ended in BadImageError"
        except BadImageError:
            pass
        if _file(learner) != before:
            yield "after a lesson with a bad image its file is another one, and should be the same"
        learner.learn(list(images), list(labels))
    if learner.predict(case.asked) != case.course[-1][0]:
        yield "having met bad images it answers otherwise than one that has not, and should not"


@_law("no image is read again when its lesson or question is over")
def _no_return(case: Case) -> Iterator[str]:
    learner = case.begin()
    try:
        for images, labels in case.tasks:
            lent = LentImages(images, "A lesson")
            learner.learn(lent, list(labels))
            lent.revoke()
            for _twice in range(2):
                asked = LentImages(case.asked, "A question")
                learner.predict(asked)
                asked.revoke()
            learner.reports()
            _file(learner)
    except TaskOverError as error:
        yield f"it went back to images that had been taken away ({str(error)[:-1]}), and should not"


@_law("what was learned does not change with the images")
def _no_alias(case: Case) -> Iterator[str]:
    learner, rng = case.begin(), np.random.default_rng(0)
    for task in case.tasks:
        arrays, names = _in_memory(task)
        learner.learn(arrays, names)
        names[:] = names[::-1]
        for array in arrays:
            array[:] = rng.integers(0, 2, array.shape)
    if learner.predict(case.asked) != case.course[-1][0]:
        yield "with noise written over the images of its lessons it answers otherwise, and should not"


# ---- what is kept


@_law("a saved learner goes on as if it had not been saved")
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
        if learner.predict(case.asked) != predictions:
            yield "a learner from a file answers otherwise than one that was never saved, and should not"
        if learner.reports() != reports:
            yield "a learner from a file reports otherwise than one that was never saved, and should not"


@_law("more images of the same classes take no more room")
def _room_of_images(case: Case) -> Iterator[str]:
    few, all_ = (_room(case.anew().taught(task)) for task in (_half(case.tasks[0], 0), case.tasks[0]))
    if few != all_:
        yield f"it keeps {few:,} bytes of half of a lesson and {all_:,} of all, and should keep the same"


@_law("more lessons of the same classes take no more room", several=True)
def _room_of_tasks(case: Case) -> Iterator[str]:
    one, two = (
        _room(case.anew().taught(*tasks))
        for tasks in ([case.tasks[0]], [_half(case.tasks[0], 0), _half(case.tasks[0], 1)])
    )
    if one != two:
        yield f"it keeps {one:,} bytes of one lesson and {two:,} if it comes as two, and should keep the same"


# ---- helpers


def _differ(case: Case, way: str, tasks: Sequence[TaskData]) -> Iterator[str]:
    """A violation if a learner that is taught in this way does not answer as one that is simply taught."""
    simply, learner = case.taught(), case.taught(*tasks)
    for images in _closer_and_closer(simply, case.asked):
        expected = simply.predict(images)
        for name, predictions in learner.predict(images).items():
            if others := sum(map(str.__ne__, predictions, expected[name])):
                yield f"taught {way}, it gives {others} of {len(images)} images other answers, and should not"


def _closer_and_closer(learner: Learner, asked: Sequence[ImageSource]) -> Iterator[list[Any]]:
    """Images; then blends of two, a little before and after the answer changes: small differences show there.

    But not so little that rounding would show.
    """
    yield list(asked)
    pictures = [open_image(image) for image in asked]
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


def _room(learner: Learner) -> int:
    """How many bytes a learner says that it keeps."""
    return sum(report.state_bytes for report in learner.reports().values())


def _half(task: TaskData, rest: int) -> TaskData:
    """Every other image of each class."""
    images, labels = task
    turns = [list(labels[:i]).count(label) for i, label in enumerate(labels)]
    chosen = [i for i, turn in enumerate(turns) if turn % 2 == rest]
    return [images[i] for i in chosen], [labels[i] for i in chosen]


def _array(image: ImageSource) -> Any:
    """An image as an array of its own."""
    return image.copy() if isinstance(image, np.ndarray) else np.array(open_image(image))


def _in_memory(task: TaskData) -> tuple[list[Any], list[str]]:
    """A copy of a lesson, whose images are arrays."""
    images, labels = task
    return [_array(image) for image in images], list(labels)


@contextmanager
def _luck(seed: int) -> Iterator[None]:
    """Everybody's random numbers follow from the seed in this block, and are undisturbed after it."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - whoever draws from it is caught
    try:
        with torch.random.fork_rng(devices=[]):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.default_generator.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
