"""The methods of the benchmark: their options, the laws that they obey, and LayUP at several depths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oracle
from layup import Backbone, FirstSession, LayUP, RidgeClassifier, load_backbone
from layup.cache import FeatureCache
from layup.datasets import Dataset, Part
from layup.errors import BadImageError, InputError, MismatchError, UnknownNameError
from layup.experiment import run
from layup.methods import METHODS, DepthsMethod, Setup, method_from
from layup.methods.depths import DepthsClassifier, LayUPDepths
from layup.scenarios import class_incremental, domain_incremental, online
from layup.statistics import GramStatistics
from photos import crops, lesson

FIRST = lesson({0: 6, 1: 5})
SECOND = lesson({2: 7, 0: 4}, start=20)
TEST = lesson({0: 4, 1: 4, 2: 4}, start=60)[0]
LAYERS = {"a": 3, "b": 4, "c": 2, "d": 5}
DEPTHS = (1, 2, 4)

EVERY = [
    *(
        method_from("layup", {"k": 2, "lam": lam, "balance": b})
        for lam in ("gcv", 1.0)
        for b in (True, False)
    ),
    method_from("layup", {"k": 2, "lam": "search"}),
    DepthsMethod((1, 3), "search"),
    DepthsMethod((1, 3), 1.0),
    method_from("nmc", {}),
    method_from("laynmc", {"k": 2}),
]
every_method = pytest.mark.parametrize("method", EVERY, ids=repr)


@pytest.fixture(scope="module")
def nano() -> Backbone:
    return load_backbone("vit-nano")


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """One cache for all of these tests."""
    return FeatureCache(tmp_path_factory.mktemp("features"))


@pytest.fixture
def setup(nano, features):
    return Setup(nano, "cil", reading={"cache": features})


def learned(method, setup, *lessons):
    learner = method.begin(setup)
    for images, labels in lessons:
        learner.learn(images, labels)
    return learner


# Options


def test_all_methods_are_registered_under_their_names():
    assert list(METHODS) == ["layup", "nmc", "laynmc"]
    for name in METHODS:
        assert method_from(name, {}).name == name


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("layupp", {}, r"Unknown method 'layupp'\. Known: layup, nmc, laynmc\. Did you mean 'layup'\?"),
        ("nmc", {"k": 1}, r"The method 'nmc' has no option 'k'\. It takes no options\."),
        ("laynmc", {"k": 1, "lam": 1}, r"The method 'laynmc' has no option 'lam'\. It takes k\."),
        ("layup", {"depth": 1}, r"has no option 'depth'\. It takes k, lam, balance\."),
    ],
)
def test_what_a_method_does_not_have_is_refused(name, options, says):
    with pytest.raises(InputError, match=says):
        method_from(name, options)


@pytest.mark.parametrize("k", [0, -1, 13])
@pytest.mark.parametrize("method", ["layup", "laynmc"])
def test_a_number_of_layers_that_the_backbone_does_not_have_is_refused_before_anything_is_read(
    setup, method, k
):
    with pytest.raises(InputError, match=f"k = {k} .*between 1 and 12"):
        method_from(method, {"k": k}).settled(setup)
    with pytest.raises(InputError, match=f"k = {k} "):
        DepthsMethod((1, k)).settled(setup)


@pytest.mark.parametrize("lam", ["serach", -1.0, float("nan"), float("inf")])
def test_an_impossible_lambda_is_refused_before_anything_is_read(setup, lam):
    for method in (method_from("layup", {"lam": lam}), DepthsMethod((1, 2), lam)):
        with pytest.raises(InputError, match="λ"):
            method.settled(setup)
    with pytest.raises(UnknownNameError, match="Did you mean 'search'"):
        method_from("layup", {"lam": "serach"}).settled(setup)


def test_open_choices_are_made_before_the_run_so_that_its_record_has_them(setup):
    stream = replace(setup, setting="ocl")
    assert method_from("layup", {}).settled(setup).options() == {"k": 6, "lam": "search", "balance": False}
    assert method_from("layup", {}).settled(stream).options() == {"k": 6, "lam": "gcv", "balance": False}
    given = {"k": 3, "lam": 0.5, "balance": True}
    assert method_from("layup", given).settled(stream).options() == given
    assert method_from("laynmc", {}).settled(setup).options() == {"k": 6}
    assert method_from("nmc", {}).settled(setup).options() == {}


def test_depths_are_those_asked_once_each_and_each_is_layup_of_that_depth(setup):
    method = DepthsMethod((6, 1, 6), balance=True).settled(setup)
    assert method.depths == (1, 6)
    for k in (1, 6):
        alone = method_from("layup", {"k": k, "balance": True}).settled(setup)
        assert method.variants()[str(k)] == alone
    assert DepthsMethod().settled(setup).depths == (6,)


def test_lambda_cannot_be_searched_on_a_stream(setup):
    stream = replace(setup, setting="ocl")
    for method in (method_from("layup", {"lam": "search"}), DepthsMethod((1, 2), "search")):
        with pytest.raises(
            InputError, match=r"λ cannot be searched in the online setting.*Use gcv, or a number"
        ):
            method.settled(stream)


# What every method obeys


@every_method
def test_a_learner_goes_on_where_it_was_saved(method, setup, tmp_path):
    path = tmp_path / "l.layup"
    learned(method, setup, FIRST).save(path)
    resumed = method.resume(setup, path)
    resumed.learn(*SECOND)
    straight = learned(method, setup, FIRST, SECOND)
    assert resumed.answers(TEST) == straight.answers(TEST)
    assert resumed.reports() == straight.reports()


@every_method
def test_a_saved_learner_answers_as_before(method, setup, tmp_path):
    learner = learned(method, setup, FIRST, SECOND)
    answers, reports = learner.answers(TEST), learner.reports()
    learner.save(tmp_path / "l.layup")
    resumed = method.resume(setup, tmp_path / "l.layup")
    assert (resumed.answers(TEST), resumed.reports()) == (answers, reports)
    assert (learner.answers(TEST), learner.reports()) == (answers, reports)


@every_method
def test_an_answer_does_not_depend_on_what_else_is_asked(method, setup):
    learner = learned(method, setup, FIRST, SECOND)
    images = [*TEST, *crops(3)]
    together = learner.answers(images)
    for name, answers in together.items():
        assert [learner.answers([image])[name][0] for image in images] == answers
        assert learner.answers(images[::-1])[name] == answers[::-1]
        assert len(set(answers)) == 3


@every_method
def test_answering_changes_nothing(method, setup, tmp_path):
    learner = learned(method, setup, FIRST, SECOND)
    learner.save(tmp_path / "before.layup")
    learner.answers(TEST)
    learner.reports()
    learner.save(tmp_path / "after.layup")
    assert (tmp_path / "before.layup").read_bytes() == (tmp_path / "after.layup").read_bytes()


@every_method
def test_only_classes_that_were_learned_are_answers(method, setup):
    for answers in learned(method, setup, FIRST).answers(TEST).values():
        assert set(answers) <= set(FIRST[1])


@every_method
def test_a_bad_image_ends_the_lesson_and_nothing_is_learned_of_it(method, setup):
    learner = learned(method, setup, FIRST)
    before = learner.answers(TEST)
    with pytest.raises(BadImageError, match=r"no-such-file\.png"):
        learner.learn([*SECOND[0], "no-such-file.png"], [*SECOND[1], "digit 2"])
    assert learner.answers(TEST) == before
    with pytest.raises(InputError, match=r"no-such-file\.png"):
        learner.answers([TEST[0], "no-such-file.png"])


def test_a_learner_of_another_method_cannot_be_resumed(setup, tmp_path):
    learned(method_from("nmc", {}), setup, FIRST).save(tmp_path / "l.layup")
    for method in (method_from("layup", {}), DepthsMethod((1, 2))):
        with pytest.raises(MismatchError, match="holds a 'nmc' model"):
            method.resume(setup, tmp_path / "l.layup")


@pytest.mark.parametrize("setting", ["cil", "dil", "ocl"])
@pytest.mark.parametrize("method", [*METHODS, "depths"])
def test_every_method_runs_in_every_setting_and_beats_chance(method, setting, setup):
    labels = 4
    train, test = (lesson(dict.fromkeys(range(labels), n), s) for n, s in ((8, 0), (5, 100)))
    styles = ("dark", "bright")

    def part(images, names):
        styled = [255 - image if style == "bright" else image for style in styles for image in images]
        return Part(styled, [*names, *names], [style for style in styles for _ in names])

    dataset = Dataset("few", tuple(sorted(set(train[1]))), part(*train), part(*test), styles)
    if setting == "dil":
        scenario = domain_incremental(dataset)
    else:
        scenario = (online if setting == "ocl" else class_incremental)(dataset, 2)
    place = replace(setup, setting=setting)
    options = {} if method == "nmc" else {"k": 3}
    chosen = DepthsMethod((1, 3)) if method == "depths" else method_from(method, options)
    chosen = chosen.settled(place)
    *_, last = run(chosen.begin(place), scenario)
    assert last.steps.keys() == chosen.variants().keys()
    for step in last.steps.values():
        assert np.mean(step.accuracies) > 1.5 / labels
        assert ("lambda" in step.chosen) == (chosen.name.startswith("layup"))


@pytest.mark.parametrize("method", [method_from("layup", {"k": 2}), DepthsMethod((1, 2))], ids=repr)
def test_the_first_lesson_adapts_and_the_learner_keeps_what_was_tuned(method, nano, features, tmp_path):
    session = FirstSession("ssf", epochs=1)
    plain = Setup(nano, "cil", reading={"cache": features})
    setup = replace(plain, session=session, checkpoint=tmp_path / "s.layup")
    learner = learned(method, setup, FIRST)
    tuned = learner.model.backbone_.tuned_values
    for name, report in learned(method, plain, FIRST).reports().items():
        assert learner.reports()[name].state_bytes == report.state_bytes + 4 * tuned
        assert len(learner.reports()[name].chosen["adaptation"]["epochs"]) == 1
        assert "adaptation" not in report.chosen
    learner.save(tmp_path / "l.layup")
    resumed = method.resume(setup, tmp_path / "l.layup")
    for each in (learner, resumed):
        each.learn(*SECOND)
    assert resumed.answers(TEST) == learner.answers(TEST)
    assert resumed.reports() == learner.reports()


# Several depths


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("lam", ["search", "gcv", 0, 1.0])
def test_each_depth_is_the_ridge_classifier_of_its_own_layers(lam, balance):
    rng = np.random.default_rng(3)
    width = sum(LAYERS.values())
    lessons = [oracle.blobs(rng, counts, width, 2.0) for counts in ([12, 9], [0, 0, 14, 2], [1, 0, 2, 3])]
    test = 2 * rng.normal(size=(60, width))
    together = DepthsClassifier(DEPTHS, lam, balance)
    together.adopt(GramStatistics(LAYERS))
    alone = {k: RidgeClassifier(lam, balance=balance) for k in DEPTHS}
    for k in DEPTHS:
        alone[k].adopt(GramStatistics(dict(list(LAYERS.items())[-k:])))
    lambdas = set()
    for x, y in lessons:  # the last is too small for a search: λ stays
        together.partial_fit(x, y)
        for k in DEPTHS:
            dim = sum(list(LAYERS.values())[-k:])
            alone[k].partial_fit(x[:, -dim:], y)
            lam_of_k, weights = together.solved(k)
            assert lam_of_k == pytest.approx(alone[k].lambda_, rel=1e-6)
            np.testing.assert_allclose(weights, alone[k].solution_.weights, rtol=1e-6, atol=1e-9)
            assert together.labels(test)[k] == alone[k].predict(test[:, -dim:]).tolist()
            assert together.state_bytes(k) == alone[k].statistics_.nbytes
            lambdas.add(lam_of_k)
    assert len(lambdas) > (1 if isinstance(lam, str) else 0)


@pytest.mark.parametrize("lam", ["search", "gcv", 1.0])
def test_layup_at_several_depths_answers_as_each_alone(nano, features, lam):
    together = LayUPDepths(nano, (1, 4), lam, cache=features)
    alone = {k: LayUP(nano, k, lam, balance=False, cache=features) for k in (1, 4)}
    for images, labels in (FIRST, SECOND):
        together.learn(images, labels)
        for model in alone.values():
            model.learn(images, labels)
    assert together.labels(TEST) == {k: model.predict(TEST).tolist() for k, model in alone.items()}
    for k, model in alone.items():
        assert together.classifier_.solved(k)[0] == pytest.approx(model.lambda_, rel=1e-6)


def test_layup_at_several_depths_lives_in_a_file_with_every_lambda(nano, features, tmp_path):
    model = LayUPDepths(nano, (1, 4), balance=True, cache=features)
    for each in (FIRST, SECOND):
        model.learn(*each)
    model.save(tmp_path / "m.layup")
    loaded = LayUPDepths.load(tmp_path / "m.layup", backbone=nano, cache=features)
    assert (loaded.depths, loaded.lam, loaded.balance) == ((1, 4), "search", True)
    assert loaded.classifier_.lambdas_ == model.classifier_.lambdas_
    assert set(model.classifier_.lambdas_) == {1, 4}
    assert loaded.labels(TEST) == model.labels(TEST)


def test_a_number_is_in_force_whatever_was_searched_before():
    classifier = DepthsClassifier((1,), 0.5, False)
    classifier.adopt(GramStatistics(LAYERS), {1: 100.0})
    classifier.partial_fit(*oracle.blobs(np.random.default_rng(0), [6, 6], sum(LAYERS.values())))
    assert classifier.solved(1)[0] == 0.5
