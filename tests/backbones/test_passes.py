"""Passes are counted by the backbone that reads, and by no other."""

from __future__ import annotations

import copy
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

from layup.adapters import AdaptedBackbone, AdaptFormer
from layup.backbones import Backbone, Passes


def test_threads_may_share_a_counter() -> None:
    passes = Passes()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                pool.submit(lambda: [passes.count(1, training=False) for _ in range(5000)])
    finally:
        sys.setswitchinterval(before)
    assert passes == Passes(reading=20_000)


def test_a_counter_can_be_copied_with_its_backbone(backbone: Backbone) -> None:
    mine = backbone.counted()
    other = copy.deepcopy(mine)
    mine(torch.zeros(2, 3, 16, 16))
    assert (mine.passes, other.passes) == (Passes(reading=2), Passes())


def test_views_of_a_backbone_count_apart_and_share_all_that_was_made(backbone: Backbone) -> None:
    folded = backbone.with_engine("folded")
    mine, yours, before = folded.counted(), folded.counted(), copy.copy(folded.passes)
    mine(torch.zeros(3, 3, 16, 16))
    mine.embed(torch.zeros(2, 3, 16, 16))
    assert (mine.passes, yours.passes, folded.passes) == (Passes(3, 2), Passes(), before)
    assert yours._engine() is mine._engine() is folded._engine()
    assert yours.fingerprint == backbone.fingerprint


def test_what_is_made_of_a_backbone_counts_with_it(backbone: Backbone) -> None:
    mine = backbone.counted()
    adapted = AdaptedBackbone(mine, AdaptFormer(width=2))
    adapted(torch.zeros(4, 3, 16, 16))
    mine(torch.zeros(1, 3, 16, 16))
    assert mine.passes == Passes(reading=5)
    assert backbone.counted().passes == Passes()
