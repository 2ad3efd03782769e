"""Random numbers depend only on seeds, and the caller's stay the same."""

from __future__ import annotations

import itertools

import pytest
import torch

from layup.seeds import seed_of, seeded


@pytest.mark.parametrize(
    ("parts", "seed"),
    [
        ((), 66041686678272754),
        ((0,), 71800622811450952),
        ((0, "split"), 42839300776178864),
        ((1993, 2, 5, "order"), 35211999317674861),
    ],
)
def test_a_seed_is_the_same_on_every_machine_and_in_every_version(parts, seed):
    assert seed_of(*parts) == seed


def test_other_parts_are_another_seed():
    parts = [(), (0,), (1,), ("0",), (0, 0), (0, 1), (1, 0), ("0, 1",), (0, "1"), (0, 1, 2), (0, 12), (-1,)]
    for some, others in itertools.combinations(parts, 2):
        assert seed_of(*some) != seed_of(*others)


def test_a_seed_is_one_that_every_generator_takes():
    for number in range(100):
        assert 0 <= seed_of(number) < 2**56


def test_numbers_follow_from_the_seeds_whatever_was_drawn_before():
    found = []
    for drawn in (0, 3):
        torch.rand(drawn)
        with seeded(7, "head"):
            found.append(torch.rand(4))
    torch.manual_seed(seed_of(7, "head"))
    assert torch.equal(found[0], torch.rand(4))
    assert torch.equal(*found)
    with seeded(8, "head"):
        assert not torch.equal(torch.rand(4), found[0])


def test_whoever_draws_numbers_outside_is_not_disturbed():
    torch.manual_seed(3)
    expected = torch.rand(5)
    torch.manual_seed(3)
    found = [torch.rand(2)]
    with seeded(0):
        torch.rand(9)
        with seeded(1, device=torch.device("cpu")):
            torch.rand(9)
    found.append(torch.rand(1))
    with pytest.raises(RuntimeError), seeded(0):
        torch.rand(9).reshape(2)
    found.append(torch.rand(2))
    assert torch.equal(torch.cat(found), expected)


def test_an_inner_block_does_not_disturb_the_outer_one():
    with seeded(0):
        expected = torch.rand(4)
    with seeded(0):
        first = torch.rand(2)
        with seeded(1):
            torch.rand(3)
        assert torch.equal(torch.cat([first, torch.rand(2)]), expected)
