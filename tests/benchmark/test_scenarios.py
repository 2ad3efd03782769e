"""How datasets are cut into tasks, and what a learner can and cannot reach of them."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from layup.benchmark.datasets import Dataset, Part, load_dataset
from layup.benchmark.scenarios import (
    LentImages,
    Scenario,
    Task,
    class_incremental,
    domain_incremental,
    online,
    task_sizes,
)
from layup.errors import InputError, TaskOverError, UnknownNameError

STYLES = ("ink", "chalk", "spray")


def made(
    classes: int = 10, train: int = 4, test: int = 2, domains: tuple[str, ...] = (), **facts: Any
) -> Dataset:
    """Names of images only, the classes (and domains) in turn: nothing here opens one."""
    names = tuple(f"c{i:03}" for i in range(classes))

    def part(kind: str, count: int) -> Part:
        rows = [(i, label, domain) for i in range(count) for domain in domains or ("",) for label in names]
        images = [f"{kind}/{domain}/{label}/{i}.png" for i, label, domain in rows]
        return Part(images, [label for _, label, _ in rows], [d for *_, d in rows] if domains else None)

    return Dataset("made", names, part("train", train), part("test", test), domains, **facts)


def test_all_tasks_at_once_have_all_images_and_forget_how_they_were_cut():
    dataset = made(classes=6, domains=STYLES)
    for scenario in (class_incremental(dataset, 3, per_class=2), domain_incremental(dataset, per_class=2)):
        joined = scenario.joint()
        [task] = joined.tasks
        for part in ("train", "test"):
            indices = np.concatenate([getattr(each, part) for each in scenario.tasks])
            assert getattr(task, part).tolist() == sorted(indices)
        assert task.classes == scenario.class_order
        assert joined.cut == {"per_class": 2}
        assert (joined.setting, joined.seed) == (scenario.setting, scenario.seed)
        assert joined.tested(0).tolist() == task.test.tolist()
    assert class_incremental(dataset, 3).joint().cut == class_incremental(dataset, 2).joint().cut


def taught(scenario: Scenario, task: int) -> list[Any]:
    return [image for batch in scenario.batches(task) for image in batch.images]


def everything_taught(scenario: Scenario) -> list[list[Any]]:
    return [taught(scenario, task) for task in range(len(scenario.tasks))]


# Class-incremental: which classes come when


@pytest.mark.parametrize(
    ("classes", "first_ten"),
    [
        (100, [68, 56, 78, 8, 23, 84, 90, 65, 74, 76]),
        (200, [168, 136, 51, 9, 183, 101, 171, 99, 42, 159]),
        (300, [169, 221, 146, 296, 92, 229, 49, 70, 126, 77]),
        (196, [59, 134, 162, 9, 42, 72, 118, 99, 109, 79]),
        (50, [43, 41, 23, 14, 13, 40, 42, 22, 16, 45]),
    ],
)
def test_seed_1993_gives_the_orders_of_the_field(classes: int, first_ten: list[int]) -> None:
    """As logged by the field's own code, which calls np.random.seed(1993) and np.random.permutation."""
    dataset = made(classes, 1, 1)
    order = class_incremental(dataset, 10).class_order
    assert order[:10] == tuple(f"c{i:03}" for i in first_ten)
    assert sorted(order) == list(dataset.classes)


def test_another_seed_gives_another_order_and_the_global_generator_is_left_alone() -> None:
    np.random.seed(5)  # noqa: NPY002 - the very generator that must not be touched
    expected = np.random.RandomState(5).random_sample()
    orders = {class_incremental(made(), 5, seed).class_order for seed in (0, 1, 1993)}
    assert len(orders) == 3
    assert np.random.random_sample() == expected  # noqa: NPY002


def test_unshuffled_classes_come_in_the_order_of_the_dataset_if_that_is_usual_or_wanted() -> None:
    by_dataset = made(50, 1, 1, tasks=5, shuffled=False)
    assert class_incremental(by_dataset).class_order == by_dataset.classes
    assert [len(task.classes) for task in class_incremental(by_dataset).tasks] == [10] * 5
    assert class_incremental(by_dataset, shuffled=True).class_order[:2] == ("c043", "c041")
    assert class_incremental(made(), 5, shuffled=False).class_order == made().classes


@pytest.mark.parametrize(
    ("classes", "tasks", "options", "sizes"),
    [
        (100, 10, {}, [10] * 10),
        (200, 20, {}, [10] * 20),
        (196, 10, {"uneven": "first"}, [16, *[20] * 9]),
        (196, 10, {"uneven": "last"}, [*[20] * 9, 16]),
        (196, 10, {}, [*[20] * 9, 16]),
        (196, 20, {"uneven": "first"}, [6, *[10] * 19]),
        (196, 10, {"first": 16}, [16, *[20] * 9]),
        (100, 11, {"first": 50}, [50, *[5] * 10]),
        (100, 6, {"first": 51}, [51, 10, 10, 10, 10, 9]),
        (10, 4, {}, [3, 3, 3, 1]),
        (10, 6, {}, [1, 1, 2, 2, 2, 2]),
        (4, 3, {"uneven": "first"}, [2, 1, 1]),
        (10, 10, {}, [1] * 10),
        (10, 1, {}, [10]),
        (10, 1, {"first": 10}, [10]),
        (3, 2, {"first": 2}, [2, 1]),
    ],
)
def test_task_sizes(classes: int, tasks: int, options: dict[str, Any], sizes: list[int]) -> None:
    assert task_sizes(classes, tasks, **options) == sizes


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))), st.booleans())
def test_all_tasks_but_one_are_of_one_size_or_all_differ_by_one_at_most(
    shape: tuple[int, int], last: bool
) -> None:
    classes, tasks = shape
    sizes = task_sizes(classes, tasks, uneven="last" if last else "first")
    assert len(sizes) == tasks
    assert sum(sizes) == classes
    assert min(sizes) >= 1
    equal = sizes[:-1] if last else sizes[1:]
    assert len(set(equal)) <= 1 or max(sizes) - min(sizes) == 1
    assert sizes == task_sizes(classes, tasks, uneven="first" if last else "last")[::-1]


@pytest.mark.parametrize(
    ("classes", "tasks", "options", "says"),
    [
        (10, 11, {}, "10 classes cannot be divided among 11 tasks. Use from 1 to 10 tasks."),
        (10, 0, {}, "among 0 tasks"),
        (10, -3, {}, "among -3 tasks"),
        (10, 5, {"first": 0}, "The first of 5 tasks cannot have 0 of 10 classes. Use from 1 to 6."),
        (10, 5, {"first": 7}, "cannot have 7 of 10 classes. Use from 1 to 6."),
        (10, 5, {"first": -1}, "cannot have -1"),
        (10, 1, {"first": 4}, "cannot have 4 of 10 classes. Use all 10."),
    ],
)
def test_impossible_sizes_are_refused(classes: int, tasks: int, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refusal:
        task_sizes(classes, tasks, **options)
    assert says in str(refusal.value)


def test_a_first_size_and_an_uneven_place_exclude_each_other() -> None:
    with pytest.raises(InputError, match="not both"):
        class_incremental(made(), 3, first=1, uneven="last")


def test_the_uneven_task_is_the_first_or_the_last() -> None:
    with pytest.raises(UnknownNameError, match=r"'lst'.*first, last.*mean 'last'"):
        class_incremental(made(), 3, uneven="lst")


def test_the_usual_first_task_of_a_dataset_holds_while_the_others_come_out_equal() -> None:
    cars = made(196, 1, 1, first=16)

    def sizes(tasks: int | None = None, **options: Any) -> list[int]:
        return [len(task.classes) for task in class_incremental(cars, tasks, **options).tasks]

    assert sizes() == [16, *[20] * 9]
    assert sizes(uneven="last") == [*[20] * 9, 16]
    assert sizes(20) == [6, *[10] * 19]
    assert sizes(4) == [16, 60, 60, 60]
    assert sizes(1) == [196]
    assert sizes(first=20) == [20, 20, 20, 20, 20, 20, 20, 20, 20, 16]


def test_tasks_are_a_partition_of_classes_and_images() -> None:
    dataset = made(10, 4, 2)
    scenario = class_incremental(dataset, 4)
    assert [name for task in scenario.tasks for name in task.classes] == list(scenario.class_order)
    for kind in ("train", "test"):
        indices = np.concatenate([getattr(task, kind) for task in scenario.tasks])
        assert sorted(indices) == list(range(len(getattr(dataset, kind))))
        for task in scenario.tasks:
            assert {getattr(dataset, kind).labels[i] for i in getattr(task, kind)} == set(task.classes)
    assert [task.name for task in scenario.tasks] == ["1", "2", "3", "4"]


def test_tasks_may_change_places_and_keep_their_classes() -> None:
    dataset = made()
    fixed = class_incremental(dataset, 4, shuffled=False)
    mixed = [class_incremental(dataset, 4, seed, shuffled="tasks") for seed in (0, 0, 1)]
    orders = [[task.classes for task in scenario.tasks] for scenario in mixed]
    assert orders[0] == orders[1] != orders[2]
    for scenario in mixed:
        assert sorted(task.classes for task in scenario.tasks) == [task.classes for task in fixed.tasks]
        assert scenario.class_order == tuple(name for task in scenario.tasks for name in task.classes)
        assert [task.name for task in scenario.tasks] == ["1", "2", "3", "4"]
        assert scenario.cut["shuffled"] == "tasks"
        for task in scenario.tasks:
            assert {dataset.train.labels[i] for i in task.train} == {*task.classes}
    with pytest.raises(InputError, match=r"shuffled = 'task' is no order.*True, False or 'tasks'"):
        class_incremental(dataset, 4, shuffled="task")


def test_what_is_asked_are_the_tests_of_all_tasks_so_far_in_the_order_of_the_dataset() -> None:
    dataset = made(6, 1, 2)
    scenario = class_incremental(dataset, 3)
    for task in range(3):
        seen = {name for each in scenario.tasks[: task + 1] for name in each.classes}
        expected = [i for i, label in enumerate(dataset.test.labels) if label in seen]
        assert scenario.tested(task).tolist() == expected
    for index, task in enumerate(scenario.test_tasks):
        assert dataset.test.labels[index] in scenario.tasks[task].classes


@pytest.mark.parametrize("setting", [class_incremental, domain_incremental])
def test_a_scenario_that_is_tested_once_is_so_after_the_last_task(setting: Any) -> None:
    whole = setting(made(4, 2, 2, STYLES if setting is domain_incremental else (), tasks=2))
    once = replace(whole, tested_once=True)
    *earlier, last = (once.tested(task).tolist() for task in range(len(whole.tasks)))
    assert not any(earlier)
    assert last == whole.tested(len(whole.tasks) - 1).tolist() != []


# Fewer images


@pytest.mark.parametrize("domains", [(), STYLES])
def test_fewer_images_of_a_class_are_among_more_and_the_seed_chooses_them(domains: tuple[str, ...]) -> None:
    dataset = made(5, 8, 1, domains)

    def kept(per_class: int, seed: int = 0) -> set[Any]:
        make = domain_incremental if domains else class_incremental
        options = {} if domains else {"tasks": 5}
        scenario = make(dataset, **options, seed=seed, per_class=per_class)
        return {image for images in everything_taught(scenario) for image in images}

    of = {
        image: (label, image.split("/")[1])
        for image, label in zip(dataset.train.images, dataset.train.labels, strict=True)
    }
    for few, more in ((1, 2), (2, 5), (5, 8)):
        assert kept(few) < kept(more)
        assert set(Counter(of[image] for image in kept(few)).values()) == {few}
    assert kept(8) == kept(99) == set(dataset.train.images)
    assert kept(3) == kept(3)
    assert kept(3) != kept(3, seed=1)


def test_without_domains_in_turn_so_many_of_a_class_are_of_all_domains_together() -> None:
    dataset = made(5, 8, 1, STYLES)
    scenario = class_incremental(dataset, 5, per_class=2)
    taught = [label for task in scenario.tasks for label in np.array(dataset.train.labels)[task.train]]
    assert Counter(taught) == dict.fromkeys(dataset.classes, 2)


def test_no_image_of_a_class_is_impossible() -> None:
    with pytest.raises(InputError, match=r"^0 training images per class are impossible\. Use 1 or more"):
        class_incremental(made(), 5, per_class=0)


# Domain-incremental


def test_each_domain_is_a_task_in_the_order_of_the_dataset() -> None:
    dataset = made(4, 3, 2, STYLES)
    scenario = domain_incremental(dataset)
    assert tuple(task.name for task in scenario.tasks) == STYLES
    assert scenario.class_order == dataset.classes
    for style, images in zip(STYLES, everything_taught(scenario), strict=True):
        assert images == [image for image in dataset.train.images if f"/{style}/" in image]
    assert all(task.classes == dataset.classes for task in scenario.tasks)
    for task in range(3):
        assert scenario.tested(task).tolist() == list(range(len(dataset.test)))
    assert [STYLES[task] for task in scenario.test_tasks] == list(dataset.test.domains)


def test_a_domain_is_its_name_and_not_a_part_of_another() -> None:
    scenario = domain_incremental(made(2, 1, 1, ("art", "cartoon", "deviantart")))
    assert [len(task.train) for task in scenario.tasks] == [2, 2, 2]


def test_domains_can_be_shuffled_by_the_seed() -> None:
    dataset = made(2, 1, 1, tuple("abcdef"))
    orders = [[t.name for t in domain_incremental(dataset, s, shuffled=True).tasks] for s in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list("abcdef")
    assert [t.name for t in domain_incremental(dataset, 1).tasks] == list("abcdef")


def test_a_domain_without_some_classes_says_which_it_has() -> None:
    train = Part(["a", "b", "c"], ["x", "y", "x"], ["one", "one", "two"])
    dataset = Dataset("few", ("x", "y"), train, Part(["d", "e"], ["x", "y"], ["one", "two"]), ("one", "two"))
    assert [task.classes for task in domain_incremental(dataset).tasks] == [("x", "y"), ("x",)]


def test_a_dataset_without_domains_has_no_domain_tasks() -> None:
    with pytest.raises(InputError, match="'made' has no domains, which the setting 'dil' needs"):
        domain_incremental(made())


# Streams


@pytest.mark.parametrize("size", [1, 3, 10, 1000])
def test_a_stream_gives_each_image_once_and_no_batch_straddles_a_boundary(size: int) -> None:
    dataset = made(6, 7, 1)
    scenario = online(dataset, 3, batch=size)
    seen = []
    for task in range(3):
        sizes = []
        for batch in scenario.batches(task):
            sizes.append(len(batch.images))
            assert set(batch.labels) <= set(scenario.tasks[task].classes)
            assert [image.split("/")[2] for image in batch.images] == batch.labels
            seen += batch.images
        assert sizes[:-1] == [size] * (len(sizes) - 1)
        assert 1 <= sizes[-1] <= size
    assert sorted(seen) == sorted(dataset.train.images)


def test_the_seed_decides_the_order_of_a_stream_and_the_classes_are_those_of_cil() -> None:
    dataset = made(6, 7, 1)
    streams = [everything_taught(online(dataset, 3, seed)) for seed in (0, 0, 1)]
    assert streams[0] == streams[1] != streams[2]
    offline = class_incremental(dataset, 3, 0)
    assert streams[0] != everything_taught(offline)
    assert [sorted(task) for task in streams[0]] == [sorted(task) for task in everything_taught(offline)]
    assert online(dataset, 3, 0).class_order == offline.class_order


def test_the_order_of_a_stream_does_not_depend_on_the_size_of_its_batches() -> None:
    dataset = made(6, 7, 1)
    assert everything_taught(online(dataset, 3, batch=1)) == everything_taught(online(dataset, 3, batch=5))


def test_a_batch_of_a_stream_does_not_name_its_task() -> None:
    messages = set()
    for task in range(3):
        for batch in online(made(6, 2, 1), 3, batch=1).batches(task):
            assert set(vars(batch)) == {"images", "labels"}
            batch.images.revoke()
            with pytest.raises(TaskOverError) as over:
                batch.images[0]
            messages.add(str(over.value))
            told = " ".join(str(value) for value in vars(batch.images).values()).lower()
            assert "task" not in told
    assert len(messages) == 1


def test_a_stream_of_nothing_at_a_time_is_impossible() -> None:
    with pytest.raises(InputError, match="A stream of 0 images at a time is impossible"):
        online(made(), 5, batch=0)


# What decided the tasks


def test_a_scenario_knows_what_decided_its_tasks() -> None:
    dataset = made(10, 4, 1, first=4)
    usual = class_incremental(dataset, 4)
    assert (usual.seed, usual.batch) == (1993, None)
    assert usual.cut == {"first": 4, "uneven": None, "shuffled": True, "per_class": None}
    assert class_incremental(dataset, 4, first=4).cut == usual.cut
    other = online(dataset, 3, 7, batch=2, uneven="last", shuffled=False, per_class=3)
    assert (other.seed, other.batch) == (7, 2)
    assert other.cut == {"first": None, "uneven": "last", "shuffled": False, "per_class": 3}
    styles = made(4, 1, 1, STYLES)
    assert domain_incremental(styles).cut == {"order": "ink,chalk,spray", "per_class": None}
    assert domain_incremental(styles, 3, shuffled=True, per_class=1).cut == {
        "order": "shuffled",
        "per_class": 1,
    }


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_the_legacy_generator_does_not_take_is_refused(seed: int) -> None:
    for cut in (
        lambda: class_incremental(made(), 5, seed),
        lambda: domain_incremental(made(2, 1, 1, STYLES), seed, shuffled=True),
    ):
        with pytest.raises(InputError, match=rf"The seed {seed} cannot order anything"):
            cut()


def test_a_task_that_could_not_be_tested_is_refused() -> None:
    train = Part(["a", "b", "c"], ["x", "y", "z"])
    dataset = Dataset("pets", ("x", "y", "z"), train, Part(["d", "e"], ["x", "y"]))
    with pytest.raises(InputError, match=r"There are no test images for task 3 of 'pets'.*fewer tasks"):
        class_incremental(dataset, 3, shuffled=False)
    assert len(class_incremental(dataset, 2, shuffled=False, uneven="first").tasks) == 2


# Loans


def test_images_can_be_read_while_they_are_lent_and_not_afterwards() -> None:
    lent = LentImages(["a", "b", "c", "d"], "Task 7")
    assert list(lent) == ["a", "b", "c", "d"]
    assert (lent[0], lent[-1], lent[np.int64(1)]) == ("a", "d", "b")
    assert list(lent[1:3]) == ["b", "c"]
    assert list(lent[::-2][1:]) == ["b"]
    assert list(reversed(lent)) == ["d", "c", "b", "a"]
    assert "c" in lent
    with pytest.raises(IndexError):
        lent[4]
    part, parts_part, iterator = lent[1:], lent[1:][:2], iter(lent)
    assert next(iterator) == "a"
    lent.revoke()
    for read in (
        lambda: lent[0],
        lambda: lent[:],
        lambda: list(lent),
        lambda: "a" in lent,
        lambda: next(iterator),
        lambda: part[0],
        lambda: part[:1],
        lambda: list(parts_part),
    ):
        with pytest.raises(TaskOverError, match=r"^Task 7 is over: its images cannot be read again\."):
            read()
    assert (len(lent), len(part), len(parts_part)) == (4, 3, 2)


@pytest.mark.parametrize("size", [None, 2])
def test_each_batch_is_over_when_the_next_one_begins_even_for_a_learner_that_kept_it(
    size: int | None,
) -> None:
    dataset = made(4, 3, 1)
    scenario = class_incremental(dataset, 2) if size is None else online(dataset, 2, batch=size)
    kept: list[Any] = []
    for task in range(2):
        for batch in scenario.batches(task):
            assert len(list(batch.images)) == len(batch.labels)
            for old in kept:
                with pytest.raises(TaskOverError):
                    old[0]
            kept += [batch.images, batch.images[:1], batch.images[:2][1:] or batch.images]
    assert len(kept) >= 6
    for old in kept:
        with pytest.raises(TaskOverError):
            old[0]


def test_a_batch_that_was_broken_off_is_over_too() -> None:
    batches = class_incremental(made(), 5).batches(0)
    batch = next(batches)
    with pytest.raises(KeyboardInterrupt):
        batches.throw(KeyboardInterrupt())
    with pytest.raises(TaskOverError, match="Task 1 is over"):
        batch.images[0]


# What can be reached


def reachable(start: Any) -> dict[int, Any]:
    """All objects that a program can get to from one, but for code."""
    found: dict[int, Any] = {}
    stack = [start]
    while stack:
        each = stack.pop()
        if id(each) in found or isinstance(each, type | ModuleType | FunctionType | BuiltinFunctionType):
            continue
        found[id(each)] = each
        stack += gc.get_referents(each)
        if getattr(each, "base", None) is not None:  # an array's, which the collector does not know
            stack.append(each.base)
    return found


@pytest.mark.parametrize("batch", [None, 1])
@pytest.mark.parametrize("name", ["digits", "digits-styles"])
def test_nothing_of_the_tests_can_be_reached_from_a_batch(name: str, batch: int | None) -> None:
    dataset = load_dataset(name)
    if dataset.domains:
        scenario = domain_incremental(dataset)
    else:
        scenario = class_incremental(dataset) if batch is None else online(dataset, batch=batch)
    tests = {id(image) for image in dataset.test.images}
    assert tests <= reachable(scenario).keys()  # the walk does find them where they are
    batches = scenario.batches(1)  # revoked when this is gone
    batch = next(batches)
    found = reachable(batch)
    assert {id(image) for image in batch.images} <= found.keys()
    assert not tests & found.keys()
    assert not [each for each in found.values() if isinstance(each, Dataset | Part | Scenario | Task)]
    arrays = [each for each in found.values() if isinstance(each, np.ndarray)]
    assert not any(np.may_share_memory(array, test) for array in arrays[:50] for test in dataset.test.images)
    others = {id(image) for image in dataset.train.images} - {id(image) for image in batch.images}
    assert not others & found.keys()
