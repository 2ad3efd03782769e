"""The closed-form methods of the benchmark: their options, the laws that they obey, and their formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.covariance import OAS

import oracle
from layup import NMC, Backbone, FirstSession, ImageModel, LayUP, RidgeClassifier, load_backbone, storage
from layup.adapters import AdaptedBackbone
from layup.algebra.symmetric import BLOCK
from layup.benchmark.datasets import Dataset, Part
from layup.benchmark.experiment import run_tasks
from layup.benchmark.methods import METHODS, DepthsMethod, LayersMethod, Setup, method_class, method_from
from layup.benchmark.scenarios import class_incremental, domain_incremental, online
from layup.errors import BadImageError, InputError, MismatchError, UnknownNameError
from layup.features.cache import FeatureCache
from layup.features.extract import EMBEDDING, Extractor
from layup.model.file import read_model
from photos import batch

FIRST = batch({0: 6, 1: 5})
SECOND = batch({2: 7, 0: 4}, start=20)
TEST = batch({0: 4, 1: 4, 2: 4}, start=60)[0]

CLOSED_FORM = [
    "layup",
    "layup-auto",
    "ridge",
    "layup-average",
    "nmc",
    "laynmc",
    "ranpac",
    "ranpac+layup",
    "adam",
    "adam+layup",
    "fsa+lda",
    "acil",
    "f-oal",
    "loranpac",
    "randumb",
    "klda",
    "fecam",
]
WITH_LAMBDA = ("layup", "ridge", "layup-average", "ranpac", "ranpac+layup", "adam+layup", "acil", "f-oal")
WITH_LAYERS = ("layup", "layup-auto", "layup-average", "laynmc", "ranpac+layup", "adam+layup")
WITH_PRECISION = WITH_LAMBDA
PROJECTED = ("ranpac", "ranpac+layup", "acil", "f-oal", "loranpac")
WITHOUT_LAMBDA = ("nmc", "laynmc", "adam", "loranpac", "randumb", "fecam")

SESSION = FirstSession("ssf", epochs=1)


def small(name, **options):
    """A method that takes a moment, whatever its defaults are."""
    known = {"k": 2, "width": 64, **options}
    return method_from(
        name, {n: value for n, value in known.items() if n in method_class(name).option_names()}
    )


@pytest.fixture(scope="module")
def nano() -> Backbone:
    return load_backbone("vit-nano")


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """One cache for all of these tests."""
    return FeatureCache(tmp_path_factory.mktemp("features"))


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    """Where first sessions are kept: the network is tuned once for all tests that begin alike."""
    return tmp_path_factory.mktemp("sessions")


@pytest.fixture
def setup(nano, features):
    return Setup(nano, "cil", reading={"cache": features})


@pytest.fixture
def setup_for(setup, sessions):
    """The setup for a method: with a first session, if it usually has one."""

    def suited(method, setting="cil"):
        fitting = replace(setup, setting=setting)
        if method.adapts and setting != "ocl":
            fitting = replace(fitting, session=SESSION, checkpoint=sessions / setting)
        return fitting

    return suited


def learned(method, setup, *batches):
    learner = method.begin(setup)
    for images, labels in batches:
        learner.learn(images, labels)
    return learner


# Options


def test_all_methods_are_registered_under_their_names():
    assert set(CLOSED_FORM) <= set(METHODS)
    for name in CLOSED_FORM:
        assert method_from(name, {}).name == method_class(name).name == name
    assert method_class("aper") is method_class("adam")
    assert method_class("gacl") is method_class("acil")


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("layupp", {}, r"Unknown method 'layupp'\. Known: layup, layup-auto, .*\. Did you mean 'layup'\?"),
        ("ranpack", {}, r"Did you mean 'ranpac'\?"),
        ("nmc", {"k": 1}, r"The method 'nmc' has no option 'k'\. It takes metric\."),
        ("laynmc", {"k": 1, "lam": 1}, r"The method 'laynmc' has no option 'lam'\. It takes k, metric\."),
        ("layup", {"depth": 1}, r"has no option 'depth'\. It takes k, lam, balance, precision\."),
        ("ridge", {"k": 2}, r"has no option 'k'\. It takes layer, lam, balance, precision\."),
        ("layup-average", {"width": 9}, r"It takes k, lam, balance, precision\."),
        ("ranpac", {"balance": True}, r"It takes width, lam, precision\."),
        ("ranpac+layup", {"m": 9}, r"It takes width, k, lam, precision\."),
        ("aper", {"metric": "cosine"}, r"The method 'adam' has no option 'metric'\. It takes no options\."),
        ("adam+layup", {"width": 9}, r"It takes k, lam, balance, precision\."),
        ("fsa+lda", {"k": 9}, r"It takes lam\."),
        ("gacl", {"gamma": 9}, r"The method 'acil' has no option 'gamma'\. It takes width, lam, precision\."),
        ("f-oal", {"k": 9}, r"It takes width, lam, precision\."),
        ("fecam", {"k": 9}, r"It takes power, gamma1, gamma2\."),
        *((name, {"k": 9}, r"It takes width, gamma, lam, balance\.") for name in ("randumb", "klda")),
    ],
)
def test_what_a_method_does_not_have_is_refused(name, options, says):
    with pytest.raises(InputError, match=says):
        method_from(name, options)


@pytest.mark.parametrize("k", [0, -1, 13])
def test_a_number_of_layers_that_the_backbone_does_not_have_is_refused_before_anything_is_read(setup_for, k):
    for name in WITH_LAYERS:
        method = method_from(name, {"k": k})
        with pytest.raises(InputError, match=f"k = {k} .*between 1 and 12"):
            method.resolved(setup_for(method))
    with pytest.raises(InputError, match=f"k = {k} "):
        DepthsMethod((1, k)).resolved(setup_for(DepthsMethod()))


@pytest.mark.parametrize("lam", ["serach", -1.0, float("nan"), float("inf")])
def test_an_impossible_lambda_is_refused_before_anything_is_read(setup, setup_for, lam):
    names = {*WITH_LAMBDA, "fsa+lda", "randumb", "klda"}
    for method in (*(method_from(name, {"lam": lam}) for name in names), DepthsMethod((1, 2), lam)):
        with pytest.raises(InputError, match="λ"):
            method.resolved(setup_for(method))
    with pytest.raises(UnknownNameError, match=r"Unknown rule for λ 'gcv'.*Known: oas, a number ≥ 0"):
        method_from("fsa+lda", {"lam": "gcv"}).resolved(setup)
    with pytest.raises(UnknownNameError, match="Did you mean 'search'"):
        method_from("layup", {"lam": "serach"}).resolved(setup)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        *((n, {"precision": "float23"}, "precision.*Did you mean 'float32'") for n in WITH_PRECISION),
        *((n, {"metric": "cosin"}, "metric.*Did you mean 'cosine'") for n in ("nmc", "laynmc")),
        *((n, {"width": 0}, "width = 0 is impossible") for n in PROJECTED),
        *(("loranpac", {"truncate": share}, "truncate = .*, such as 0.25") for share in (-0.1, 1.0, "few")),
        *((n, {"width": -1}, "width = -1 is impossible") for n in ("randumb", "klda")),
        ("fecam", {"power": 0}, "power = 0 is impossible"),
        ("fecam", {"gamma2": 2.0}, r"gamma2 = 2\.0 cannot be used"),
        *((n, {"gamma": 0}, "gamma = 0 is impossible") for n in ("randumb", "klda")),
    ],
)
def test_impossible_options_are_refused_before_anything_is_read(setup, setup_for, name, options, says):
    method = method_from(name, options)
    with pytest.raises(InputError, match=says):
        method.resolved(setup_for(method))
    if name == "layup":
        with pytest.raises(InputError, match=says):
            DepthsMethod((1, 2), **options).resolved(setup)


def test_open_choices_are_made_before_the_run_so_that_its_record_has_them(setup_for):
    def resolved(name, setting, **options):
        method = method_from(name, options)
        return method.resolved(setup_for(method, setting)).options()

    ridge = {"lam": "search", "balance": False, "precision": "float64"}
    assert resolved("layup", "cil") == resolved("layup-average", "cil") == {"k": 6, **ridge}
    assert resolved("adam+layup", "cil") == {"k": 6, **ridge}
    assert resolved("ridge", "cil") == {"layer": 1, **ridge}
    assert resolved("ridge", "ocl") == {"layer": 1, **ridge, "lam": "gcv"}
    for name in ("layup", "layup-average"):
        assert resolved(name, "ocl") == {"k": 6, **ridge, "lam": "gcv"}
        given = {"k": 3, "lam": 0.5, "balance": True, "precision": "float32"}
        assert resolved(name, "ocl", **given) == given
    wide = {"width": 10_000, "lam": "search", "precision": "float64"}
    assert resolved("ranpac", "dil") == wide
    assert resolved("ranpac", "ocl") == {**wide, "lam": 1.0}
    assert resolved("ranpac", "ocl", lam="gcv") == {**wide, "lam": "gcv"}
    assert resolved("ranpac+layup", "cil") == {**wide, "k": 6}
    assert resolved("laynmc", "cil") == {"k": 6, "metric": "cosine"}
    assert resolved("nmc", "cil") == {"metric": "cosine"}
    assert resolved("adam", "cil") == {}
    assert resolved("fsa+lda", "ocl") == {"lam": 1.0}
    for setting in ("cil", "ocl"):
        assert resolved("acil", setting) == {"width": 5000, "lam": 100.0, "precision": "float64"}
        assert resolved("f-oal", setting) == {"width": 1000, "lam": 1.0, "precision": "float64"}
    fourier = {"gamma": 0.1, "balance": True}
    assert resolved("randumb", "ocl") == {"width": 10_000, "lam": "oas", **fourier}
    assert resolved("klda", "cil") == {"width": 5000, "lam": 1e-6, **fourier}


def test_the_options_of_several_depths_are_those_of_each(setup):
    variants = DepthsMethod((1, 2), precision="float32").resolved(setup).variants()
    assert variants["2"].options() == {"k": 2, "lam": "search", "balance": False, "precision": "float32"}


def test_depths_are_those_asked_once_each_and_each_is_layup_of_that_depth(setup):
    method = DepthsMethod((6, 1, 6), balance=True).resolved(setup)
    assert method.depths == (1, 6)
    for k in (1, 6):
        alone = method_from("layup", {"k": k, "balance": True}).resolved(setup)
        assert method.variants()[str(k)] == alone
    assert DepthsMethod().resolved(setup).depths == (6,)


def test_lambda_cannot_be_searched_on_a_stream(setup):
    stream = replace(setup, setting="ocl", session=SESSION)
    for method in (
        *(method_from(name, {"lam": "search"}) for name in WITH_LAMBDA),
        DepthsMethod((1, 2), "search"),
    ):
        with pytest.raises(
            InputError, match=r"λ cannot be searched in the online setting.*Use gcv, or a number"
        ):
            method.resolved(stream)


@pytest.mark.parametrize(("name", "without"), [("adam", "nmc"), ("aper", "nmc"), ("adam+layup", "layup")])
@pytest.mark.parametrize("setting", ["cil", "dil", "ocl"])
def test_what_reads_a_network_before_and_after_a_session_needs_one(setup, setting, name, without):
    for act in ("resolved", "begin"):
        with pytest.raises(InputError, match=rf"without a tuned network it would be '{without}'") as refusal:
            getattr(method_from(name, {}), act)(replace(setup, setting=setting))
    assert ("a stream does not allow" in str(refusal.value)) == (setting == "ocl")


@pytest.mark.parametrize("grid", ["paper", "official"])
def test_every_method_searches_the_lambdas_of_the_run_and_has_no_option_for_it(setup_for, grid):
    grids = {}
    for method in (*map(small, CLOSED_FORM), DepthsMethod((1, 2)), LayersMethod((1, 2))):
        setup = replace(setup_for(method), grid=grid)
        classifier = method.resolved(setup).blank_classifier(setup)
        grids[method.name] = classifier.get_params().get("grid")
        assert "grid" not in method.options()
    searching = {"layup", "ridge", "layup-average", "adam+layup", "layup-depths", "ridge-layers"}
    searching |= {"acil", "f-oal"}  # if they are told to
    assert {name: grid for name, grid in grids.items() if grid} == dict.fromkeys(searching, grid)


def test_which_methods_adapt_the_network_unless_told_otherwise():
    adapting = [name for name in CLOSED_FORM if method_class(name).adapts]
    assert adapting == ["ranpac", "ranpac+layup", "adam", "adam+layup", "fsa+lda"]
    for name in CLOSED_FORM:
        assert ("ocl" in method_class(name).settings) == (not name.startswith("adam"))


@pytest.mark.parametrize("name", CLOSED_FORM)
def test_a_methods_docstring_tells_what_users_want_to_know(name):
    told = method_class(name).explanation()
    for heading in ("Keeps: ", "Costs: ", "Needs: "):
        assert f"\n{heading}" in told
    for option in method_class(name).option_names():
        assert any(option in line.partition(":")[0].replace(" ", "").split(",") for line in told.splitlines())


# Runs (what every method obeys is in tests/benchmark/test_laws.py)


@pytest.mark.parametrize(
    "method", [*map(small, CLOSED_FORM), DepthsMethod((1, 2))], ids=lambda each: each.name
)
def test_a_bad_image_is_named_when_it_is_learned_and_when_it_is_predicted(method, setup_for):
    learner = learned(method, setup_for(method), FIRST)
    with pytest.raises(BadImageError, match=r"no-such-file\.png"):
        learner.learn([*SECOND[0], "no-such-file.png"], [*SECOND[1], "digit 2"])
    with pytest.raises(InputError, match=r"no-such-file\.png"):
        learner.predict([TEST[0], "no-such-file.png"])


def test_a_learner_of_another_method_cannot_be_resumed(setup, setup_for, tmp_path):
    learned(method_from("nmc", {}), setup, FIRST).save(tmp_path / "l.layup")
    for method in (*(small(name) for name in CLOSED_FORM if name != "nmc"), DepthsMethod((1, 2))):
        with pytest.raises(MismatchError, match="holds another model than that of"):
            method.resume(setup_for(method), tmp_path / "l.layup")


@pytest.mark.parametrize("setting", ["cil", "dil", "ocl"])
@pytest.mark.parametrize(
    "method",
    # Random projections about as wide as there are samples are at their worst.
    [*(small(name, width=1000) for name in CLOSED_FORM), DepthsMethod((1, 3))],
    ids=lambda method: method.name,
)
def test_every_method_runs_in_every_setting_and_beats_chance(method, setting, setup_for):
    if setting not in method.settings:
        with pytest.raises(InputError, match="before and after a first session, which a stream does not"):
            method.resolved(setup_for(method, setting))
        return
    labels = 4
    train, test = (batch(dict.fromkeys(range(labels), n), s) for n, s in ((8, 0), (5, 100)))
    styles = ("dark", "bright")

    def part(images, names):
        styled = [255 - image if style == "bright" else image for style in styles for image in images]
        return Part(styled, [*names, *names], [style for style in styles for _ in names])

    dataset = Dataset("few", tuple(sorted(set(train[1]))), part(*train), part(*test), styles)
    if setting == "dil":
        scenario = domain_incremental(dataset)
    else:
        scenario = (online if setting == "ocl" else class_incremental)(dataset, 2)
    setup = setup_for(method, setting)
    if setup.checkpoint:
        setup = replace(setup, checkpoint=setup.checkpoint.with_name(f"{setting}-run"))
    chosen = method.resolved(setup)
    *_, last = run_tasks(chosen.begin(setup), scenario)
    assert last.steps.keys() == chosen.variants().keys()
    for step in last.steps.values():
        assert np.mean(step.accuracies) > 1.5 / labels
        if method.name == "layup-average":
            assert set(step.chosen["lambdas"]) == {"blocks.10", "blocks.11"}
        else:
            assert ("lambda" in step.chosen) == (method.name not in WITHOUT_LAMBDA)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [*map(small, CLOSED_FORM), DepthsMethod((1, 2))], ids=lambda method: method.name
)
def test_the_first_batch_adapts_and_the_learner_keeps_what_was_tuned(method, setup, sessions, tmp_path):
    adapting = replace(setup, session=SESSION, checkpoint=sessions / "cil")
    learner = learned(method, adapting, FIRST)
    tuned = learner.model.backbone_.tuned_values
    for name, report in learner.reports().items():
        assert len(report.chosen["adaptation"]["epochs"]) == 1
        if "adam" not in method.name:  # which is nothing without a session
            plain = learned(method, setup, FIRST).reports()[name]
            assert report.state_bytes == plain.state_bytes + 4 * tuned
            assert "adaptation" not in plain.chosen
    learner.save(tmp_path / "l.layup")
    resumed = method.resume(adapting, tmp_path / "l.layup")
    for each in (learner, resumed):
        each.learn(*SECOND)
    assert resumed.predict(TEST) == learner.predict(TEST)
    assert resumed.reports() == learner.reports()


@pytest.mark.parametrize("name", CLOSED_FORM)
def test_what_is_kept_is_what_the_docstring_says(name, setup, setup_for, nano):
    method = small(name)
    learner = learned(method, setup_for(method), FIRST, SECOND)
    widths = {
        **dict.fromkeys(("nmc", "ridge", "fsa+lda", "fecam"), 128),
        **dict.fromkeys((*PROJECTED, "randumb", "klda"), 64),
    }
    width = {"adam+layup": 512, **widths}.get(name, 256)
    triangle = (width**2 + width * min(width, BLOCK)) // 2
    square = 0 if name in ("nmc", "laynmc", "adam") else triangle
    square = 3 * width * (width + 1) // 2 if name == "fecam" else square
    tuned = 4 * learner.model.backbone_.tuned_values if method.adapts else 0
    assert learner.reports()[""].state_bytes == 8 * (square + 3 * width + 3) + tuned
    if name in WITH_PRECISION:
        learner = learned(small(name, precision="float32"), setup_for(method), FIRST, SECOND)
        assert learner.reports()[""].state_bytes == 4 * (square + 3 * width) + 8 * 3 + tuned


# The formulas, written out in NumPy


def network(setup_for, method, nano):
    """The network as the first session on the first task has left it."""
    tuned = learned(method, setup_for(method), FIRST).model.backbone_
    assert isinstance(tuned, AdaptedBackbone)
    assert tuned.base is nano
    return tuned


def rows(backbone, layers, images, features):
    return Extractor(backbone, layers, cache=features).extract(images).rows.astype(np.float64)


def best(scores, labels=("digit 0", "digit 1", "digit 2")):
    return [labels[i] for i in np.asarray(scores).argmax(axis=1)]


def cosines(x, y, test):
    """The cosine of every test row and every class mean, one by one."""
    means = [x[y == label].mean(axis=0) for label in sorted(set(y))]
    return [[row @ m / np.linalg.norm(row) / np.linalg.norm(m) for m in means] for row in test]


Y = np.array([*FIRST[1], *SECOND[1]])
IMAGES = [*FIRST[0], *SECOND[0]]


def test_adam_is_the_nearest_mean_of_the_frozen_and_the_tuned_embedding(setup_for, nano, features):
    method = method_from("adam", {})
    tuned = network(setup_for, method, nano)
    learner = learned(method, setup_for(method), FIRST, SECOND)
    x, test = (
        np.concatenate([rows(each, [EMBEDDING], images, features) for each in (nano, tuned)], axis=1)
        for images in (IMAGES, TEST)
    )
    np.testing.assert_array_equal(learner.model.extractor_.extract(TEST).rows, test)
    assert list(learner.model.statistics_.layers) == [f"frozen {EMBEDDING}", f"tuned {EMBEDDING}"]
    assert not np.allclose(test[:, :128], test[:, 128:], atol=1e-3)
    expected = cosines(x, Y, test)
    np.testing.assert_allclose(learner.model.scores(TEST), expected, atol=1e-9)
    assert learner.predict(TEST)[""] == best(expected)


def test_adam_works_with_full_fine_tuning(setup, features, nano, tmp_path):
    full = replace(setup, session=FirstSession("full", epochs=1), checkpoint=tmp_path / "s")
    method = method_from("adam", {})
    learner = learned(method, full, FIRST, SECOND)
    tuned = learner.model.backbone_
    assert not {id(p) for p in tuned.network.parameters()} & {id(p) for p in nano.network.parameters()}
    found = learner.model.extractor_.extract(TEST).rows
    np.testing.assert_array_equal(found[:, :128], rows(nano, [EMBEDDING], TEST, features))
    np.testing.assert_array_equal(found[:, 128:], rows(tuned, [EMBEDDING], TEST, features))
    learner.save(tmp_path / "l.layup")
    assert method.resume(full, tmp_path / "l.layup").predict(TEST) == learner.predict(TEST)


@pytest.mark.parametrize("lam", [1.0, "search"])
def test_adam_with_layup_is_ridge_on_the_last_layers_of_both_networks(setup_for, nano, features, lam):
    method = method_from("adam+layup", {"k": 2, "lam": lam})
    tuned = network(setup_for, method, nano)
    learner = learned(method, setup_for(method), FIRST, SECOND)
    x, test = (
        np.concatenate(
            [rows(each, ["blocks.10", "blocks.11"], images, features) for each in (nano, tuned)], axis=1
        )
        for images in (IMAGES, TEST)
    )
    if lam == "search":
        cut = len(FIRST[1])
        accuracies = oracle.search((x[:cut], Y[:cut]), x[cut:], Y[cut:])
        lam = oracle.best(accuracies)
        assert learner.reports()[""].chosen["lambda"] == pytest.approx(lam)
    weights = oracle.classifier(x, Y, lam)[1]
    np.testing.assert_allclose(learner.model.scores(TEST), test @ weights, atol=1e-6)
    assert learner.predict(TEST)[""] == best(test @ weights)


@pytest.mark.parametrize("lam", [None, 1.0])
@pytest.mark.parametrize("k", [None, 2])
def test_ranpac_is_ridge_on_a_random_projection(setup_for, nano, features, k, lam):
    """And its λ the one of least squared error on a fifth of the last task, by a plain solve for each."""
    name, options = ("ranpac", {}) if k is None else ("ranpac+layup", {"k": k})
    method = method_from(name, {"width": 64, "lam": lam, **options})
    tuned = network(setup_for, method, nano)
    setup = replace(setup_for(method), seed=5)
    learner = learned(method, setup, FIRST, SECOND)
    layers = [EMBEDDING] if k is None else ["blocks.10", "blocks.11"]
    matrix = learner.model.extractor_.matrix
    assert matrix.shape == (128 * len(layers), 64)
    h, test = (
        np.maximum(0, rows(tuned, layers, images, features) @ matrix).astype(np.float32).astype(np.float64)
        for images in (IMAGES, TEST)
    )
    targets = oracle.one_hot(Y)[1]
    if lam is None:
        cut = len(FIRST[1])
        own, wanted = h[cut:], targets[cut:, [0, 2]]
        order = np.random.default_rng(5).permutation(len(own))
        seen, held_out = order[: int(0.8 * len(own))], order[int(0.8 * len(own)) :]
        errors = {}
        for exponent in range(-8, 9):
            kernel = own[seen] @ own[seen].T + 10.0**exponent * np.eye(len(seen))
            weights = own[seen].T @ np.linalg.solve(kernel, wanted[seen])
            errors[10.0**exponent] = np.mean((own[held_out] @ weights - wanted[held_out]) ** 2)
        lam = min(errors, key=lambda each: errors[each])
    assert learner.reports()[""].chosen["lambda"] == lam
    weights = oracle.ridge(h, targets, lam)
    np.testing.assert_allclose(learner.model.scores(TEST), test @ weights, atol=1e-6)
    assert learner.predict(TEST)[""] == best(test @ weights)


def recursive_least_squares(h, targets, lam, batch):
    """Weights followed from batch to batch, as the codes of ACIL and F-OAL do, with R = (G + λI)⁻¹."""
    inverse, weights = np.eye(h.shape[1]) / lam, np.zeros((h.shape[1], targets.shape[1]))
    for start in range(0, len(h), batch):
        x, y = h[start : start + batch], targets[start : start + batch]
        inner = np.linalg.inv(np.eye(len(x)) + x @ inverse @ x.T)
        inverse -= inverse @ x.T @ inner @ x @ inverse
        weights += inverse @ x.T @ (y - x @ weights)
    return weights


def test_acil_is_recursive_least_squares_on_a_random_projection(setup, nano, features):
    learner = learned(small("acil"), replace(setup, seed=5), FIRST, SECOND)
    matrix = learner.model.extractor_.matrix
    assert abs(matrix).max() <= 1 / np.sqrt(128)
    h, test = (
        np.maximum(0, rows(nano, [EMBEDDING], images, features) @ matrix).astype(np.float32).astype(float)
        for images in (IMAGES, TEST)
    )
    weights = recursive_least_squares(h, oracle.one_hot(Y)[1], 100.0, batch=5)
    np.testing.assert_allclose(learner.model.scores(TEST), test @ weights, atol=1e-6)
    assert learner.predict(TEST)[""] == best(test @ weights)


def test_f_oal_is_recursive_least_squares_on_sigmoids_of_the_mean_of_all_blocks(setup, nano, features):
    learner = learned(small("f-oal"), replace(setup, seed=5), FIRST, SECOND)
    matrix = learner.model.extractor_.matrix
    assert abs(matrix).max() <= 1 / np.sqrt(128)

    def h(images):
        mean = sum(rows(nano, [f"blocks.{i}"], images, features) for i in range(12)) / 12
        normal = [(row - row.mean()) / np.sqrt(row.var() + 1e-6) for row in mean]
        return 1 / (1 + np.exp(-np.array(normal) @ matrix))

    weights = recursive_least_squares(h(IMAGES), oracle.one_hot(Y)[1], 1.0, batch=1)
    np.testing.assert_allclose(learner.model.scores(TEST), h(TEST) @ weights, atol=1e-5)
    assert learner.predict(TEST)[""] == best(h(TEST) @ weights)


def test_loranpac_is_least_squares_on_the_strongest_directions_of_a_random_projection(setup, nano, features):
    learner = learned(small("loranpac"), replace(setup, seed=5), FIRST, SECOND)
    matrix = learner.model.extractor_.matrix
    h, test = (
        np.maximum(0, rows(nano, [EMBEDDING], images, features) @ matrix).astype(np.float32).astype(float)
        for images in (IMAGES, TEST)
    )
    left, values, right = np.linalg.svd(h, full_matrices=False)  # of 22 images in 64 dimensions
    rank = round(0.75 * len(IMAGES))
    weights = right[:rank].T @ np.diag(1 / values[:rank]) @ left[:, :rank].T @ oracle.one_hot(Y)[1]
    assert learner.reports()[""].chosen == {"rank": rank}
    np.testing.assert_allclose(learner.model.scores(TEST), test @ weights, atol=1e-6)
    assert learner.predict(TEST)[""] == best(test @ weights)


def test_f_oal_refuses_a_network_whose_layers_have_different_widths(setup):
    with pytest.raises(InputError, match="needs layers of the same width"):
        method_from("f-oal", {}).resolved(replace(setup, backbone=load_backbone("bundled")))


def test_the_projection_follows_from_the_seed_and_is_no_part_of_the_file(setup_for, tmp_path):
    method = small("ranpac")
    one, again, other = (learned(method, replace(setup_for(method), seed=seed), FIRST) for seed in (1, 1, 2))
    assert one.predict(TEST) == again.predict(TEST)
    assert not np.allclose(one.model.scores(TEST), other.model.scores(TEST))
    with pytest.raises(MismatchError, match="different layers"):
        one.model.merge(other.model)
    one.save(tmp_path / "l.layup")
    header, arrays = storage.read(tmp_path / "l.layup", "model")
    assert (header["features"]["seed"], header["features"]["width"]) == (1, 64)
    assert not [name for name, array in arrays.items() if array.size == 128 * 64]
    # The seed of the file is in force, not that of the setup.
    resumed = method.resume(replace(setup_for(method), seed=9), tmp_path / "l.layup")
    np.testing.assert_array_equal(resumed.model.scores(TEST), one.model.scores(TEST))


def test_ranpacs_lambda_stays_where_a_batch_is_too_small_to_cut(setup_for):
    method = small("ranpac")
    learner = learned(method, setup_for(method), FIRST)
    found = learner.reports()[""].chosen["lambda"]
    learner.learn(*batch({3: 2, 4: 2}))
    assert learner.reports()[""].chosen["lambda"] == found
    assert len(learner.model.classes_) == 4


def test_lda_is_that_of_means_and_a_pooled_covariance(setup_for, nano, features):
    method = method_from("fsa+lda", {"lam": 0.3})
    tuned = network(setup_for, method, nano)
    learner = learned(method, setup_for(method), FIRST, SECOND)
    x, test = (rows(tuned, [EMBEDDING], images, features) for images in (IMAGES, TEST))
    labels = sorted(set(Y))
    means = [x[label == Y].mean(axis=0) for label in labels]
    covariance = 0.3 * np.eye(128)
    for row, label in zip(x, Y, strict=True):
        around = row - means[labels.index(label)]
        covariance += np.outer(around, around) / len(Y)
    inverse = np.linalg.inv(covariance)
    expected = [
        [
            m @ inverse @ f - m @ inverse @ m / 2 + np.log(np.mean(of == Y))
            for m, of in zip(means, labels, strict=True)
        ]
        for f in test
    ]
    np.testing.assert_allclose(learner.model.scores(TEST), expected, rtol=1e-6, atol=1e-6)
    assert learner.predict(TEST)[""] == best(expected)
    assert learner.reports()[""].chosen["lambda"] == 0.3


@pytest.mark.parametrize("name", ["randumb", "klda"])
def test_discriminants_of_fourier_features_are_those_of_distances_from_means(setup, nano, features, name):
    """Of waves of scaled embeddings, with a covariance that is shrunk; or of width 0, of embeddings."""
    for width in (64, 0):
        learner = learned(method_from(name, {"width": width}), replace(setup, seed=5), FIRST, SECOND)
        z, test = (rows(nano, [EMBEDDING], images, features) for images in (IMAGES, TEST))
        if width:
            frequencies, phases = learner.model.extractor_.waves
            assert frequencies.std() == pytest.approx(np.sqrt(2 * 0.1), rel=0.05)
            z, test = (
                np.sqrt(2 / 64) * np.cos(f / np.linalg.norm(f, axis=1)[:, None] @ frequencies + phases)
                for f in (z, test)
            )
        means = {label: z[label == Y].mean(axis=0) for label in sorted(set(Y))}
        around = z - [means[label] for label in Y]
        if name == "randumb":
            covariance = OAS(assume_centered=True).fit(around).covariance_
        else:
            covariance = around.T @ around / len(Y) + 1e-6 * np.eye(z.shape[1])
        inverse = np.linalg.inv(covariance)
        expected = np.array([[-(f - m) @ inverse @ (f - m) / 2 for m in means.values()] for f in test])
        found = learner.model.scores(TEST)
        # Up to a term that all classes share; waves are rounded to float32, and λ is small.
        np.testing.assert_allclose(found - found[:, :1], expected - expected[:, :1], rtol=1e-2, atol=1e-2)
        assert learner.predict(TEST)[""] == best(expected)


@pytest.mark.parametrize("options", [{}, {"power": 0.5, "gamma1": 3.0, "gamma2": 1.0}])
def test_fecam_is_the_nearest_mean_by_the_correlations_of_each_class(setup, nano, features, options):
    learner = learned(method_from("fecam", options), setup, FIRST, SECOND)
    power, on, off = {"power": 1.0, "gamma1": 1.0, "gamma2": 0.0, **options}.values()
    u, test = (rows(nano, [EMBEDDING], images, features) for images in (IMAGES, TEST))
    u, test = (np.sign(each) * np.abs(each) ** power for each in (u, test))
    u, test = (each / np.linalg.norm(each, axis=1)[:, None] for each in (u, test))
    expected = []
    for label in sorted(set(Y)):
        own = u[label == Y]
        covariance = np.cov(own.T)
        mean_off = (covariance.sum() - np.trace(covariance)) / (128 * 127)
        covariance += on * np.trace(covariance) / 128 * np.eye(128) + off * mean_off * (1 - np.eye(128))
        correlations = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
        around = test - own.mean(axis=0)
        expected.append(-((around @ np.linalg.pinv(correlations)) * around).sum(axis=1))
    np.testing.assert_allclose(learner.model.scores(TEST), np.transpose(expected), rtol=1e-4)
    assert learner.predict(TEST)[""] == best(np.transpose(expected))


@pytest.mark.parametrize("name", ["randumb", "klda", "fecam"])
def test_what_is_made_of_sums_is_saved_merged_and_forgotten(name, setup, tmp_path):
    method = small(name)

    def model(*batches):
        blank = method.begin(setup).model
        blank = ImageModel(blank.features, blank.classifier, backbone=setup.backbone, **setup.reading)
        for images, labels in batches:
            blank.learn(images, labels)
        return blank

    both, first, second = model(FIRST, SECOND), model(FIRST), model(SECOND)
    second.save(tmp_path / "second.layup")
    assert read_model(tmp_path / "second.layup").header["features"] == second.features.to_dict()
    first.merge(ImageModel.load(tmp_path / "second.layup", **setup.reading))
    np.testing.assert_allclose(first.scores(TEST), both.scores(TEST), rtol=1e-5)
    both.forget(*FIRST)
    np.testing.assert_allclose(both.scores(TEST), second.scores(TEST), rtol=1e-5)
    if name == "fecam":  # it has all that there is of each class
        assert second.forget_class("digit 2").exact
        assert second.classes_ == ["digit 0"]


@pytest.mark.parametrize("lam", ["search", "gcv", 1.0])
def test_ridge_is_layup_of_one_layer_and_so_is_the_average_of_one(setup, lam):
    predictions, lambdas = [], []
    for name, options in (("ridge", {}), ("layup", {"k": 1}), ("layup-average", {"k": 1})):
        learner = learned(method_from(name, {"lam": lam, **options}), setup, FIRST, SECOND)
        chosen = learner.reports()[""].chosen
        predictions.append(learner.model.scores(TEST))
        lambdas.append(chosen["lambda"] if name != "layup-average" else chosen["lambdas"]["blocks.11"])
    np.testing.assert_array_equal(predictions[0], predictions[1])
    np.testing.assert_allclose(predictions[2], predictions[0], atol=1e-12)
    assert lambdas == [lambdas[0]] * 3


def test_the_metric_of_a_method_is_that_of_its_model(setup, features, nano):
    plain, euclidean = (
        learned(method_from("nmc", {"metric": metric}), setup, FIRST).model
        for metric in ("cosine", "euclidean")
    )
    model = NMC(nano, cache=features)
    model.learn(*FIRST)
    np.testing.assert_array_equal(plain.scores(TEST), model.scores(TEST))
    assert (euclidean.scores(TEST) < 0).all()


@pytest.mark.parametrize("name", sorted(WITH_PRECISION))
def test_float32_is_kept_and_saved(name, setup_for, tmp_path):
    method = small(name, precision="float32", lam=100.0)
    exact = learned(small(name, lam=100.0), setup_for(method), FIRST, SECOND)
    learner = learned(method, setup_for(method), FIRST, SECOND)
    learner.save(tmp_path / "l.layup")
    resumed = method.resume(setup_for(method), tmp_path / "l.layup").model
    assert resumed.statistics_.gram.dtype == np.float32
    np.testing.assert_allclose(resumed.scores(TEST), exact.model.scores(TEST), atol=1e-2)
    assert not np.array_equal(resumed.scores(TEST), exact.model.scores(TEST))


# Several depths


@pytest.mark.parametrize("lam", ["search", "gcv", 1.0])
def test_layup_at_several_depths_predicts_as_each_alone(nano, setup, features, lam):
    together = learned(DepthsMethod((1, 4), lam), setup, FIRST, SECOND)
    # The method is the paper's, and does not round features.
    alone = {k: LayUP(nano, k, lam, exact=False, balance=False, cache=features) for k in (1, 4)}
    for images, labels in (FIRST, SECOND):
        for model in alone.values():
            model.learn(images, labels)
    assert together.predict(TEST) == {str(k): model.predict(TEST).tolist() for k, model in alone.items()}
    for k, model in alone.items():
        assert together.classifier.solved(str(k))[0] == pytest.approx(model.lambda_, rel=1e-6)


def test_layup_at_several_depths_lives_in_a_file_with_every_lambda(setup, tmp_path):
    method = DepthsMethod((1, 4), balance=True)
    learner = learned(method, setup, FIRST, SECOND)
    learner.save(tmp_path / "m.layup")
    resumed = method.resume(setup, tmp_path / "m.layup")
    parameters = {"depths": [1, 4], "lam": "search", "balance": True, "precision": "float64", "grid": "paper"}
    assert resumed.classifier.parameters() == parameters
    assert resumed.classifier.lambdas_ == learner.classifier.lambdas_
    assert set(learner.classifier.lambdas_) == {"1", "4"}
    assert resumed.predict(TEST) == learner.predict(TEST)


def test_several_depths_in_float32_are_layup_in_float32_of_each(setup):
    depths = learned(DepthsMethod((1, 2), 100.0, precision="float32"), setup, FIRST, SECOND)
    for k in (1, 2):
        alone = learned(
            method_from("layup", {"k": k, "lam": 100.0, "precision": "float32"}), setup, FIRST, SECOND
        )
        assert depths.predict(TEST)[str(k)] == alone.predict(TEST)[""]
        assert depths.reports()[str(k)] == alone.reports()[""]


# Several layers, each by itself


@pytest.mark.parametrize("lam", ["search", "gcv", 1.0])
def test_a_ridge_of_each_layer_is_the_ridge_classifier_of_its_values(nano, features, lam):
    setup = Setup(nano, "cil", reading={"cache": features})
    together = learned(LayersMethod((1, 2, 5), lam), setup, FIRST, SECOND)
    for layer in (1, 2, 5):
        name = nano.last(layer)[0]
        read = Extractor(nano, [name], cache=features).extract
        classifier = RidgeClassifier(lam, balance=False)
        for images, labels in (FIRST, SECOND):
            classifier.partial_fit(read(images).rows, labels)
        alone = learned(method_from("ridge", {"layer": layer, "lam": lam}), setup, FIRST, SECOND)
        expected = classifier.predict(read(TEST).rows).tolist()
        assert together.predict(TEST)[str(layer)] == alone.predict(TEST)[""] == expected
        assert together.reports()[str(layer)].state_bytes == alone.reports()[""].state_bytes
    last = learned(method_from("layup", {"k": 1, "lam": lam}), setup, FIRST, SECOND)
    assert together.predict(TEST)["1"] == last.predict(TEST)[""]


def test_a_layer_that_is_not_there_is_refused(setup):
    with pytest.raises(InputError, match="more layers than"):
        method_from("ridge", {"layer": 99}).resolved(setup)
