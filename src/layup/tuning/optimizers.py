"""Optimizers: learning rates, and their state as tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

Groups: TypeAlias = Sequence[tuple[float, list[Any]]]
"""Parameters with their `lr_multiplier`, which multiplies the learning rate."""

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": partial(torch.optim.SGD, momentum=0.9),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}
# The state of an optimizer for each parameter.
SGD_PARTS = {"momentum_buffer"}
ADAM_PARTS = {"step", "exp_avg", "exp_avg_sq"}


def grouped(groups: Groups) -> list[dict[str, Any]]:
    """Groups as torch's optimizers take them."""
    return [{"params": parameters, "lr_multiplier": multiplier} for multiplier, parameters in groups]


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every group: its multiple of this rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["lr_multiplier"] * rate


def parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All parameters that it trains, group after group."""
    return [each for group in optimizer.param_groups for each in group["params"]]


def annealed(learning_rate: float, epoch: int, epochs: int) -> float:
    """The learning rate of an epoch (from 0): half a cosine wave from the first value towards zero.

    >>> [annealed(1.0, epoch, 4) for epoch in (0, 2)]
    [1.0, 0.5]
    """
    return learning_rate * (1 + math.cos(math.pi * epoch / epochs)) / 2


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer, by INDEX.NAME, where the index is that of the parameter."""
    return {
        f"{index}.{name}": value
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
        if value is not None
    }


def load_optimizer_state(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load what `optimizer_state` returned into an optimizer of the same parameters.

    Parameters without saved state start fresh. Raises a `ValueError` if the state is of other parameters, or
    of another kind of optimizer.
    """
    known = {str(index): parameter for index, parameter in enumerate(parameters_of(optimizer))}
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, _, part = name.partition(".")
        if index not in known or not _fits(part, tensor, known[index]):
            raise ValueError(f"{name} is not what an optimizer of these parameters remembers")
        state.setdefault(int(index), {})[part] = tensor
    parts = SGD_PARTS if isinstance(optimizer, torch.optim.SGD) else ADAM_PARTS
    for number, remembered in state.items():
        if remembered.keys() != parts:
            raise ValueError(f"of parameter {number} it remembers {sorted(remembered)}, not {sorted(parts)}")
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _fits(part: str, tensor: Tensor, parameter: Tensor) -> bool:
    """Whether a tensor can be this part of the state: a number of steps, or shaped like its parameter."""
    if part == "step":
        return tensor.ndim == 0 and tensor.is_floating_point() and 1 <= tensor.item() < math.inf
    return tensor.shape == parameter.shape
