"""Gaussians of classes: measured, factorised, and written to files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from layup.benchmark.methods.gaussians import factor_of, gaussians_from, gaussians_of, tensors_of

JITTER = 1e-4


def test_each_class_has_the_mean_and_the_covariance_of_its_own_images():
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(9, 4))
    targets = np.array([3, 0, 3, 0, 0, 5, 3, 0, 5])
    found = gaussians_of(2, {"a": 0, "b": 3}, torch.from_numpy(embeddings), targets)
    assert list(found) == [(2, "a"), (2, "b")]
    for (_, name), index in zip(found, (0, 3), strict=True):
        own = np.array([row for row, target in zip(embeddings, targets, strict=True) if target == index])
        mean, covariance = found[2, name]
        centred = own - own.sum(axis=0) / len(own)
        expected = sum(np.outer(row, row) for row in centred) / (len(own) - 1)
        np.testing.assert_allclose(mean, own.sum(axis=0) / len(own), rtol=1e-6)
        np.testing.assert_allclose(covariance, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("count", [3, 200])
@pytest.mark.parametrize("scale", [0.1, 1.0, 1000.0])
def test_a_factor_times_itself_is_the_covariance(count, scale):
    torch.manual_seed(0)
    samples = scale * torch.randn(count, 32) @ torch.randn(32, 32)
    covariance = torch.cov(samples.T.double()).float()  # of 3 samples singular, and rounded
    factor = factor_of(covariance, JITTER)
    expected = covariance + JITTER * torch.eye(32)
    torch.testing.assert_close(factor @ factor.T, expected, rtol=1e-3, atol=1e-5 * scale**2 + 1e-5)


def test_what_was_written_is_read_again_whatever_else_is_there():
    tasks = [["a", "b"], ["b"], ["c", "a"]]
    gaussians = {
        (task, name): (torch.randn(3), torch.randn(3, 3))
        for task, names in enumerate(tasks)
        for name in names
    }
    tensors = {"body.mean": torch.ones(1), **tensors_of(gaussians, tasks), "head": torch.ones(2)}
    found = gaussians_from(tensors, tasks)
    assert list(found) == list(gaussians)
    for key, (mean, covariance) in gaussians.items():
        assert torch.equal(found[key][0], mean)
        assert torch.equal(found[key][1], covariance)
