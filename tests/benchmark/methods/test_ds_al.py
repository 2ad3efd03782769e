"""DS-AL: its formula, by recursive least squares as in its paper, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from layup import FirstSession, load_backbone
from layup.benchmark.methods import Setup, method_from
from layup.errors import InputError, MismatchError
from layup.features import EMBEDDING, Extractor, FeatureCache
from photos import batch

TASKS = batch({0: 6, 1: 5}), batch({2: 7, 3: 4}, start=20), batch({4: 5, 0: 3}, start=40)
TEST = batch({0: 4, 1: 4, 2: 4, 3: 4, 4: 4}, start=60)[0]


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    cache = FeatureCache(tmp_path_factory.mktemp("features"))
    return Setup(load_backbone("vit-nano"), "cil", reading={"cache": cache}, seed=5)


class Recursive:
    """Least squares followed from batch to batch; new classes begin with weights of zero."""

    def __init__(self, width, lam):
        self.inverse, self.weights = np.eye(width) / lam, np.zeros((width, 5))

    def learn(self, x, targets):
        inner = np.linalg.inv(np.eye(len(x)) + x @ self.inverse @ x.T)
        self.inverse -= self.inverse @ x.T @ inner @ x @ self.inverse
        self.weights += self.inverse @ x.T @ (targets - x @ self.weights)


def test_ds_al_is_two_recursions_of_which_the_second_fits_the_residuals_of_the_first(setup):
    method = method_from("ds-al", {"width": 40, "lam": 0.2, "compensation_lam": 0.4, "compensation": 0.7})
    learner = method.begin(setup)
    read = Extractor(setup.backbone, [EMBEDDING], cache=setup.reading["cache"]).extract
    matrix = learner.relu.matrix
    np.testing.assert_array_equal(matrix, learner.tanh.matrix)
    assert abs(matrix).max() <= 1 / np.sqrt(128)
    names = np.array([f"digit {i}" for i in range(5)])
    main, other = Recursive(40, 0.2), Recursive(40, 0.4)
    test = read(TEST).rows.astype(float) @ matrix
    for images, labels in TASKS:
        learner.learn(images, labels)
        z = read(images).rows.astype(float) @ matrix
        h, g = np.maximum(0, z), np.tanh(z)
        targets = (np.array(labels)[:, None] == names).astype(float)
        main.learn(h, targets)
        residuals = targets - h @ main.weights
        residuals[:, ~np.isin(names, labels)] = 0  # previous label cleansing
        other.learn(g, residuals)
        scores = np.maximum(0, test) @ main.weights + 0.7 * np.tanh(test) @ other.weights
        known = np.isin(names, learner.main.classes_)
        np.testing.assert_allclose(learner.scores_of(read(TEST).rows), scores[:, known], atol=1e-5)
        assert learner.predict(TEST)[""] == names[known][scores[:, known].argmax(axis=1)].tolist()
    assert np.abs(other.weights).max() > 1e-3


def test_without_compensation_it_is_acil(setup):
    acil, alone = (
        method_from(name, {"width": 40, **options}).begin(setup)
        for name, options in (("acil", {"lam": 0.1}), ("ds-al", {"compensation": 0}))
    )
    for task in TASKS:
        acil.learn(*task)
        alone.learn(*task)
    assert acil.predict(TEST) == alone.predict(TEST)
    assert acil.reports()[""].chosen == alone.reports()[""].chosen == {"lambda": 0.1}


def test_it_keeps_what_the_docstring_says(setup):
    learner = method_from("ds-al", {"width": 40}).begin(setup)
    learner.learn(*TASKS[0])
    assert learner.reports()[""].state_bytes == 8 * (2 * 40**2 + 2 * 2 * 40 + 2)  # small matrices are whole
    told = type(learner.method).explanation()
    for heading in ("Keeps: ", "Costs: ", "Needs: ", *(f"{each}: " for each in learner.method.options())):
        assert f"\n{heading}" in told


def test_its_memory_is_known_in_advance(setup):
    one, two = (
        method_from(name, {"width": 3000}).forecast(setup, 500, 5000, 100).total for name in ("acil", "ds-al")
    )
    assert two - one == 8 * 3000 * 100 + 4 * 500 * 3000 + triangle_bytes(3000)


def triangle_bytes(width):
    """The bytes of one triangle of a matrix, in panels of 128 rows."""
    return 8 * sum(min(128, width - row) * min(row + 128, width) for row in range(0, width, 128))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"width": 0}, "width = 0 is impossible"),
        ({"lam": -1}, "'ds-al' with lam = -1 is impossible. Use a number ≥ 0"),
        ({"lam": "gcv"}, "'ds-al' with lam = 'gcv' is impossible"),
        ({"compensation_lam": None}, "compensation_lam = None is impossible"),
        ({"compensation": float("nan")}, "compensation = nan is impossible"),
    ],
)
def test_impossible_options_are_refused(setup, options, says):
    with pytest.raises(InputError, match=says):
        method_from("ds-al", options).begin(setup)


def test_streams_and_first_sessions_are_refused(setup):
    method = method_from("ds-al", {})
    with pytest.raises(InputError, match=r"cannot run in the setting 'ocl'.*or the method 'acil'"):
        method.resolved(replace(setup, setting="ocl"))
    with pytest.raises(InputError, match="has no first session here") as refusal:
        method.resolved(replace(setup, session=FirstSession("ssf")))
    assert refusal.value.about == "adapter"


def test_a_learner_that_knows_nothing_says_so(setup):
    with pytest.raises(InputError, match="Cannot predict: no class was learned"):
        method_from("ds-al", {"width": 40}).begin(setup).predict(TEST)


def test_another_learner_cannot_be_resumed(setup, tmp_path):
    method = method_from("ds-al", {"width": 40})
    learner = method.begin(setup)
    learner.learn(*TASKS[0])
    learner.save(tmp_path / "l.layup")
    with pytest.raises(MismatchError, match="holds a learner with seed 5, and not 6"):
        method.resume(replace(setup, seed=6), tmp_path / "l.layup")
    with pytest.raises(MismatchError, match="holds a learner with options"):
        method_from("ds-al", {"width": 41}).resume(setup, tmp_path / "l.layup")
