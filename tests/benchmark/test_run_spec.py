"""From words to a run: every choice arrives, and what cannot be is said before anything is loaded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from layup.adapters import SSF, VPT, AdaptFormer
from layup.benchmark import Experiment, RunSpec, figures, find_records, run
from layup.benchmark.methods import DepthsMethod, LayersMethod, LayUPMethod
from layup.benchmark.methods.slca import SLCAMethod
from layup.benchmark.scenarios import class_incremental, domain_incremental, online
from layup.errors import InputError, UnknownNameError
from layup.tuning import FirstSession
from learners import tiny

SPEC = RunSpec("digits", tasks=2, sample=(4, 5), options={"k": 2, "lam": 1.0})


@pytest.fixture(scope="module")
def network():
    return tiny()


@pytest.fixture
def resolve(network, tmp_path):
    def resolved(spec=SPEC, **changes):
        return replace(spec, **changes).resolve(tmp_path / "out", backbone=network)

    return resolved


def indices(scenario):
    return [(task.name, task.classes, task.train.tolist(), task.test.tolist()) for task in scenario.tasks]


# Scenarios


@pytest.mark.parametrize(
    ("changes", "twin"),
    [
        ({}, lambda data: class_incremental(data, 2, 1993)),
        ({"seed": 7, "tasks": None}, lambda data: class_incremental(data, seed=7)),
        ({"first": 3}, lambda data: class_incremental(data, 2, first=3)),
        ({"tasks": 3, "uneven": "first"}, lambda data: class_incremental(data, 3, uneven="first")),
        ({"shuffled": False}, lambda data: class_incremental(data, 2, shuffled=False)),
        ({"per_class": 2}, lambda data: class_incremental(data, 2, per_class=2)),
        ({"setting": "ocl"}, lambda data: online(data, 2)),
        ({"setting": "ocl", "batch": 3}, lambda data: online(data, 2, batch=3)),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_tasks_are_cut_as_the_words_say(changes, twin):
    spec = replace(SPEC, **changes)
    dataset = spec.load_dataset()
    found, expected = spec.scenario(dataset), twin(dataset)
    assert indices(found) == indices(expected)
    assert (found.setting, found.seed, found.cut, found.batch) == (
        expected.setting,
        expected.seed,
        expected.cut,
        expected.batch,
    )


def test_domains_come_in_the_order_that_is_asked_for():
    spec = RunSpec("digits-styles", sample=(3, 2))
    dataset = spec.load_dataset()
    assert indices(spec.scenario(dataset)) == indices(domain_incremental(dataset))
    backwards = replace(spec, order=dataset.domains[::-1])
    found = backwards.scenario(backwards.load_dataset())
    assert [task.name for task in found.tasks] == list(dataset.domains[::-1])
    mixed = replace(spec, order="shuffled", seed=3).scenario(dataset)
    assert indices(mixed) == indices(domain_incremental(dataset, 3, shuffled=True))


def test_the_official_preset_shuffles_classes_and_no_domains():
    dataset = replace(SPEC.load_dataset(), shuffled=False)
    assert replace(SPEC, preset="official").scenario(dataset).cut["shuffled"] is True
    assert replace(SPEC, preset="official", shuffled=False).scenario(dataset).cut["shuffled"] is False
    assert replace(SPEC, preset="paper").scenario(dataset).cut["shuffled"] is False
    styles = RunSpec("digits-styles", preset="official", sample=(3, 2))
    assert styles.scenario(styles.load_dataset()).setting == "dil"


@pytest.mark.parametrize(("preset", "grid"), [("default", "paper"), ("paper", "paper"), ("official",) * 2])
def test_of_equally_good_lambdas_the_official_preset_takes_that_of_the_authors_code(resolve, preset, grid):
    experiment = resolve(replace(SPEC, method="layup", preset=preset))
    assert experiment.method.blank_classifier(experiment.setup).grid == grid


@pytest.mark.parametrize(
    ("changes", "says", "about"),
    [
        ({"batch": 5}, "batch is for 'ocl', and the setting is 'cil'", "batch"),
        ({"order": "shuffled"}, "order is for 'dil', and the setting is 'cil'", "order"),
        ({"setting": "dil", "shuffled": True}, "shuffled is for 'cil' and 'ocl'", "shuffled"),
        ({"setting": "clil"}, "Unknown setting 'clil'.*Did you mean 'cil'", None),
        ({"dataset": "digits-styles", "tasks": 3}, "each of 5 domains is a task", "tasks"),
    ],
)
def test_what_a_setting_does_not_know_is_refused(resolve, changes, says, about):
    with pytest.raises(InputError, match=says) as caught:
        resolve(**changes)
    assert caught.value.about == about


# Methods and first sessions


@pytest.mark.parametrize(
    ("method", "options", "expected"),
    [
        ("layup", {"k": 1, "lam": 1.0}, LayUPMethod(1, 1.0)),
        ("layup", {"k": [3]}, LayUPMethod(3)),
        ("layup", {"k": (1, 2), "lam": 1.0}, DepthsMethod((1, 2), 1.0)),
        ("ridge", {"layer": [1, 2]}, LayersMethod((1, 2))),
        ("layup+fsa", {"k": 1}, LayUPMethod(1)),
    ],
)
def test_several_values_of_one_option_are_one_run(method, options, expected):
    assert RunSpec("digits", method=method, options=options).load_method() == expected


def test_methods_that_predict_in_one_way_refuse_several():
    with pytest.raises(InputError, match="Several values of k are for the method 'layup', not for 'laynmc'"):
        RunSpec("digits", method="laynmc", options={"k": (1, 2)}).load_method()
    with pytest.raises(InputError, match="The method 'nmc' has no option 'k'"):
        RunSpec("digits", method="nmc", options={"k": 1}).load_method()
    with pytest.raises(UnknownNameError, match="Did you mean 'layup'"):
        RunSpec("digits", method="layop").load_method()


@pytest.mark.parametrize(
    ("changes", "adapter"),
    [
        ({"method": "nmc"}, None),
        ({"method": "layup+fsa"}, "adaptformer"),
        ({"method": "nmc+fsa"}, "adaptformer"),
        ({"method": "nmc+fsa", "adapter": "ssf"}, "ssf"),
        ({"method": "adam"}, "adaptformer"),
        ({"method": "fsa+lda", "adapter": "none"}, None),
        ({"method": "fsa+lda", "setting": "ocl"}, None),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_method_adapts_as_is_usual_for_it_unless_told_otherwise(resolve, changes, adapter):
    session = resolve(options={}, seed=5, preset="paper", **changes).session
    assert (session and session.adapter.name) == adapter
    preset = "paper" if changes["method"] == "layup+fsa" else "ranpac"
    assert session is None or (session.seed, session.preset) == (5, preset)


@pytest.mark.parametrize("preset", ["default", "paper", "official"])
def test_methods_of_others_train_their_first_session_as_their_authors_do(resolve, preset):
    theirs = resolve(options={}, method="ranpac", preset=preset).session
    assert (theirs.optimizer, theirs.learning_rate, theirs.weight_decay) == ("sgd", 0.01, 5e-4)
    assert (theirs.head, theirs.augmentation) == ("learned cosine", "wide")
    assert theirs.adapter == AdaptFormer(width=64)
    assert (theirs.patience, theirs.preprocessing) == (
        (5, "own") if preset == "default" else (None, "crop256")
    )
    ours = resolve(method="layup", adapter="auto", preset=preset).session
    assert ours == FirstSession(ours.adapter, preset, seed=ours.seed, trial=True)


def test_the_network_reads_images_as_its_first_session_did(resolve):
    for changes in (
        {"preset": "official"},
        {"preset": "official", "method": "ranpac", "options": {}},
        {"preprocessing": "crop224"},
    ):
        experiment = resolve(adapter="vpt", **changes)
        tuned = experiment.session.attach(experiment.backbone)
        assert tuned.preprocessing == experiment.backbone.preprocessing
    with pytest.raises(UnknownNameError, match="mean 'crop256'"):
        resolve(preprocessing="crop265")


def test_adam_has_a_recipe_for_each_adapter_and_dataset():
    def session(**changes):
        return RunSpec("imagenet-r", method="adam", **changes).first_session("cil")

    assert session(adapter="vpt").epochs == 5
    assert session(adapter="vpt", session={"epochs": 7}).epochs == 7
    assert (session(adapter="ssf").learning_rate, session(adapter="adaptformer").learning_rate) == (
        0.01,
        0.05,
    )
    assert session(adapter="adaptformer").weight_decay == 0.005


def test_options_are_those_of_the_released_recipe_unless_given():
    spec = RunSpec("cars196", method="slca")
    found = spec.load_method()
    assert (found.epochs, found.temperature, found.augmentation) == (50, 0.05, "stretched")
    assert replace(spec, options={"temperature": 1.0}).load_method().temperature == 1.0
    assert spec.trained(epochs=2).load_method().epochs == 2
    assert replace(spec, dataset="digits").load_method() == SLCAMethod()
    assert RunSpec("cddb-hard", method="ranpac").load_method().width == 5000
    gacl = RunSpec("cifar100", method="gacl").load_method()
    assert (gacl.width, gacl.lam) == (5000, 100.0)


def test_released_adapters_are_used_where_a_preset_stands_for_released_code():
    spec = RunSpec("cars196", method="ranpac", preset="official")
    assert spec.first_session("cil").adapter == VPT(start="zero")
    assert replace(spec, adapter="ssf").first_session("cil").adapter == SSF()
    assert replace(spec, preset="default").first_session("cil").adapter == "auto"
    cifar = replace(spec, dataset="cifar100").first_session("cil")
    assert (cifar.adapter, cifar.preprocessing) == (AdaptFormer(), "crop224")


def test_values_of_a_first_session_are_its_own(resolve):
    session = resolve(adapter="ssf", session={"epochs": 3, "seed": 9}).session
    assert (session.epochs, session.seed) == (3, 9)
    with pytest.raises(
        InputError, match="epochs says how to tune the network, and nothing tunes it"
    ) as caught:
        resolve(session={"epochs": 3})
    assert caught.value.about == "adapter"


def test_training_is_the_methods_own_if_it_trains(resolve):
    trained = replace(SPEC, method="l2p", options={"epochs": 4}).trained(epochs=2, learning_rate=0.1)
    assert (trained.options, trained.session) == ({"epochs": 4, "learning_rate": 0.1}, {})
    tuned = replace(SPEC, adapter="ssf").trained(epochs=2, learning_rate=None)
    assert (tuned.options, tuned.session) == (SPEC.options, {"epochs": 2})


def test_the_backbone_is_loaded_as_the_words_say():
    found = RunSpec("digits", backbone="vit-nano", engine="folded", preset="paper").load_backbone()
    assert (found.name, found.engine, found.preprocessing.crop) == ("vit-nano", "folded", "squash")


# The verbs


def test_a_run_gives_its_records_and_is_not_repeated(resolve, tmp_path):
    seen = []
    experiment = resolve(options={"k": (1, 2), "lam": 1.0})
    assert isinstance(experiment, Experiment)
    records = run(experiment, on_task=lambda found: seen.append(len(found["1"].steps)))
    assert [record.run["options"]["k"] for record in records] == [1, 2]
    assert seen == [1, 2]
    assert run(experiment, on_task=lambda found: seen.append(len(found["1"].steps))) == records
    assert seen == [1, 2, 2]
    assert sorted(record.name for record in records) == sorted(
        record.name for record in find_records([tmp_path / "out"])
    )
    again = run(experiment, again=True)
    assert all(
        np.array_equal(new.predictions, old.predictions) for new, old in zip(again, records, strict=True)
    )
    assert again != records  # the times, at least


def test_a_run_that_was_interrupted_goes_on(resolve):
    experiment = resolve()
    for _ in experiment.go():
        break
    seen = []
    [record] = run(experiment, on_task=lambda found: seen.append(len(found[""].steps)))
    assert seen == [1, 2]
    assert record.finished


@pytest.mark.slow
def test_figures_are_drawn_for_each_dataset(resolve, tmp_path):
    first = [*run(resolve(options={"k": (1, 2), "lam": 1.0})), *run(resolve(method="nmc", options={}))]
    drawn = figures(first, tmp_path / "one", against="nmc", formats=("png", "svg"))
    assert {path.stem for path in drawn} >= {"over-tasks", "confusion-nmc", "per-class-layup-k=1-vs-nmc"}
    assert {path.suffix for path in drawn} == {".png", ".svg"}
    assert all(path.stat().st_size for path in drawn)
    assert {path.parent for path in drawn} == {tmp_path / "one"}
    other = run(resolve(sample=(2, 5), options={"k": 1}))
    both = figures([*first, *other], tmp_path / "both")
    assert len({path.parent for path in both}) == 2
    with pytest.raises(UnknownNameError, match="'laynmc'"):
        figures(first, against="laynmc")
