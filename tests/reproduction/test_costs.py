"""The counts are those of the paper's Section 4.3, to the digits it prints, and those of real networks."""

from __future__ import annotations

import math

import layup.compat  # noqa: F401  # isort: skip  (before timm and torchvision)
import pytest
import timm
import torch

from layup.adapters import AdaptedBackbone, AdaptFormer
from layup.backbones import Preprocessing
from layup.backbones.timm_models import timm_backbone
from layup.reproduction import costs
from layup.reproduction.costs import Cost, Setup, saving

PAPER = Setup()


def millions(count: int) -> int:
    return round(count / 1e6)


def percent(share: float) -> int:
    return round(100 * share)


def test_values_are_those_the_paper_prints():
    assert millions(costs.layup(PAPER).parts["adapter"]) == 1
    assert millions(costs.layup(PAPER).parts["Gram matrix"]) == 21
    assert millions(costs.ranpac(PAPER).parts["Gram matrix"]) == 100
    assert millions(costs.slca(PAPER).values) == 118


def test_the_papers_eleven_million_of_ranpac_have_its_prototypes_in_them():
    assert millions(costs.ranpac(PAPER).without("Gram matrix").values) == 9
    assert millions(costs.ranpac(PAPER, prototypes=True).without("Gram matrix").values) == 11


def test_the_papers_second_backbone_is_two_million_short():
    assert millions(costs.adam(PAPER).values) == 86  # the paper: 84


def test_operations_are_those_the_paper_prints():
    for cost, exponent in ((costs.layup(PAPER), 11), (costs.slca(PAPER), 11), (costs.ranpac(PAPER), 12)):
        assert cost.operations is not None
        assert round(math.log10(cost.operations)) == exponent
    assert costs.ranpac(PAPER).operations == 10**12
    assert costs.adam(PAPER).operations is None


# Which count of the other method, the percentage with that of LayUP's G alone, and with its adapter too.
SAVINGS = {
    "RanPAC": (costs.ranpac(PAPER, prototypes=True).values, 81, 80),
    "RanPAC, prototypes left out": (costs.ranpac(PAPER).values, 80, 79),
    "SLCA": (costs.slca(PAPER).values, 82, 81),
    "ADAM": (costs.adam(PAPER).values, 75, 74),
    "ADAM, as the paper counts": (84_000_000, 75, 73),
}


@pytest.mark.parametrize("other", SAVINGS)
def test_memory_saved(other: str):
    theirs, gram_alone, with_adapter = SAVINGS[other]
    assert percent(saving(costs.layup(PAPER).without("adapter").values, theirs)) == gram_alone
    assert percent(saving(costs.layup(PAPER).values, theirs)) == with_adapter


def test_the_papers_percentages_leave_layups_adapter_out():
    published = {"RanPAC": 81, "SLCA": 82, "ADAM": 75}
    assert {name: SAVINGS[name][1] for name in published} == published
    assert not any(SAVINGS[name][2] == value for name, value in published.items())


def test_operations_saved():
    ours, theirs = costs.layup(PAPER).operations, costs.ranpac(PAPER).operations
    assert ours is not None
    assert theirs is not None
    assert percent(saving(ours, theirs)) == 90


def test_an_adam_that_shares_frozen_weights_keeps_less_than_layup():
    assert saving(costs.layup(PAPER).values, costs.adam(PAPER, shared=True).values) < -17


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "setup"),
    [
        ("vit_base_patch16_224", PAPER),
        ("vit_base_patch16_224", Setup(bottleneck=16)),
        ("vit_small_patch32_224", Setup(width=384, patch=32, bottleneck=8)),
    ],
)
def test_counts_are_those_of_real_networks(name: str, setup: Setup):
    with torch.device("meta"):  # shapes without values
        network = timm.create_model(name, num_classes=0)
        base = timm_backbone(
            network,
            Preprocessing((224, 224), (224, 224), "squash"),
            name=name,
            spec=None,
            device=torch.device("meta"),
        )
        adapted = AdaptedBackbone(base, AdaptFormer(width=setup.bottleneck))
    assert costs.backbone_values(setup) == sum(value.numel() for value in network.parameters())
    assert costs.adapter_values(setup) == adapted.tuned_values


def test_parts_add_up():
    cost = Cost({"a": 1, "b": 2, "c": 4}, operations=8)
    assert cost.values == 7
    assert cost.without("a", "c") == Cost({"b": 2}, operations=8)
