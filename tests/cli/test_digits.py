"""The demo: the right tasks, honest numbers, and the files that it promises."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import layup.cli.digits
from layup import NMC, LayUP, load, load_backbone
from layup.benchmark.datasets import Part, load_dataset
from layup.benchmark.scenarios import class_incremental
from layup.cli import main
from layup.cli.digits import demo_models, digits_scenario, digits_tasks, run_demo, save_examples
from layup.features import Embedding, LastLayers
from photos import log_levels_kept


@pytest.fixture(scope="module")
def nano():
    return load_backbone("vit-nano")


def small(tasks=5, train=6):
    """A few images of each digit to learn, and half of those to test."""
    digits = load_dataset("digits")
    indices = np.concatenate(
        [np.flatnonzero(np.array(digits.test.labels) == name)[: train // 2] for name in digits.classes]
    )
    part = Part([digits.test.images[i] for i in indices], [digits.test.labels[i] for i in indices])
    scenario = class_incremental(replace(digits, test=part), shuffled=False, per_class=train)
    return replace(scenario, tasks=scenario.tasks[:tasks])


# The tasks


def test_five_tasks_of_two_new_digits_each():
    tasks = digits_tasks()
    assert [task.classes for task in tasks] == [[str(2 * i), str(2 * i + 1)] for i in range(5)]
    for task in tasks:
        for images, labels in (task.train, task.test):
            assert set(labels) == set(task.classes)
            assert len(images) == len(labels) > 100
            assert all(image.dtype == np.uint8 and image.shape == (8, 8) for image in images)


def test_every_digit_is_used_once_with_its_own_label():
    digits = load_digits()
    expected = sorted(
        (np.round(image * 255 / 16).astype(np.uint8).tobytes(), str(label))
        for image, label in zip(digits.images, digits.target, strict=True)
    )
    used = [
        (image.tobytes(), label)
        for task in digits_tasks()
        for half in (task.train, task.test)
        for image, label in zip(*half, strict=True)
    ]
    assert sorted(used) == expected
    trained = sum(len(task.train[0]) for task in digits_tasks())
    assert trained == pytest.approx(0.6 * len(used), abs=1)


def test_the_tasks_are_those_of_the_scenario():
    scenario = digits_scenario()
    for task, plain in zip(scenario.tasks, digits_tasks(), strict=True):
        assert list(task.classes) == plain.classes
        for part, indices, half in (
            (scenario.dataset.train, task.train, plain.train),
            (scenario.dataset.test, task.test, plain.test),
        ):
            np.testing.assert_array_equal([part.images[i] for i in indices], half[0])
            assert [part.labels[i] for i in indices] == half[1]


# The run


def test_the_demo_compares_three_methods_on_one_backbone(nano, monkeypatch):
    monkeypatch.setattr(layup.cli.digits, "load_backbone", lambda: nano)
    models = demo_models()
    assert list(models) == ["nearest mean", "last layer, k = 1", "LayUP, k = 6"]
    assert [model.features.plain for model in models.values()] == [Embedding(), LastLayers(1), LastLayers()]
    assert [model.classifier.kind for model in models.values()] == ["nearest mean", "auto", "auto"]
    assert {model.backbone_ for model in models.values()} == {nano}


def test_averages_are_over_all_tasks_so_far(nano):
    """Each task counts the same, however many images it has, and none is learned before its turn."""
    scenario = small(tasks=3)
    few = replace(scenario.tasks[1], test=scenario.tasks[1].test[:2])
    scenario = replace(scenario, tasks=(scenario.tasks[0], few, scenario.tasks[2]))

    def models():
        return {"nearest": NMC(nano), "layup": LayUP(nano, 2, 1.0)}

    told = list(run_demo(models(), scenario))
    assert [name for name, _ in told] == ["nearest", "layup"] * 3
    train, test = scenario.dataset.train, scenario.dataset.test
    for name, twin in models().items():
        values = [value for told_of, value in told if told_of == name]
        for t, task in enumerate(scenario.tasks):
            twin.learn([train.images[i] for i in task.train], [train.labels[i] for i in task.train])
            shares = []
            for seen in scenario.tasks[: t + 1]:
                predictions = twin.predict([test.images[i] for i in seen.test])
                shares.append(np.mean(predictions == [test.labels[i] for i in seen.test]))
            assert values[t] == pytest.approx(sum(shares) / (t + 1))


def test_examples_are_test_images_as_files(tmp_path):
    task = digits_tasks()[0]
    paths = save_examples(tmp_path / "a" / "b", task)
    assert len(paths) == 3
    for path, image, label in zip(paths, *task.test, strict=False):
        assert label in path.name
        with Image.open(path) as picture:
            np.testing.assert_array_equal(np.asarray(picture), image)


# The command


@pytest.fixture
def quick_demo(nano, monkeypatch, tmp_path):
    """The demo with the small backbone and a few images, in a folder of its own."""
    scenario = small()
    monkeypatch.setattr(layup.cli.digits, "load_backbone", lambda: nano)
    monkeypatch.setattr(layup.cli.digits, "digits_scenario", lambda: scenario)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["layup", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code

    with log_levels_kept():
        yield run


def test_the_command_tells_shows_and_saves(quick_demo, capsys):
    assert quick_demo("demo", "--out", "here") == 0
    told = capsys.readouterr().out
    for word in ("nearest mean", "last layer, k = 1", "LayUP, k = 6", "0 and 1", "8 and 9", "1.000"):
        assert word in told
    with Image.open("here/curves.png") as picture:
        picture.verify()
        assert min(picture.size) > 300
    model = load("here/digits.layup")
    assert model.classes_ == list("0123456789")
    assert sum(model.counts_.values()) == 60
    shown = [line.split() for line in told.splitlines() if "layup predict" in line]
    assert quick_demo(*shown[0][1:]) == 0
    assert told.count("Done in") == 1
    predictions = capsys.readouterr().out
    assert all(path.name in predictions for path in Path("here/images").iterdir())


@pytest.mark.slow
def test_it_can_be_run_again(quick_demo, capsys):
    for _ in range(2):
        assert quick_demo("demo") == 0
    assert sum(load("demo/digits.layup").counts_.values()) == 60
