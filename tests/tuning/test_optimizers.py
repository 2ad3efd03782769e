"""Optimizers: learning rates, and a memory that survives a file."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from layup.tuning.optimizers import (
    annealed,
    grouped,
    load_optimizer_state,
    optimizer_state,
    parameters_of,
    set_rate,
)

# Learning rates


@pytest.mark.parametrize("epochs", [1, 2, 7, 20])
def test_annealing_is_torchs_own(epochs):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        assert annealed(0.3, epoch, epochs) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()


# What optimizers remember

OPTIMIZERS = {
    "sgd": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.01),
    "sgd without momentum": lambda groups: torch.optim.SGD(groups, lr=0.1),
    "adam": lambda groups: torch.optim.Adam(groups, lr=0.1, weight_decay=0.01),
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.1),
}


def parameters():
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape)) for shape in [(3, 2), (), (4,), (2,)]]


def steps(optimizer, values, start, count):
    """Some steps with gradients of their own; the last value gets none."""
    for step in range(start, start + count):
        for value in values[:-1]:
            value.grad = torch.cos(value.detach() * (step + 1))
        optimizer.step()


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_goes_on_as_if_it_were_the_same(kind):
    def made(values):
        return OPTIMIZERS[kind]([{"params": values[:2], "lr": 0.05}, {"params": values[2:]}])

    straight = parameters()
    optimizer = made(straight)
    steps(optimizer, straight, 0, 3)
    values = [nn.Parameter(value.detach().clone()) for value in straight]
    remembered = {name: value.numpy().copy() for name, value in optimizer_state(optimizer).items()}
    steps(optimizer, straight, 3, 3)

    other = made(values)
    load_optimizer_state(other, {name: torch.from_numpy(value) for name, value in remembered.items()})
    assert [group["lr"] for group in other.param_groups] == [0.05, 0.1]
    steps(other, values, 3, 3)
    for value, expected in zip(values, straight, strict=True):
        assert torch.equal(value, expected)
    assert set(optimizer_state(other)) == set(optimizer_state(optimizer))
    places = {name.partition(".")[0] for name in remembered}
    assert places == (
        set() if kind == "sgd without momentum" else {"0", "1", "2"}
    )  # the last got no gradient


FORGED = {
    "no average": lambda state: state.pop("1.exp_avg"),
    "no average at all": lambda state: [state.pop(name) for name in [*state] if name.endswith("exp_avg_sq")],
    "no step": lambda state: state.pop("0.step"),
    "more": lambda state: state.update({"0.extra": torch.zeros(3, 2)}),
    "of others": lambda state: state.update({"999.exp_avg": torch.zeros(2)}),
    "counted from the end": lambda state: state.update({"-1.exp_avg": torch.zeros(2)}),
    "no place": lambda state: state.update({"exp_avg": torch.zeros(2)}),
    "another shape": lambda state: state.update({"0.exp_avg": torch.zeros(2, 3)}),
    "a number for a table": lambda state: state.update({"0.exp_avg": torch.zeros(())}),
    "a list of steps": lambda state: state.update({"0.step": torch.ones(1)}),
    "a step of a byte": lambda state: state.update({"0.step": torch.tensor(127, dtype=torch.int8)}),
    **{
        f"step {step}": lambda state, step=step: state.update({"0.step": torch.tensor(step)})
        for step in (0.0, -1.0, 0.5, math.nan, math.inf)
    },
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_the_memory_of_another_optimizer_is_refused(forge):
    values = parameters()
    optimizer = OPTIMIZERS["adam"](values)
    steps(optimizer, values, 0, 2)
    state = optimizer_state(optimizer)
    load_optimizer_state(OPTIMIZERS["adam"](values), state)
    forge(state)
    other = OPTIMIZERS["adam"](values)
    with pytest.raises(ValueError, match="remember"):
        load_optimizer_state(other, state)
    assert not other.state


def test_optimizers_of_different_kinds_remember_different_things():
    values = parameters()
    adam, sgd = OPTIMIZERS["adam"](values), OPTIMIZERS["sgd"](values)
    steps(adam, values, 0, 1)
    with pytest.raises(ValueError, match="remember"):
        load_optimizer_state(sgd, optimizer_state(adam))


def test_what_is_new_begins_without_a_memory():
    values = parameters()[:3]
    optimizer = OPTIMIZERS["adam"]([{"params": [value]} for value in values[:2]])
    steps(optimizer, [*values[:2], None], 0, 2)
    grown = OPTIMIZERS["adam"]([{"params": [value]} for value in values])
    load_optimizer_state(grown, optimizer_state(optimizer))
    assert [grown.state[value].get("step") for value in values] == [2, 2, None]


def test_every_group_learns_at_its_multiple_of_the_rate():
    values = parameters()
    optimizer = OPTIMIZERS["adam"](grouped([(0.25, values[:1]), (1.0, values[1:])]))
    assert [id(value) for value in parameters_of(optimizer)] == [id(value) for value in values]
    for rate in (0.4, 0.1):
        set_rate(optimizer, rate)
        assert [group["lr"] for group in optimizer.param_groups] == [0.25 * rate, rate]
