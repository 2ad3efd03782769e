"""The loop: what it gives to learners, what it measures, what it leaves on disk, and how it survives.

`python test_experiment.py FOLDER` kills runs in FOLDER, each at another moment; a test then lets them go on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import layup
from layup import Backbone, FeatureCache, FirstSession, Preprocessing, load_backbone, machine, storage
from layup.benchmark import experiment
from layup.benchmark.datasets import Dataset, Part
from layup.benchmark.experiment import Experiment, run_tasks
from layup.benchmark.methods import METHODS, DepthsMethod, Learner, Report, Setup, method_class, method_from
from layup.benchmark.methods.closed_form import ModelLearner
from layup.benchmark.results import SCHEMA
from layup.benchmark.scenarios import Scenario, class_incremental, domain_incremental, online
from layup.errors import DamagedFileError, InputError, StorageError, TaskOverError
from layup.images import image_digest
from layup.tuning.config import WAYS, prepared
from layup.tuning.trainer import Trainer
from learners import small
from photos import batch, name
from processes import Quick

STYLES = ("dark", "bright")
VARYING = (
    "learn_seconds",
    "predict_seconds",
    "forward_passes",
    "training_passes",
    "peak_memory",
    "shared_by",
)
SESSION = FirstSession("ssf", epochs=3, batch_size=4, seed=1)


def few_digits(train=5, test=2, classes=10):
    """Digits, so many of each for training and for testing."""
    parts = [Part(*batch(dict.fromkeys(range(classes), n), s)) for n, s in ((train, 0), (test, 100))]
    return Dataset("few", tuple(name(i) for i in range(classes)), *parts, tasks=5)


def few_styles(train=4, test=2, classes=3):
    plain = few_digits(train, test, classes)

    def styled(part):
        images = [255 - image if style == "bright" else image for style in STYLES for image in part.images]
        return Part(images, [*part.labels] * 2, [style for style in STYLES for _ in part.labels])

    return Dataset("styles", plain.classes, styled(plain.train), styled(plain.test), STYLES)


def numbers(record):
    """A record without what the machine and the moment decide."""
    values = record.to_dict()
    for step in values["steps"]:
        for varying in VARYING:
            del step[varying]
    return values


def finish(one, **options):
    """Run to the end; the records by variant."""
    *_, records = one.go(**options)
    return records


def only(one, **options):
    [record] = finish(one, **options).values()
    return record


@pytest.fixture(scope="module")
def nano():
    return small()


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """One cache for all tests that do not count passes."""
    return FeatureCache(tmp_path_factory.mktemp("features"))


@pytest.fixture
def make(nano, features, tmp_path):
    """Experiments that take a moment."""

    def made(method="layup", scenario=None, *, k=2, cache=features, folder=tmp_path / "out", **options):
        known = {name: value for name, value in options.items() if name in ("lam", "balance")}
        rest = {name: value for name, value in options.items() if name not in known}
        if method == "depths":
            chosen = DepthsMethod.with_options({"depths": k, **known})
        else:
            chosen = method_from(method, known if method == "nmc" else {"k": k, **known})
        backbone = rest.pop("backbone", nano)
        scenario = class_incremental(few_digits()) if scenario is None else scenario
        return Experiment(scenario, chosen, backbone, folder, reading={"cache": cache}, **rest)

    return made


@pytest.fixture
def batches_learned(monkeypatch):
    """The labels of each batch that a model is given, in order."""
    seen = []
    original = ModelLearner.learn

    def learn(self, images, labels):
        seen.append(sorted(set(labels)))
        original(self, images, labels)

    monkeypatch.setattr(ModelLearner, "learn", learn)
    return seen


# The loop, with learners that follow a script


class Scripted(Learner):
    """Notes all that it is given, and predicts by a rule."""

    def __init__(self, rule=lambda image: image.rpartition(":")[2]):
        self.rule = rule
        self.learned, self.tested, self.kept = [], [], []

    def learn(self, images, labels):
        self.learned.append((list(images), list(labels)))
        self.kept.append(images)

    def predict(self, images):
        given = list(images)  # once: an image may be made when it is read
        self.tested.append(given)
        self.kept.append(images)
        return {"": [self.rule(image) for image in given]}

    def reports(self):
        return {"": Report({"tasks": len(self.learned)}, 7)}

    def save(self, path):
        raise NotImplementedError


def named(classes=6, train=3, test=4, domains=()):
    """Images that are texts which end in their label."""
    names = tuple(f"c{i}" for i in range(classes))

    def part(kind, count):
        rows = [
            (f"{kind} {i} {domain}:{label}", label, domain)
            for i in range(count)
            for domain in domains or ("",)
            for label in names
        ]
        images, labels, of = map(list, zip(*rows, strict=True))
        return Part(images, labels, of if domains else None)

    return Dataset("named", names, part("train", train), part("test", test), domains)


def all_scenarios(dataset=None, styles=None):
    dataset, styles = dataset or named(), styles or named(domains=("a", "b", "c"))
    return {
        "cil": class_incremental(dataset, 3),
        "dil": domain_incremental(styles),
        "ocl": online(dataset, 3, batch=2),
    }


@pytest.mark.parametrize("setting", ["cil", "dil", "ocl"])
def test_a_learner_gets_exactly_the_training_images_of_each_task_in_order(setting):
    scenario = all_scenarios()[setting]
    learner = Scripted()
    train = scenario.dataset.train
    for event, task in zip(run_tasks(learner, scenario), scenario.tasks, strict=True):
        given = [pair for images, labels in learner.learned for pair in zip(images, labels, strict=True)]
        assert given == [(train.images[i], train.labels[i]) for i in task.train]
        assert all(len(images) <= (scenario.batch or len(task.train)) for images, _ in learner.learned)
        test = scenario.dataset.test
        assert learner.tested[-1] == [test.images[i] for i in event.tested]
        assert event.predictions == {"": [test.labels[i] for i in event.tested]}
        learner.learned.clear()
    assert len(learner.tested) == len(scenario.tasks)


@pytest.mark.parametrize("setting", ["cil", "dil", "ocl"])
def test_neither_training_nor_test_images_can_be_read_when_their_time_is_over(setting):
    class Hoarder(Scripted):
        def learn(self, images, labels):
            self.try_all()
            self.kept += [images[:1], images[:]]
            super().learn(images, labels)

        def predict(self, images):
            self.try_all()
            return super().predict(images)

        def try_all(self):
            for old in self.kept:
                with pytest.raises(TaskOverError, match="cannot be read again"):
                    old[0]

    learner = Hoarder()
    assert len(list(run_tasks(learner, all_scenarios()[setting]))) == 3
    learner.try_all()
    assert len(learner.kept) >= 12


class Watched(Sequence):
    """Images of which each may be read at its time only."""

    def __init__(self, images, allowed):
        self.images, self.allowed = images, allowed

    def __getitem__(self, index):
        image = self.images[index]
        assert self.allowed(index), "read at the wrong time"
        return image

    def __len__(self):
        return len(self.images)


@pytest.mark.parametrize("setting", ["cil", "dil", "ocl"])
def test_the_loop_itself_reads_no_test_while_learning_and_no_task_that_is_over(setting):
    plain = all_scenarios()[setting]
    train, test = plain.dataset.train, plain.dataset.test
    task_of = {index: number for number, task in enumerate(plain.tasks) for index in task.train.tolist()}
    learner = None

    def of_this_task(index):
        return learner is None or task_of[index] == len(learner.tested)

    def all_learned(_place):
        if learner is None:
            return True
        so_far = sum(len(task.train) for task in plain.tasks[: len(learner.tested) + 1])
        return sum(len(images) for images, _ in learner.learned) == so_far

    watched = replace(
        plain.dataset,
        train=replace(train, images=Watched(train.images, of_this_task)),
        test=replace(test, images=Watched(test.images, all_learned)),
    )
    learner = Scripted()
    assert [event.task for event in run_tasks(learner, replace(plain, dataset=watched))] == [0, 1, 2]
    with pytest.raises(AssertionError, match="at the wrong time"):
        watched.train.images[0]


class TimedFile(os.PathLike):
    """A photo on disk that can be opened at its time only, once the clock goes."""

    def __init__(self, path, clock, time):
        self.path, self.clock, self.time = path, clock, time

    def __fspath__(self):
        if self.clock and self.clock[-1] != self.time:
            raise AssertionError(f"{self.path} of {self.time} was opened in {self.clock[-1]}")
        return str(self.path)


@pytest.mark.parametrize(
    ("method", "setting"),
    [
        *((name, setting) for name in METHODS for setting in method_class(name).settings if name != "aper"),
        *(("depths", setting) for setting in ("cil", "dil", "ocl")),
    ],
)
def test_no_method_touches_tests_while_learning_or_a_task_that_is_over(
    method, setting, nano, features, tmp_path
):
    plain = few_styles(train=4, test=1, classes=4)
    clock = []

    def timed(part, kind):
        files = []
        for i, image in enumerate(part.images):
            Image.fromarray(image).save(tmp_path / f"{kind}{i}.png")
            files.append(TimedFile(tmp_path / f"{kind}{i}.png", clock, kind))
        return replace(part, images=files)

    dataset = replace(plain, train=timed(plain.train, "train"), test=timed(plain.test, "test"))
    if setting == "dil":
        scenario = domain_incremental(dataset)
    else:
        scenario = (online if setting == "ocl" else class_incremental)(dataset, 2)
    kind = DepthsMethod if method == "depths" else method_class(method)
    scenario = scenario.joint() if kind.joint else scenario
    tasks = len(scenario.tasks)
    for number, task in enumerate(scenario.tasks):
        for index in task.train:
            dataset.train.images[index].time = f"task {number}"

    class Clocked(Scripted):
        def __init__(self, inner):
            self.inner = inner

        def learn(self, images, labels):
            clock.append(f"task {clock.count('test')}")
            self.inner.learn(images, labels)

        def predict(self, images):
            clock.append("test")
            return self.inner.predict(images)

        def reports(self):
            return self.inner.reports()

    session = FirstSession("ssf", epochs=1) if kind.adapts and setting != "ocl" else None
    setup = Setup(nano, setting, session, reading={"cache": features}, tasks=tasks)
    options = {"depths": (1, 2), "k": 2, "width": 16, "epochs": 1, "batch_size": 8}
    chosen = kind.with_options({n: value for n, value in options.items() if n in kind.option_names()})
    events = list(run_tasks(Clocked(chosen.begin(setup)), scenario))
    assert len(events) == tasks
    assert clock.count("test") == tasks
    with pytest.raises(AssertionError, match=r"was opened in test"):
        image_digest(dataset.train.images[0])


def test_nothing_of_the_dataset_can_be_reached_from_a_learner_before_it_learns(make):
    import gc
    from types import BuiltinFunctionType, FunctionType, ModuleType

    one = make(session=SESSION)
    learner = one.method.begin(one.setup)
    learner.model.classifier_.needs_samples  # noqa: B018 - the parts are made when first needed
    seen, stack = {}, [learner]
    while stack:
        each = stack.pop()
        if id(each) not in seen and not isinstance(
            each, type | ModuleType | FunctionType | BuiltinFunctionType
        ):
            seen[id(each)] = each
            stack += gc.get_referents(each)
    assert not [each for each in seen.values() if isinstance(each, Dataset | Part | Scenario | Experiment)]
    assert not {id(image) for image in one.scenario.dataset.test.images} & seen.keys()


# What is measured


def hashed(image):
    """A prediction that is right for some images and wrong for others, independent of the other images."""
    label = image.rpartition(":")[2]
    return label if sum(map(ord, image)) % 3 else "c0"


@pytest.mark.parametrize("setting", ["cil", "dil", "ocl"])
def test_accuracies_against_counting_by_hand(setting):
    scenario = all_scenarios()[setting]
    test = scenario.dataset.test
    for event in run_tasks(Scripted(hashed), scenario):
        expected = []
        for number, task in enumerate(scenario.tasks):
            if setting == "dil":
                own = [i for i in range(len(test)) if test.domains[i] == task.name]
            else:
                own = [i for i in range(len(test)) if test.labels[i] in task.classes]
            tested = setting == "dil" or number <= event.task
            right = sum(hashed(test.images[i]) == test.labels[i] for i in own)
            expected.append(right / len(own) if tested else None)
        step = event.steps[""]
        assert step.accuracies == pytest.approx(expected)
        seen = {label for task in scenario.tasks[: event.task + 1] for label in task.classes}
        assert set(step.per_class) == seen
        for label, accuracy in step.per_class.items():
            predictions = [
                hashed(image) for image, of in zip(test.images, test.labels, strict=True) if of == label
            ]
            assert accuracy == pytest.approx(predictions.count(label) / len(predictions))
    assert len(set(step.accuracies)) > 1
    assert any(0 < accuracy < 1 for accuracy in step.accuracies)


def test_events_say_what_was_done_and_what_it_took():
    events = list(run_tasks(Scripted(), class_incremental(named(), 3)))
    for number, event in enumerate(events):
        step = event.steps[""]
        assert event.task == number
        assert len(event.tested) == 8 * (number + 1)
        assert step.chosen == {"tasks": number + 1}
        assert step.state_bytes == 7
        assert step.learn_seconds >= 0
        assert step.predict_seconds >= 0
        assert (step.forward_passes, step.training_passes) == (0, 0)
        assert step.peak_memory > 10_000_000


def test_a_run_can_begin_at_a_later_task():
    learner = Scripted()
    assert [event.task for event in run_tasks(learner, class_incremental(named(), 3), 2)] == [2]
    assert len(learner.learned) == 1


def test_the_event_comes_after_each_task_and_not_at_the_end():
    learner = Scripted()
    events = run_tasks(learner, class_incremental(named(), 3))
    for number in range(3):
        next(events)
        assert len(learner.learned) == len(learner.tested) == number + 1


# The record


def test_a_record_has_all_that_is_needed_to_repeat_it(make):
    nano = load_backbone("vit-nano")
    scenario = class_incremental(few_digits(), 5, 7, per_class=4)
    one = make(scenario=scenario, session=SESSION, preset="official", lam="gcv", backbone=nano)
    finish(one)
    values = json.loads(one.paths[""].read_text("utf-8"))
    assert values["schema"] == SCHEMA == 1
    assert values["run"] == {
        "dataset": "few",
        "data": scenario.dataset.fingerprint,
        "setting": "cil",
        "tasks": 5,
        "first": None,
        "uneven": None,
        "shuffled": True,
        "per_class": 4,
        "batch": None,
        "seed": 7,
        "backbone": {
            "name": "vit-nano",
            "fingerprint": nano.fingerprint,
            "pixels": [64, 64],
            "engine": "eager",
        },
        "adapter": SESSION.to_dict(),
        "preset": "official",
        "method": "layup",
        "options": {"k": 2, "lam": "gcv", "balance": False, "precision": "float64"},
    }
    assert values["versions"] == machine.versions()
    assert values["versions"]["layup"] == layup.__version__
    assert values["machine"] == {
        **machine.describe(),
        "device": "cpu",
        "threads": torch.get_num_threads(),
    }
    assert values["class_order"] == list(scenario.class_order)
    assert [task["classes"] for task in values["tasks"]] == [list(task.classes) for task in scenario.tasks]
    assert [(task["train"], task["test"]) for task in values["tasks"]] == [(8, 4)] * 5
    assert [sum(value is not None for value in row) for row in values["matrix"]] == [1, 2, 3, 4, 5]
    assert len(values["steps"]) == 5
    for step in values["steps"]:
        assert step["chosen"]["lambda"] >= 0
        assert min(step["learn_seconds"], step["predict_seconds"]) >= 0
        assert min(step["state_bytes"], step["peak_memory"]) > 0
    assert values["steps"][0]["training_passes"] > 0
    assert sum(step["training_passes"] for step in values["steps"][1:]) == 0
    assert len(values["steps"][0]["chosen"]["adaptation"]["epochs"]) == 3
    truth = [scenario.class_order.index(label) for label in scenario.dataset.test.labels]
    assert values["test"]["truth"] == truth
    assert values["test"]["task"] == [index // 2 for index in truth]
    right = np.array(values["test"]["predictions"]) == truth
    last = [right[np.array(values["test"]["task"]) == task].mean() for task in range(5)]
    assert values["matrix"][-1] == pytest.approx(last)
    assert values["summary"]["average_accuracy"] == pytest.approx(np.mean(last))
    assert str(Path.home()) not in json.dumps(values)


def test_a_record_of_a_run_in_domains(make):
    scenario = domain_incremental(few_styles())
    record = only(make(scenario=scenario))
    assert record.run["order"] == "dark,bright"
    assert not np.isnan(record.matrix).any()
    assert [task.name for task in record.tasks] == list(STYLES)
    right = np.array(record.predictions) == record.truth
    assert record.matrix[-1] == pytest.approx([right[:6].mean(), right[6:].mean()])


def test_the_same_seed_gives_the_same_record_and_another_seed_another(make, tmp_path):
    def record(folder, seed):
        scenario = class_incremental(few_digits(), seed=seed)
        return only(make(scenario=scenario, folder=tmp_path / folder, cache=False))

    first, second, other = record("a", 0), record("b", 0), record("c", 1)
    assert numbers(first) == numbers(second)
    assert first.class_order != other.class_order
    assert first.matrix.tolist() != other.matrix.tolist()
    assert first.name != other.name


def test_records_are_given_after_each_task_and_grow(make):
    counts = [len(records[""].steps) for records in make().go()]
    assert counts == [1, 2, 3, 4, 5]


# Several depths in one run


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"lam": "gcv", "balance": True}, {"lam": 1.0}], ids=repr)
def test_a_sweep_over_k_leaves_the_records_of_single_runs(make, tmp_path, options, batches_learned):
    sweep = make("depths", k=(1, 3), **options)
    together = finish(sweep)
    assert len(batches_learned) == 5
    for k in (1, 3):
        alone = make(k=k, folder=tmp_path / "alone", **options)
        record, mine = only(alone), together[str(k)]
        assert mine.name == record.name
        assert sweep.paths[str(k)].name == alone.paths[""].name
        assert mine.predictions == record.predictions
        ours, theirs = numbers(mine), numbers(record)
        for values in (ours, theirs):
            values["lambdas"] = [step["chosen"].pop("lambda") for step in values["steps"]]
        assert ours.pop("lambdas") == pytest.approx(theirs.pop("lambdas"), rel=1e-6)
        assert ours == theirs


def test_a_single_run_finds_what_a_sweep_has_done_and_the_other_way_round(make, batches_learned):
    finish(make("depths", k=(1, 3)))
    batches_learned.clear()
    for k in (1, 3):
        assert make(k=k).finished() is not None
        only(make(k=k))
    assert make(k=2).finished() is None
    assert batches_learned == []
    only(make(k=2))
    assert make("depths", k=(1, 2, 3)).finished().keys() == {"1", "2", "3"}


# What decides the numbers


def changed_weights(nano):
    other = load_backbone("vit-nano")
    with torch.no_grad():
        next(other.network.parameters()).flatten()[0] += 1
    other.refresh()
    return other


def tiny_network(size=8, crop="squash"):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3))
    return Backbone.from_module(network, ["1", "2"], Preprocessing((size, size), (16, 16), crop))


def other_pixel():
    dataset = few_digits()
    images = [image.copy() for image in dataset.test.images]
    images[0][0, 0] += 1
    return replace(dataset, test=replace(dataset.test, images=images))


def cut(dataset=None, **options):
    return class_incremental(dataset or few_digits(), **options)


def styles(order=STYLES, **options):
    return domain_incremental(replace(few_styles(), domains=order), **options)


DECIDES = {
    "plain": {},
    "k": {"k": 3},
    "lam": {"lam": 1.0},
    "rule": {"lam": "gcv"},
    "balance": {"balance": True},
    "method": {"method": "laynmc"},
    "other method": {"method": "nmc"},
    "weights": {"backbone": changed_weights},
    "a network": {"backbone": lambda _: tiny_network()},
    "input size": {"backbone": lambda _: tiny_network(size=12)},
    "crop": {"backbone": lambda _: tiny_network(crop="center")},
    "preset": {"preset": "paper", "backbone": lambda _: prepared(load_backbone("vit-nano"), "squash")},
    "preset in name only": {"preset": "official"},
    "adapter": {"session": SESSION},
    "adapter's kind": {"session": replace(SESSION, adapter=FirstSession("vpt").adapter)},
    "adapter's seed": {"session": replace(SESSION, seed=2)},
    "adapter's epochs": {"session": replace(SESSION, epochs=2)},
    "adapter's rate": {"session": replace(SESSION, learning_rate=1.0)},
    "seed": {"scenario": lambda: cut(seed=5)},
    "tasks": {"scenario": lambda: cut(tasks=2)},
    "first": {"scenario": lambda: cut(tasks=3, first=2)},
    "uneven": {"scenario": lambda: cut(tasks=3, uneven="first")},
    "not uneven": {"scenario": lambda: cut(tasks=3)},
    "shuffled": {"scenario": lambda: cut(shuffled=False)},
    "per class": {"scenario": lambda: cut(per_class=4)},
    "tested once": {"scenario": lambda: replace(cut(), tested_once=True)},
    "fewer per class": {"scenario": lambda: cut(per_class=3)},
    "training images": {"scenario": lambda: cut(few_digits(train=4))},
    "test images": {"scenario": lambda: cut(few_digits(test=1))},
    "a pixel": {"scenario": lambda: cut(other_pixel())},
    "stream": {"scenario": lambda: online(few_digits())},
    "batch": {"scenario": lambda: online(few_digits(), batch=1)},
    "domains": {"scenario": styles},
    "order": {"scenario": lambda: styles(STYLES[::-1])},
    "shuffled order": {"scenario": lambda: styles(shuffled=True)},
    "domains per class": {"scenario": lambda: styles(per_class=2)},
}


def test_whatever_decides_the_numbers_decides_the_name_of_the_record(make, nano):
    names = {}
    for what, options in DECIDES.items():
        built = dict(options)
        if "backbone" in built:
            built["backbone"] = built["backbone"](nano)
        if "scenario" in built:
            built["scenario"] = built["scenario"]()
        names[what] = make(**built).paths[""].name
    assert {n: c for n, c in Counter(names.values()).items() if c > 1} == {}


def test_what_does_not_decide_the_numbers_does_not_make_another_run(make, nano, tmp_path, monkeypatch):
    plain = make().paths[""].name
    usual = few_digits()
    for same in (
        make(cache=False),
        make(folder=tmp_path / "elsewhere"),
        make(lam="search"),
        make(balance=False),
        make(scenario=cut(tasks=5, seed=1993, shuffled=True)),
        make(backbone=small()),
        Experiment(cut(usual), method_from("layup", {"k": 2}), nano, tmp_path, reading={"workers": 2}),
    ):
        assert same.paths[""].name == plain
    assert make(k=6).paths == make(k=None).paths
    auto = make(session=FirstSession("auto", trial=False))
    assert auto.paths == make(session=FirstSession("adaptformer")).paths
    tried = make(session=FirstSession("auto"))
    assert tried.paths != auto.paths
    assert tried.setup.checkpoint == auto.setup.checkpoint  # trained once for both
    assert make(scenario=styles()).paths == make(scenario=styles(("dark", "bright"))).paths
    monkeypatch.setattr(machine, "versions", lambda: {"layup": "99"})
    assert make().paths[""].name == plain  # a finished run stays finished


def test_ways_decide_how_images_are_made_ready():
    made = {way: prepared(tiny_network(size=112, crop="center"), way) for way in WAYS}
    assert made["own"].fingerprint == tiny_network(size=112, crop="center").fingerprint
    assert len({each.fingerprint for each in made.values()}) == len(WAYS)
    assert made["squash"].preprocessing.crop == "squash"
    for way, resize, interpolation in (
        ("crop", 112, "bilinear"),
        ("crop224", 112, "bicubic"),
        ("crop256", 128, "bicubic"),
    ):
        found = made[way].preprocessing
        assert (found.resize, found.interpolation) == ((resize, resize), interpolation)
        assert (found.mean, found.std, found.crop) == ((0.0,) * 3, (1.0,) * 3, "center")


def test_a_way_leaves_the_given_backbone_as_it_was():
    given = tiny_network(crop="center")
    before = given.fingerprint, given.preprocessing
    other = prepared(given, "squash")
    assert (given.fingerprint, given.preprocessing) == before
    assert other.fingerprint != given.fingerprint
    assert other.network is given.network


# The stream


def test_a_stream_is_neither_adapted_to_nor_searched(make):
    stream = online(few_digits())
    with pytest.raises(
        InputError, match=r"cannot be adapted in the online setting: that takes several passes"
    ):
        make(scenario=stream, session=SESSION)
    with pytest.raises(InputError, match=r"λ cannot be searched in the online setting"):
        make(scenario=stream, lam="search")
    record = only(make("nmc", stream))
    assert record.run["batch"] == 10
    assert [task.train for task in record.tasks] == [10] * 5


def test_a_stream_ends_where_learning_at_once_ends(make):
    """The sums are the same, so at a given λ are the predictions."""
    stream = only(make(scenario=online(few_digits(), batch=3), lam=1.0))
    offline = only(make(lam=1.0))
    assert stream.predictions == offline.predictions
    assert stream.matrix == pytest.approx(offline.matrix, nan_ok=True)


def test_a_run_that_is_tested_once_ends_as_one_that_is_tested_after_every_task(make, monkeypatch):
    asked = []
    original = ModelLearner.predict
    monkeypatch.setattr(
        ModelLearner, "predict", lambda self, images: asked.append(len(images)) or original(self, images)
    )
    whole = only(make())
    asked.clear()
    once = only(make(scenario=replace(cut(), tested_once=True)))
    assert asked == [len(once.truth)]
    assert once.predictions == whole.predictions
    assert once.summary["average_accuracy"] == whole.summary["average_accuracy"]
    assert np.isnan(np.array(once.matrix)[:-1]).all()
    assert [step.chosen for step in once.steps] == [step.chosen for step in whole.steps]


# Passes


def test_every_image_passes_the_backbone_once_whatever_is_run_afterwards(make, own_cache, monkeypatch):
    cache = FeatureCache(own_cache)
    dataset = few_digits()
    calls, read = [], Backbone.steadily
    monkeypatch.setattr(
        Backbone, "steadily", lambda self, batch: calls.append(len(batch)) or read(self, batch)
    )

    def passes(*arguments, **options):
        calls.clear()
        records = finish(make(*arguments, cache=cache, **options)).values()
        for record in records:
            assert sum(step.forward_passes for step in record.steps) == sum(calls)
        return sum(calls)

    distinct = {image_digest(image) for part in (dataset.train, dataset.test) for image in part.images}
    assert passes() == len(distinct) == 70
    for other in (
        {"k": 3},
        {"lam": 1.0},
        {"balance": True},
        {"method": "nmc"},
        {"method": "laynmc"},
        {"method": "depths", "k": (1, 4)},
        {"scenario": cut(tasks=2)},
        {"scenario": cut(seed=5)},
        {"scenario": cut(per_class=2)},
        {"scenario": online(dataset, batch=1)},
    ):
        assert passes(**other) == 0


def test_runs_in_two_threads_count_their_own_passes(make, monkeypatch):
    """Each task of either run is learned between the beginning and the end of the other's."""
    together, learn = threading.Barrier(2, timeout=60), ModelLearner.learn

    def learn_together(self, images, labels):
        together.wait()
        learn(self, images, labels)
        together.wait()

    monkeypatch.setattr(ModelLearner, "learn", learn_together)
    runs = [make("nmc", cut(seed=seed, per_class=seed), cache=False) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        records = list(pool.map(only, runs))
    for seed, record in zip((1, 2), records, strict=True):
        read = [2 * seed + 4 * (task + 1) for task in range(5)]
        assert [step.forward_passes for step in record.steps] == read


def test_a_sweep_passes_every_image_once(make, own_cache):
    records = finish(make("depths", k=(1, 2, 6), lam=1.0, cache=FeatureCache(own_cache)))
    for record in records.values():
        assert sum(step.forward_passes for step in record.steps) == 70


def test_adapted_features_are_computed_once_for_all_methods(make, own_cache):
    cache = FeatureCache(own_cache)
    first = only(make(session=SESSION, cache=cache))
    # Three epochs of the first task's ten images, those held out among them: none of that is reading.
    assert first.steps[0].training_passes == 3 * 10
    assert sum(step.forward_passes for step in first.steps) == 70
    second = only(make("nmc", session=SESSION, cache=cache))
    assert [(step.training_passes, step.forward_passes) for step in second.steps] == [(0, 0)] * 5
    course = [record.steps[0].chosen["adaptation"] for record in (first, second)]
    assert course[0] == course[1]
    other = only(make(session=replace(SESSION, seed=9), cache=cache))
    assert other.steps[0].training_passes > 0


def test_another_version_trains_its_own_first_session(make, monkeypatch):
    only(make("nmc", session=SESSION))
    monkeypatch.setattr(machine, "versions", lambda: {"layup": "99"})
    assert only(make("laynmc", session=SESSION)).steps[0].training_passes > 0


def test_a_sweep_leaves_a_finished_record_as_it_is_and_says_what_it_shares(make, tmp_path):
    one = make(k=2)
    only(one)
    [path] = one.paths.values()
    before = path.read_bytes()
    records = finish(make("depths", k=(1, 2)))
    assert path.read_bytes() == before
    assert {step.shared_by for record in records.values() for step in record.steps} == {2}
    assert json.loads(before)["steps"][0]["shared_by"] == 1


def test_a_record_says_how_its_data_were_laid_out(make):
    dataset = replace(few_digits(), layout="mine/CLASS, split with seed 7")
    one = make(scenario=class_incremental(dataset))
    assert only(one).to_dict()["layout"] == "mine/CLASS, split with seed 7"


# On disk


def test_a_finished_run_leaves_one_file_and_is_not_repeated(make, tmp_path, batches_learned):
    one = make()
    assert one.finished() is None
    first = only(one)
    left = {file.name for file in (tmp_path / "out").rglob("*")}
    assert left == {f"{first.name}.json", "unfinished", f".{first.name}.lock"}
    assert len(batches_learned) == 5
    written = one.paths[""].read_bytes()
    [found] = list(make().go())
    assert found[""] == first == make().finished()[""]
    assert len(batches_learned) == 5
    assert one.paths[""].read_bytes() == written
    again = only(make(), again=True)
    assert len(batches_learned) == 10
    assert numbers(again) == numbers(first)
    assert {file.name for file in (tmp_path / "out").rglob("*")} == left


def test_a_run_that_is_given_up_goes_on_where_it_was(make, batches_learned):
    expected = only(make(folder=Path(make().folder) / "elsewhere"))
    order = [list(map(str, sorted(task.classes))) for task in expected.tasks]
    batches_learned.clear()
    begun = make().go()
    next(begun), next(begun)
    begun.close()
    counts = [len(records[""].steps) for records in make().go()]
    assert counts == [2, 3, 4, 5]
    assert batches_learned == order
    assert numbers(make().finished()[""]) == numbers(expected)


def begun(make, tasks=2, **options):
    """The folder of a run that was broken off after some tasks."""
    one = make(**options)
    going = one.go()
    for _ in range(tasks):
        next(going)
    going.close()
    [home] = [each for each in (one.folder / "unfinished").iterdir() if each.is_dir()]
    return home


def test_again_begins_anew_what_was_begun(make, batches_learned):
    begun(make)
    assert [len(records[""].steps) for records in make().go(again=True)] == [1, 2, 3, 4, 5]
    assert len(batches_learned) == 7


def test_another_version_begins_anew(make, batches_learned, monkeypatch):
    begun(make)
    monkeypatch.setattr(machine, "versions", lambda: {"layup": "99"})
    record = only(make())
    assert len(batches_learned) == 7
    assert record.versions == {"layup": "99"}
    assert len(record.steps) == 5


def test_an_unfinished_run_is_not_taken_for_a_finished_one(make):
    home = begun(make)
    assert make().finished() is None
    assert sorted(file.name for file in home.iterdir() if not file.name.startswith(".")) == [
        "learner-2.layup",
        "progress.json",
    ]
    progress = json.loads((home / "progress.json").read_text())
    assert progress["records"][""]["summary"] is None


def test_who_has_to_wait_for_a_run_is_told_for_whom(make):
    home = begun(make, method="nmc")
    told, held, free = [], threading.Event(), threading.Event()

    def hold():
        with storage.locked(home):
            held.set()
            free.wait(60)

    def on_wait(holder):
        told.append(holder)
        free.set()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    assert len(list(make("nmc").go(on_wait=on_wait)))
    thread.join(60)
    assert [who.split(" on ")[0] for who in told] == [f"process {os.getpid()}"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda home: (home / "progress.json").write_text(""),
        lambda home: (home / "progress.json").write_text('{"learner": "learner-2.layup", "recor'),
        lambda home: (home / "progress.json").write_bytes(b"\xff\xfe\x00"),
        lambda home: (home / "progress.json").write_text("[]"),
        lambda home: (home / "progress.json").write_text("{}"),
        lambda home: (home / "progress.json").write_text("[" * 100_000),
        lambda home: (home / "progress.json").write_text('{"records": {}, "learner": "learner-2.layup"}'),
        lambda home: (home / "progress.json").write_text('{"records": [], "learner": "learner-2.layup"}'),
        lambda home: (home / "progress.json").write_text('{"records": {"": 3}, "learner": 3}'),
        lambda home: (home / "learner-2.layup").unlink(),
        lambda home: (home / "learner-2.layup").write_bytes(b""),
        lambda home: (home / "learner-2.layup").write_bytes((home / "learner-2.layup").read_bytes()[:-9]),
    ],
)
def test_damaged_progress_is_one_clear_sentence_and_again_mends_it(make, damage):
    home = begun(make, method="nmc")
    damage(home)
    with pytest.raises(DamagedFileError) as damaged:
        finish(make("nmc"))
    message = str(damaged.value)
    assert message.startswith(f"The unfinished run in '{home}' cannot go on: ")
    assert message.endswith("Begin it anew.")
    assert "\n" not in message
    assert ".." not in message
    assert len(only(make("nmc"), again=True).steps) == 5


def test_a_damaged_record_of_a_finished_run_is_said_and_again_mends_it(make):
    one = make("nmc")
    finish(one)
    one.paths[""].write_text("{")
    with pytest.raises(DamagedFileError, match="is damaged"):
        finish(make("nmc"))
    assert len(only(make("nmc"), again=True).steps) == 5


def test_a_folder_that_cannot_be_made_is_one_clear_sentence(make, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        InputError, match=r"^Cannot make the folder '.*file.*' \(.+\)\. Choose another one\.$"
    ):
        finish(make("nmc", folder=tmp_path / "file" / "out"))


def test_a_record_that_cannot_be_written_loses_nothing(make, tmp_path, batches_learned, monkeypatch):
    one = make("nmc")
    with monkeypatch.context() as patch:

        def full(path, text):
            if Path(path).parent == one.folder:
                raise StorageError(f"Cannot write '{path}' (No space left on device)")
            write_text(path, text)

        write_text = storage.write_text
        patch.setattr(storage, "write_text", full)
        with pytest.raises(StorageError, match="No space left"):
            finish(one)
    assert make("nmc").finished() is None
    assert len(only(make("nmc")).steps) == 5
    assert len(batches_learned) == 5


def test_a_command_that_waits_for_a_run_finds_it_finished(make, batches_learned):
    """Two commands at the same time: the second one waits, and then has nothing to do."""
    from threading import Thread

    first = make("nmc").go()
    next(first)
    found = []
    waiting = Thread(target=lambda: found.extend(make("nmc").go()))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    *_, last = first
    waiting.join(30)
    assert not waiting.is_alive()
    assert found == [last]
    assert len(batches_learned) == 5


# Killed


def die(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGKILL)


def in_call(number, owner, attribute, *, before=True, when=lambda *_: True):
    """Die in the so-many-th call of a function, before it does anything, or after it has."""
    original = getattr(owner, attribute)
    calls = []

    def wrapped(*arguments, **options):
        mine = when(*arguments)
        calls.extend([1] * mine)
        if mine and len(calls) == number and before:
            die()
        result = original(*arguments, **options)
        if mine and len(calls) == number:
            die()
        return result

    setattr(owner, attribute, wrapped)


def is_progress(path, *_):
    return Path(path).name == "progress.json"


def is_record(path, *_):
    return Path(path).name != "progress.json"


def is_learner(path, *_):
    return Path(path).name.startswith("learner-")


@dataclass(frozen=True)
class Killing:
    """Where a run is killed, one time after the other, and how many tasks are learned when it goes on."""

    times: tuple
    learned: int
    method: str = "layup"
    session: FirstSession | None = None


KILLINGS = {
    "before the third task": Killing(((3, ModelLearner, "learn", {}),), 3),
    "after the third task was learned": Killing(((3, ModelLearner, "learn", {"before": False}),), 3),
    "between learner and progress": Killing(((3, storage, "write_text", {"when": is_progress}),), 3),
    "between learner and progress, and in the next task": Killing(
        ((3, storage, "write_text", {"when": is_progress}), (2, ModelLearner, "learn", {})), 2
    ),
    "between progress and tidying up": Killing(((2, storage, "delete", {"when": is_learner}),), 2),
    "before the record": Killing(((1, storage, "write_text", {"when": is_record}),), 0),
    "between two records": Killing(((2, storage, "write_text", {"when": is_record}),), 0, "depths"),
    "after the record": Killing(((1, storage, "write_text", {"when": is_record, "before": False}),), 0),
    "while tidying up at the end": Killing(((1, experiment, "rmtree", {}),), 0),
    "again and again": Killing(tuple((2, ModelLearner, "learn", {}) for _ in range(4)), 1),
    "while adapting": Killing(((2, Trainer, "save", {"before": False}),), 5, session=SESSION),
    "after adapting": Killing(((1, ModelLearner, "learn", {"before": False}),), 5, session=SESSION),
    "in the second task after adapting": Killing(((2, ModelLearner, "learn", {}),), 4, session=SESSION),
}


def to_be_killed(folder, killing, nano):
    """The experiment, the same in every process."""
    method = DepthsMethod((1, 2)) if killing.method == "depths" else method_from("layup", {"k": 1})
    return Experiment(cut(), method, nano, folder, killing.session)


def kill_all(folder):
    """Runs in a separate process: start every run, and kill it."""
    torch.set_num_threads(1)
    nano = small()
    for what, killing in KILLINGS.items():
        for number, owner, attribute, options in killing.times:
            child = os.fork()
            if child == 0:
                try:
                    in_call(number, owner, attribute, **options)
                    finish(to_be_killed(folder / what, killing, nano))
                finally:
                    os._exit(1)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), f"{what}: the run ended by itself"
            assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_a_killed_run_goes_on_at_its_task_and_gives_the_same_record(
    tmp_path, nano, batches_learned, monkeypatch
):
    monkeypatch.setenv("LAYUP_CACHE", str(tmp_path / "cache"))
    undisturbed = {
        (killing.method, killing.session): finish(to_be_killed(tmp_path / "whole", killing, nano))
        for killing in KILLINGS.values()
    }
    (tmp_path / "killed").mkdir()
    with Quick(Path(__file__).read_text(), tmp_path / "killed", cwd=tmp_path) as killer:
        ended = killer.finished(300)
    assert ended.code == 0, ended.err
    for what, killing in KILLINGS.items():
        batches_learned.clear()
        one = to_be_killed(tmp_path / "killed" / what, killing, nano)
        records = finish(one)
        assert len(batches_learned) == killing.learned, what
        for way, expected in undisturbed[killing.method, killing.session].items():
            assert numbers(records[way]) == numbers(expected), what
        assert one.finished() == records
        left = [
            file.name for file in one.folder.rglob("*") if file.is_file() and file.parent.name != "sessions"
        ]
        visible = sorted(name for name in left if not name.startswith("."))
        assert visible == sorted(path.name for path in one.paths.values()), what
        trained = records[next(iter(records))].steps[0].training_passes
        assert trained == {"while adapting": 10, "after adapting": 0}.get(what, trained)


def test_a_run_killed_while_tidying_up_before_it_begins_anew_is_not_half_a_run(make, monkeypatch):
    begun(make, method="nmc")

    def broken(folder):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(experiment, "rmtree", broken)
        with pytest.raises(StorageError, match=r"Cannot delete .*Input/output error"):
            finish(make("nmc"), again=True)
    assert [len(records[""].steps) for records in make("nmc").go()] == [1, 2, 3, 4, 5]


if __name__ == "__main__":
    kill_all(Path(sys.argv[1]))
