"""Samples per class: the right numbers of each, the same for the same seed, whatever else there is."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from layup.sampling import by_class, sample, split

labels_of = st.lists(st.sampled_from("abcde"), max_size=40)
seeds = st.integers(0, 2**32)


@given(labels_of)
def test_every_index_is_in_its_class(labels):
    members = by_class(labels)
    assert list(members) == list(dict.fromkeys(labels))
    for label, indices in members.items():
        assert indices == [index for index, each in enumerate(labels) if each == label]


@given(labels_of, st.integers(0, 12), seeds)
def test_a_sample_has_so_many_of_each_class_or_all(labels, per_class, seed):
    indices = sample(labels, per_class, seed)
    assert indices.dtype == np.int64
    assert indices.tolist() == sorted(set(indices.tolist()))
    counts = Counter(labels[index] for index in indices)
    assert counts == {label: n for label, of in Counter(labels).items() if (n := min(of, per_class))}
    assert set(indices.tolist()) <= set(sample(labels, per_class + 1, seed).tolist())


def test_a_sample_is_drawn_by_the_seed_and_the_number_of_the_class():
    labels = [("lynx", "photo"), ("tabby", "photo"), ("lynx", "clipart")] * 9
    expected = []
    for number, label in enumerate([("lynx", "clipart"), ("lynx", "photo"), ("tabby", "photo")]):
        own = [index for index, each in enumerate(labels) if each == label]
        expected += np.random.default_rng([1993, number]).permutation(own)[:4].tolist()
    assert sample(labels, 4, 1993).tolist() == sorted(expected)
    assert sample(labels, 4, 1994).tolist() != sorted(expected)
    assert sample(zip(*zip(*labels, strict=True), strict=True), 4, 1993).tolist() == sorted(expected)


@given(labels_of, st.sampled_from([0.01, 0.2, 0.25, 0.5, 0.99]), seeds)
def test_a_share_of_every_class_is_held_out_and_never_its_last(labels, share, seed):
    rng = np.random.default_rng(seed)
    training, held_out = split(labels, share, lambda label: rng)
    assert sorted([*training.tolist(), *held_out.tolist()]) == list(range(len(labels)))
    assert [*training] == sorted(training)
    assert [*held_out] == sorted(held_out)
    held = Counter(labels[index] for index in held_out)
    for label, count in Counter(labels).items():
        assert held[label] == min(max(1, round(share * count)), count - 1)


def test_sorted_classes_draw_one_after_the_other():
    labels, rng = ["b", "a", "c"] * 10, np.random.default_rng(5)
    expected = []
    for label in "abc":
        own = [index for index, each in enumerate(labels) if each == label]
        expected += rng.permutation(own)[:2].tolist()
    again = np.random.default_rng(5)
    assert split(labels, 0.2, lambda label: again)[1].tolist() == sorted(expected)


def test_a_class_with_its_own_generator_does_not_mind_the_others():
    def own(label):
        return np.random.default_rng([3, ord(label)])

    alone = split(["b"] * 10, 0.3, own)[1]
    among = split(["b"] * 10 + ["a"] * 9 + ["c"], 0.3, own)[1]
    assert among[among < 10].tolist() == alone.tolist()


@pytest.mark.parametrize("labels", [[], ["a"], ["a", "b"]])
def test_classes_of_one_sample_have_none_to_hold_out(labels):
    training, held_out = split(labels, 0.5, lambda label: np.random.default_rng(0))
    assert (training.tolist(), held_out.tolist()) == (list(range(len(labels))), [])
