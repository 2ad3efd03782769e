"""What is informative: as K itself, made anew after each sample, has it."""

from __future__ import annotations

import numpy as np

from layup.algebra import most_informative


def by_hand(psi: np.ndarray, count: int) -> list[int]:
    """The sample that lowers the sum of all variances most, tried one by one."""
    variances, taken = psi @ psi.T, list[int]()
    for _ in range(count):
        left = {}
        for j in set(range(len(psi))) - {*taken}:
            left[j] = variances - np.outer(variances[:, j], variances[j]) / (1 + variances[j, j])
        taken.append(min(left, key=lambda j: np.trace(left[j])))
        variances = left[taken[-1]]
    return taken


def test_each_sample_lowers_the_variance_of_all_most() -> None:
    psi = np.random.default_rng(0).standard_normal((30, 6)) * [3, 2, 1, 1, 0.5, 0.1]
    assert most_informative(psi, 12) == by_hand(psi, 12)


def test_what_is_near_is_not_taken_as_well() -> None:
    psi = np.random.default_rng(1).standard_normal((10, 4))
    twice = np.concatenate([psi, psi])
    taken = most_informative(twice, 20, near=lambda row: np.arange(20) % 10 == row % 10)
    assert len(taken) == 10
    assert {row % 10 for row in taken} == {*range(10)}


def test_of_nothing_nothing_is_taken() -> None:
    assert most_informative(np.zeros((0, 4)), 3) == []
