"""The head that grows."""

from __future__ import annotations

import math

import pytest
import torch

from layup.benchmark.methods import method_class
from layup.benchmark.methods.head import TRUNCATED, UNIFORM, GrowingHead
from learners import QUICK


def grown(initial, width=100, classes=50):
    torch.manual_seed(0)
    head = GrowingHead(width, initial=initial)
    head.grow(map(str, range(classes)))
    return head.values()


def test_rows_begin_as_torchs_linear_layers():
    values = grown(UNIFORM)
    assert values.abs().max() <= 0.1
    assert values.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=0.05)
    assert values[:, -1].abs().max() > 0.05


def test_rows_begin_as_timms_heads():
    values = grown(TRUNCATED)
    assert values[:, :-1].std().item() == pytest.approx(0.02, rel=0.05)
    assert (values[:, -1] == 0).all()


def test_a_copy_grows_in_the_same_way():
    head = GrowingHead(100, initial=TRUNCATED).copy()
    head.grow(["cat"])
    assert head.values()[0, -1] == 0


def test_a_head_of_cosines_has_no_bias_and_neither_has_its_copy():
    torch.manual_seed(0)
    head = GrowingHead(4, initial=TRUNCATED, cosine=True)
    assert head.values().shape == (0, 4)
    head.grow("ab")
    embedding = torch.randn(3, 4)
    for scores in (head(embedding), head.copy()(embedding)):
        for some, e in zip(scores.tolist(), embedding, strict=True):
            expected = [(row @ e / (row.norm() * e.norm())).item() for row in head.values()]
            assert some == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", QUICK)
def test_methods_begin_their_heads_as_their_authors_do(name):
    truncated = name in ("l2p", "dualprompt", "slca", "ssiat")
    assert method_class(name).initial == (TRUNCATED if truncated else UNIFORM)
