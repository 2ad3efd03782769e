"""The demo: the right tasks, honest numbers, and the files that it promises."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import layup.demo
from layup import NMC, LayUP, load_backbone
from layup.cli import main
from layup.demo import DigitsTask, demo_models, digits_tasks, run_demo, save_examples
from photos import log_levels_kept


@pytest.fixture(scope="module")
def nano():
    return load_backbone("vit-nano")


def small(tasks, train=12, test=6):
    """A few images of each task."""
    return [
        DigitsTask(
            task.classes,
            (task.train[0][:train], task.train[1][:train]),
            (task.test[0][:test], task.test[1][:test]),
        )
        for task in tasks
    ]


def as_set(images):
    return {image.tobytes() for image in images}


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


def test_the_same_seed_gives_the_same_tasks():
    one, again, other = digits_tasks(), digits_tasks(), digits_tasks(seed=1)
    for a, b in zip(one, again, strict=True):
        np.testing.assert_array_equal(a.train[0], b.train[0])
        assert a.test[1] == b.test[1]
    assert as_set(one[0].train[0]) != as_set(other[0].train[0])


# The run


def test_the_demo_compares_three_methods_on_one_backbone(nano, monkeypatch):
    monkeypatch.setattr(layup.demo, "load_backbone", lambda: nano)
    models = demo_models()
    assert list(models) == ["nearest mean", "last layer, k = 1", "LayUP, k = 6"]
    nearest, last, full = models.values()
    assert isinstance(nearest, NMC)
    assert isinstance(last, LayUP)
    assert isinstance(full, LayUP)
    assert last.k == 1
    assert {model.backbone_ for model in models.values()} == {nano}


def test_averages_are_over_all_tasks_so_far(nano):
    """Each task counts the same, however many images it has, and none is learned before its turn."""
    tasks = small(digits_tasks()[:3])
    tasks[1] = DigitsTask(tasks[1].classes, tasks[1].train, (tasks[1].test[0][:2], tasks[1].test[1][:2]))

    def models():
        return {"nearest": NMC(nano), "layup": LayUP(nano, 2, 1.0)}

    told = list(run_demo(models(), tasks))
    assert [name for name, _ in told] == ["nearest", "layup"] * 3
    for name, twin in models().items():
        values = [value for told_of, value in told if told_of == name]
        for t, task in enumerate(tasks):
            twin.learn(*task.train)
            shares = [np.mean(twin.predict(seen.test[0]) == seen.test[1]) for seen in tasks[: t + 1]]
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
    tasks = small(digits_tasks())
    monkeypatch.setattr(layup.demo, "load_backbone", lambda: nano)
    monkeypatch.setattr(layup.demo, "digits_tasks", lambda: tasks)
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
    model = LayUP.load("here/digits.layup")
    assert model.classes_ == list("0123456789")
    assert sum(model.counts_.values()) == 60
    shown = [line.split() for line in told.splitlines() if "layup predict" in line]
    assert quick_demo(*shown[0][1:]) == 0
    assert told.count("Done in") == 1
    answers = capsys.readouterr().out
    assert all(path.name in answers for path in Path("here/images").iterdir())


def test_it_can_be_run_again(quick_demo, capsys):
    for _ in range(2):
        assert quick_demo("demo") == 0
    assert sum(LayUP.load("demo/digits.layup").counts_.values()) == 60
