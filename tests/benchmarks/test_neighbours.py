"""The nearest stored images vote as a slow loop says, and what is counted is what is kept."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from benchmarks import neighbours
from benchmarks.heads import Split
from layup.features import EMBEDDING

LAYERS = {**{f"layer {i}": 3 for i in range(6)}, EMBEDDING: 4}


def split() -> Split:
    rng, width = np.random.default_rng(3), sum(LAYERS.values())
    means = rng.standard_normal((4, width))
    y, truth = np.repeat([*"abcd"], 5), np.repeat([*"abcd"], 30)
    x, asked = (means[["abcd".index(name) for name in each]] for each in (y, truth))
    return Split(LAYERS, x + rng.standard_normal(x.shape), y, asked + rng.standard_normal(asked.shape), truth)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return math.fsum(a * b) / math.sqrt(math.fsum(a * a) * math.fsum(b * b))


def mean_cosine(a: np.ndarray, b: np.ndarray, ends: np.ndarray) -> float:
    parts = [slice(start, end) for start, end in pairwise(ends)]
    return math.fsum(cosine(a[each], b[each]) for each in parts) / len(parts)


@pytest.mark.parametrize("k", [1, 5, 50])
@pytest.mark.parametrize("names", [[EMBEDDING], ["layer 0", "layer 4", EMBEDDING]])
def test_the_nearest_vote(k, names):
    part = split().only(names)
    ends = np.cumsum([0, *part.layers.values()])
    right = 0
    for asked, truth in zip(part.asked, part.truth, strict=True):
        pairs = [(mean_cosine(asked, x, ends), name) for x, name in zip(part.x, part.y, strict=True)]
        votes = dict.fromkeys("abcd", 0.0)
        for similarity, name in sorted(pairs, reverse=True)[:k]:
            votes[name] += similarity
        right += max(votes, key=lambda name: votes[name]) == truth
    assert neighbours.nearest(part, k) == right / len(part.truth)
    assert right / len(part.truth) > 0.3


def test_every_head_has_an_accuracy():
    found = dict(zip(neighbours.HEADS, neighbours.accuracies(split()), strict=True))
    assert all(0.3 < value <= 1 for value in found.values())
    assert found["5-NN"] == neighbours.nearest(split().only([EMBEDDING]), 5)


def test_what_is_kept():
    part = split()
    arrays = part.last(6).sums().state()[1].values()
    assert neighbours.kept(part) == (4 * 20 * 4, sum(each.nbytes for each in arrays))
