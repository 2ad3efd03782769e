"""SSIAT: the adapter is tuned by a plain loop, means move as loops say, and rows are aligned by cosines."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from layup.backbones import Passes, load_backbone
from layup.benchmark.methods.ssiat import FLOOR, JITTER, SSIATMethod, shift_of
from layup.benchmark.recipes import recipe_of
from layup.errors import InputError
from layup.seeds import seed_of
from learners import (
    BACK,
    FIRST,
    QUICK,
    SECOND,
    TEST,
    epoch_of,
    equal,
    kept,
    learned,
    new_rows,
    pixels_of,
    setup_of,
)

METHOD = QUICK["ssiat"]
WIDTH = 24


def cosine(some, other):
    return some @ other / (some.norm() * other.norm())


# The adapter


def test_the_first_task_has_more_epochs_and_the_rate_falls_to_zero_in_each(setup):
    learner = SSIATMethod(epochs=3, learning_rate=0.5).begin(setup)
    for task, epochs in enumerate((6, 3, 3)):
        learner.tasks = [["a"]] * (task + 1)
        assert learner.recipe.epochs == epochs
        expected = [0.5 * (1 + math.cos(math.pi * epoch / epochs)) / 2 for epoch in range(epochs)]
        assert [learner.recipe.rate(epoch) for epoch in range(epochs)] == pytest.approx(expected)


def plain_tuning(learner, tasks, rates, *, scale, margin):
    """The adapter and one row per class, image after image: their values, and the last losses."""
    body = learner.new_body()
    tuned, rows = list(body.state().values()), {}
    for number, (images, labels) in enumerate(tasks, start=1):
        classes, losses = sorted(set(labels)), []
        for name, row in zip(classes, new_rows(WIDTH, number, len(classes), truncated=True), strict=True):
            rows[name] = nn.Parameter(row.detach()[:-1])  # no bias
        head = [rows[name] for name in classes]
        optimizer = torch.optim.SGD([*tuned, *head], lr=1.0, momentum=0.9, weight_decay=5e-4)
        for epoch, rate in enumerate(rates):
            optimizer.param_groups[0]["lr"] = rate
            body.train()
            batches = epoch_of(learner.backbone, images, 4, (0, number, epoch))
            torch.manual_seed(seed_of(0, number, epoch, "dropout"))
            torch.empty((), dtype=torch.int64).random_()  # the reader of images draws one
            total = 0.0
            for chosen, pixels in batches:
                loss = 0.0
                for index, embedding in zip(chosen, body.embed(pixels), strict=True):
                    right = classes.index(labels[index])
                    scores = [cosine(embedding, row) - margin * (i == right) for i, row in enumerate(head)]
                    loss = loss - torch.log_softmax(scale * torch.stack(scores), dim=0)[right]
                optimizer.zero_grad()
                (loss / len(chosen)).backward()
                optimizer.step()
                total += loss.item()
            losses.append(total / len(images))
    return body.state(), rows, losses


def test_the_adapter_is_tuned_by_scaled_cosines_with_a_margin_over_own_classes(setup):
    method = replace(METHOD, epochs=3, learning_rate=0.02, scale=5.0, margin=0.2, alignment_rate=1e-30)
    rates = [0.02 * (1 + math.cos(math.pi * epoch / 3)) / 2 for epoch in range(3)]
    learner = learned(method, setup, FIRST, SECOND)
    tuned, rows, losses = plain_tuning(learner, [FIRST, SECOND], rates, scale=5.0, margin=0.2)
    for name, value in learner.body.state().items():
        torch.testing.assert_close(value, tuned[name], rtol=1e-3, atol=1e-5, msg=name)
    assert learner.head.classes == list(rows)
    expected = torch.stack([*rows.values()])
    torch.testing.assert_close(learner.head.values(), expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(learner.losses, losses, rtol=1e-3)


def test_only_the_adapter_is_tuned_and_every_task_tunes_it(setup):
    learner = learned(METHOD, setup, FIRST)
    before = kept(learner)
    tuned = [name for name in before if name.startswith("body.")]
    assert sum(before[name].numel() for name in tuned) == 5 * (2 * 3 * WIDTH + 3 + WIDTH)
    learner.learn(*SECOND)
    assert all(not torch.equal(kept(learner)[name], before[name]) for name in tuned)


def test_a_network_without_room_for_the_adapter_is_refused_by_a_sentence():
    setup = setup_of(load_backbone("bundled"))
    says = r"'ssiat' tunes an AdaptFormer .* 'bundled' is of another kind \(EfficientNetLite0\)\. Use another"
    for verb in (METHOD.resolved, METHOD.begin):
        with pytest.raises(InputError, match=says):
            verb(setup)


def test_the_released_margins_are_used():
    assert recipe_of("ssiat", "imagenet-a").options == {"margin": 0.3}
    assert SSIATMethod().margin == 0


# The shift of means


def shift_by_loops(mean, before, now, sigma):
    total, weights = 0.0, 0.0
    for was, became in zip(before, now, strict=True):
        weight = math.exp(-sum((w - m) ** 2 for w, m in zip(was, mean, strict=True)) / (2 * sigma**2)) + 1e-5
        total, weights = total + weight * (became - was), weights + weight
    return total / weights


@pytest.mark.parametrize("sigma", [0.5, 4.0])
def test_a_mean_moves_as_images_near_it_moved(sigma):
    rng = np.random.default_rng(0)
    before, means = rng.normal(size=(30, 6)), rng.normal(size=(40, 6))
    now = before + 0.3 * rng.normal(size=(30, 6))
    found = shift_of(*map(torch.from_numpy, (means, before, now)), sigma)
    expected = [shift_by_loops(mean, before, now, sigma) for mean in means]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_a_mean_far_from_all_images_moves_as_they_do_on_average():
    before = torch.randn(7, 3, dtype=torch.float64)
    now = before + torch.rand(7, 3, dtype=torch.float64)
    found = shift_of(torch.full((1, 3), 1e4, dtype=torch.float64), before, now, 4.0)
    torch.testing.assert_close(found[0], (now - before).mean(dim=0))
    assert FLOOR == 1e-5


def embedded(learner, images):
    pixels = pixels_of(learner.backbone, images)
    return learner.body(pixels).embedding.clone().double().numpy()


def test_after_a_task_old_means_have_moved_and_its_own_are_those_of_its_images(setup):
    method = replace(METHOD, learning_rate=0.1, sigma=2.0)
    learner = learned(method, setup, FIRST)
    for number, (images, labels) in enumerate((SECOND, BACK), start=1):
        old, before = dict(learner.gaussians), embedded(learner, images)
        learner.learn(images, labels)
        now = embedded(learner, images)
        for key, (mean, covariance) in old.items():
            expected = mean.double().numpy() + shift_by_loops(mean.double().numpy(), before, now, 2.0)
            np.testing.assert_allclose(learner.gaussians[key][0], expected, rtol=1e-4, atol=1e-5)
            assert not torch.equal(learner.gaussians[key][0], mean)
            assert torch.equal(learner.gaussians[key][1], covariance)
        for name in sorted(set(labels)):
            own = now[np.array(labels) == name]
            mean, covariance = learner.gaussians[number, name]
            np.testing.assert_allclose(mean, own.mean(axis=0), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(covariance, np.cov(own.T), rtol=1e-3, atol=1e-5)
    assert list(learner.gaussians)[4:] == [(2, "digit 0"), (2, "digit 2")]


def test_images_are_read_once_after_a_task_and_embedded_before_and_after_it(setup):
    setup = replace(setup, backbone=setup.backbone.counted())
    learner = learned(replace(METHOD, first_factor=2), setup, FIRST)
    assert setup.backbone.passes == Passes(5, 5 * 4)
    learner.learn(*SECOND)
    assert setup.backbone.passes == Passes(5 + 2 * 5, 5 * 4 + 5 * 2)
    assert learner.earlier is None  # not kept any longer than needed


# Alignment


def test_alignment_moves_all_rows_from_the_second_task_on_and_never_the_adapter(setup):
    some, other = (replace(METHOD, alignment_rate=rate).begin(setup) for rate in (0.01, 1.0))
    for learner in (some, other):
        learner.learn(*FIRST)
    assert torch.equal(some.head.values(), other.head.values())
    for learner in (some, other):
        learner.learn(*SECOND)
    assert (some.head.values() != other.head.values()).any(dim=1).all()
    assert equal(some.body.state(), other.body.state())


def test_alignment_equals_its_recipe_step_by_step(setup):
    method = replace(METHOD, samples=5, alignment_epochs=3, alignment_rate=0.2, scale=6.0)
    learner = method.begin(setup)
    learner.tasks = [["a", "b"], ["c"]]
    torch.manual_seed(1)
    learner.head.grow("abc")
    rng = np.random.default_rng(0)
    for number, name in ((0, "a"), (0, "b"), (1, "c")):
        own = torch.from_numpy(rng.normal(size=(40, WIDTH)) + rng.normal(size=WIDTH))
        learner.gaussians[number, name] = own.mean(dim=0).float(), torch.cov(own.T).float()
    rows = learner.head.values().double()
    began = rows.clone()
    torch.manual_seed(5)
    learner._align()

    torch.manual_seed(5)
    pace = torch.zeros_like(rows)
    for epoch in range(3):
        rate = 0.2 * (1 + math.cos(math.pi * epoch / 3)) / 2
        samples = []
        for (number, name), (mean, covariance) in learner.gaussians.items():
            scaled = mean.double().numpy() * (0.9 + 0.1 * (number + 1) / 2)
            factor = np.linalg.cholesky(covariance.double().numpy() + JITTER * np.eye(WIDTH))
            samples += [(scaled + factor @ z, name) for z in torch.randn(5, WIDTH).double().numpy()]
        order = torch.randperm(len(samples)).tolist()
        for start in range(0, len(order), 5):
            rows.requires_grad_(True)
            loss = 0.0
            for index in order[start : start + 5]:
                x, name = samples[index]
                scores = 6.0 * torch.stack([cosine(torch.from_numpy(x), row) for row in rows])
                loss = loss - torch.log_softmax(scores, dim=0)["abc".index(name)] / 5
            (gradient,) = torch.autograd.grad(loss, rows)
            rows = rows.detach()
            pace = 0.9 * pace + gradient + 5e-4 * rows
            rows = rows - rate * pace
    torch.testing.assert_close(learner.head.values().double(), rows, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(rows, began, atol=0.01)


def test_predictions_are_the_classes_of_the_nearest_rows(setup):
    learner = learned(METHOD, setup, FIRST, SECOND)
    rows = learner.head.values()
    expected = []
    for embedding in torch.from_numpy(embedded(learner, TEST)).float():
        cosines = [cosine(embedding, row).item() for row in rows]
        expected.append(learner.head.classes[cosines.index(max(cosines))])
    assert learner.predict(TEST)[""] == expected
