"""SLCA: the slow learner is a plain loop, and the alignment is what its recipe says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from layup.benchmark.methods.gaussians import factor_of
from layup.benchmark.methods.slca import JITTER, SLCAMethod
from learners import (
    BACK,
    FIRST,
    QUICK,
    SECOND,
    TEST,
    assert_fine_tuned,
    equal,
    kept,
    learned,
    pixels_of,
    plain_fine_tuning,
    tinted,
)

METHOD = QUICK["slca"]
WIDTH = 24


# The slow learner


@pytest.mark.parametrize(("epochs", "dropped"), [(20, 18), (10, 9), (50, 45), (30, 27), (1, 1), (3, 3)])
def test_the_rate_drops_to_a_tenth_for_the_last_tenth_of_the_epochs(epochs, dropped):
    method = SLCAMethod(epochs=epochs, learning_rate=0.5)
    expected = [0.5] * dropped + [0.05] * (epochs - dropped)
    assert [method.rate(epoch) for epoch in range(epochs)] == pytest.approx(expected)


def test_the_first_stage_equals_a_plain_loop_over_own_classes_at_a_hundredth_of_the_rate(setup):
    tasks = [FIRST, SECOND, BACK]
    method = replace(METHOD, epochs=10, learning_rate=0.05, batch_size=8)
    rates = [0.05] * 9 + [0.005]
    expected = plain_fine_tuning(setup.backbone, tasks, rates, size=8, lr_multiplier=0.01, own=True)
    assert_fine_tuned(learned(method, setup, *tasks), expected)  # no alignment was in the way


def test_heads_of_earlier_tasks_rest_while_the_network_goes_on(setup):
    learner = learned(METHOD, setup, FIRST)
    before = kept(learner)
    learner.learn(*SECOND)
    assert torch.equal(learner.head.values()[:2], before["head"])
    weights = [name for name in before if name.startswith("body.")]
    assert all(not torch.equal(kept(learner)[name], before[name]) for name in weights)


def test_how_heads_are_aligned_has_no_part_in_training(setup):
    some, other = (
        learned(replace(METHOD, alignment_rate=rate), setup, FIRST, SECOND, BACK) for rate in (0.01, 1.0)
    )
    assert torch.equal(some.head.values(), other.head.values())
    assert equal(some.body.state(), other.body.state())
    assert not torch.equal(some.aligned.values(), other.aligned.values())


# Gaussians


def gaussians_of(learner, images, labels):
    embeddings = learner.body(pixels_of(learner.backbone, images)).embedding.double().numpy()
    return {
        name: (own.mean(axis=0), np.cov(own.T))
        for name in sorted(set(labels))
        for own in [embeddings[np.array(labels) == name]]
    }


def test_of_every_class_mean_and_covariance_are_kept_as_they_were_after_its_batch(setup):
    learner = METHOD.begin(setup)
    expected = {}
    for number, (images, labels) in enumerate([FIRST, SECOND, BACK]):
        learner.learn(images, labels)
        found = gaussians_of(learner, images, labels)
        expected |= {(number, name): values for name, values in found.items()}
    assert list(learner.gaussians) == list(expected)
    for key, (mean, covariance) in expected.items():
        np.testing.assert_allclose(learner.gaussians[key][0], mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(learner.gaussians[key][1], covariance, rtol=1e-4, atol=1e-6)


def test_a_class_of_one_image_is_a_small_ball(setup):
    images, labels = tinted({0: 3, 1: 1})
    learner = learned(METHOD, setup, (images, labels), SECOND)
    mean, covariance = learner.gaussians[0, "digit 1"]
    assert torch.equal(covariance, torch.zeros(WIDTH, WIDTH))
    assert mean.isfinite().all()
    torch.testing.assert_close(factor_of(covariance, JITTER), torch.eye(WIDTH) * math.sqrt(JITTER))
    assert all(value.isfinite().all() for value in kept(learner).values())


# Alignment


def test_one_task_needs_no_alignment(setup):
    learner = learned(METHOD, setup, FIRST)
    assert torch.equal(learner.aligned.values(), learner.head.values())


def test_predictions_are_those_of_the_aligned_heads(setup):
    learner = learned(replace(METHOD, alignment_rate=1.0), setup, FIRST, SECOND)
    pixels = pixels_of(setup.backbone, TEST)
    scores = learner.scores(pixels)
    torch.testing.assert_close(scores, learner.aligned(learner.body(pixels).embedding.clone()))
    assert not torch.allclose(scores, learner.head(learner.body(pixels).embedding.clone()))
    assert learner.predict(TEST)[""] == [learner.head.classes[best] for best in scores.argmax(dim=1)]


def with_gaussians(setup, method, tasks):
    """A learner that has been given its statistics."""
    rng = np.random.default_rng(0)
    learner = method.begin(setup)
    learner.tasks = tasks
    torch.manual_seed(1)
    for names in tasks:
        learner.head.grow(names)
    for number, names in enumerate(tasks):
        for name in names:
            own = torch.from_numpy(rng.normal(size=(40, WIDTH)) + 3 * rng.normal(size=WIDTH))
            learner.gaussians[number, name] = own.mean(dim=0).float(), torch.cov(own.T).float()
    learner.aligned = learner.head.copy()
    return learner


TASKS = [["a", "b", "e"], ["c"], ["a", "c"], ["b", "d"]]
GROUPS = [[0, 1, 2], [3], [4]]  # the classes that came with each task


def normalised(logits, temperature):
    norms = [math.sqrt(sum(logits[index] ** 2 for index in group)) for group in GROUPS]
    return [logit / (sum(norms) / len(norms)) / temperature for logit in logits]


def test_logits_are_divided_by_the_mean_norm_over_tasks_and_by_the_temperature(setup):
    learner = with_gaussians(setup, replace(METHOD, temperature=0.3), TASKS)
    assert learner.head.classes == ["a", "b", "e", "c", "d"]
    logits = torch.randn(4, 5)
    expected = [normalised(row, 0.3) for row in logits.tolist()]
    np.testing.assert_allclose(learner.normalised(logits), expected, rtol=1e-4)


def test_alignment_equals_its_recipe_step_by_step(setup):
    method = replace(METHOD, samples=5, alignment_epochs=3, alignment_rate=0.2, temperature=0.5)
    learner = with_gaussians(setup, method, TASKS)
    classes = learner.head.classes
    torch.manual_seed(5)
    learner._align()

    torch.manual_seed(5)
    rows = learner.head.values().double()
    pace = torch.zeros_like(rows)
    for epoch in range(3):
        rate = 0.2 * (1 + math.cos(math.pi * epoch / 3)) / 2
        samples = []
        for (number, name), (mean, covariance) in learner.gaussians.items():
            scaled = mean.double().numpy() * (0.9 + 0.1 * (number + 1) / 4)
            factor = np.linalg.cholesky(covariance.double().numpy() + 1e-4 * np.eye(WIDTH))
            samples += [(scaled + factor @ z, name) for z in torch.randn(5, WIDTH).double().numpy()]
        order = torch.randperm(len(samples)).tolist()
        for start in range(0, len(order), 5):
            rows.requires_grad_(True)
            loss = 0.0
            for index in order[start : start + 5]:
                x, name = samples[index]
                logits = [row[:-1] @ torch.from_numpy(x) + row[-1] for row in rows]
                norms = [torch.stack([logits[i] for i in group]).norm() for group in GROUPS]
                logits = torch.stack(logits) / (sum(norms) / len(norms)) / 0.5
                loss = loss - torch.log_softmax(logits, dim=0)[classes.index(name)] / 5
            (gradient,) = torch.autograd.grad(loss, rows)
            rows = rows.detach()
            pace = 0.9 * pace + gradient + 5e-4 * rows
            rows = rows - rate * pace
    torch.testing.assert_close(learner.aligned.values().double(), rows, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(learner.aligned.values(), learner.head.values(), atol=0.01)


def test_alignment_brings_back_a_task_whose_scores_are_too_low(setup):
    method = replace(METHOD, alignment_epochs=5, alignment_rate=0.5, samples=50)
    learner = with_gaussians(setup, method, [["a", "b"], ["c", "d"]])
    with torch.no_grad():
        for row in learner.head.rows(["c", "d"]):
            row[-1] += 10  # as heads do that were trained last
    learner.aligned = learner.head.copy()
    means = torch.stack([mean for mean, _ in learner.gaussians.values()])
    assert not {0, 1} & set(learner.aligned(means).argmax(dim=1).tolist())
    torch.manual_seed(0)
    learner._align()
    assert learner.aligned(means).argmax(dim=1).tolist() == [0, 1, 2, 3]
