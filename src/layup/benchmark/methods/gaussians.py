"""Gaussians of the embeddings of classes: what some methods keep instead of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Gaussian: TypeAlias = tuple[Tensor, Tensor]
"""A mean (d) and a covariance (d, d)."""
Gaussians: TypeAlias = dict[tuple[int, str], Gaussian]
"""By task and class: a class that returns has one for each of its tasks."""

MEAN, COVARIANCE = "mean.", "covariance."  # before TASK.INDEX, in files


def gaussians_of(
    task: int, classes: Mapping[str, int], embeddings: Tensor, targets: NDArray[np.int64]
) -> Gaussians:
    """Mean and covariance of each class of a task, from the embeddings (N, d) of its images.

    The classes have the indices that the targets have; one image has no covariance.

    >>> gaussians_of(0, {"cat": 1}, torch.tensor([[1.0, 2.0]]).double(), np.array([1]))
    {(0, 'cat'): (tensor([1., 2.]), tensor([[0., 0.],
            [0., 0.]]))}
    """
    found = {}
    for name, index in classes.items():
        own = embeddings[torch.from_numpy(targets == index)]
        spread = torch.cov(own.T) if len(own) > 1 else torch.zeros(own.shape[1], own.shape[1])
        found[task, name] = own.mean(dim=0).float(), spread.float()
    return found


def factor_of(covariance: Tensor, jitter: float) -> Tensor:
    """L with L Lᵀ = covariance + jitter on the diagonal; costs d³ / 3 operations."""
    wide = covariance.double() + jitter * torch.eye(len(covariance), dtype=torch.float64)
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(wide)
    if failed:  # rounded to float32, a large covariance may be negative in some direction
        values, directions = torch.linalg.eigh(wide)
        factor = directions * values.clamp(min=jitter).sqrt()
    return factor.float()


def tensors_of(gaussians: Gaussians, tasks: Sequence[Sequence[str]]) -> dict[str, Tensor]:
    """All means and covariances by name, where `tasks` are the classes of each task."""
    tensors = {}
    for (task, name), (mean, covariance) in gaussians.items():
        index = tasks[task].index(name)
        tensors[f"{MEAN}{task}.{index}"] = mean
        tensors[f"{COVARIANCE}{task}.{index}"] = covariance
    return tensors


def gaussians_from(tensors: Mapping[str, Tensor], tasks: Sequence[Sequence[str]]) -> Gaussians:
    """The inverse of `tensors_of`; other tensors are left alone."""
    gaussians = {}
    for name in tensors:
        if name.startswith(MEAN):
            task, index = map(int, name.removeprefix(MEAN).split("."))
            covariance = tensors[f"{COVARIANCE}{task}.{index}"]
            gaussians[task, tasks[task][index]] = tensors[name], covariance
    return gaussians
