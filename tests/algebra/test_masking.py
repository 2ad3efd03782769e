"""Sums as whole numbers, and masks: exact in both directions, and alone like random numbers."""

from __future__ import annotations

import secrets
from fractions import Fraction

import numpy as np
import pytest

from layup.algebra import ClassMoments, GramStatistics, mask, sums_of, words_for, words_of
from layup.algebra.steps import FULL
from layup.errors import InputError

LAYERS = {"shallow": 2, "deep": 3}
EXPONENTS = {"shallow": -9, "deep": 4}
CLASSES = ["ant", "cat", "dog", "eel"]


def sums(count=40, seed=0, classes=("cat", "dog", "eel")):
    rng = np.random.default_rng(seed)
    found = GramStatistics(LAYERS, steps=EXPONENTS)
    assert found.steps is not None
    x = rng.standard_normal((count, 5)) * found.steps.columns * 300
    found.update(found.steps.nearest(x), rng.choice(classes, count))
    return found


def wrapped(number):
    """Python's whole numbers modulo 2⁶⁴."""
    return int(number) % 2**64


def test_words_are_the_sums_in_units():
    """Counted one by one, in fractions."""
    found = sums()
    steps = [Fraction(2) ** e for e in (-9, -9, 4, 4, 4)]
    gram, expected = found.gram.tolist(), []
    for i in range(5):
        expected += [Fraction(gram[i][j]) / (steps[i] * steps[j]) for j in range(i + 1)]
    own = dict(zip(found.labels, found.prototypes.tolist(), strict=True))
    for label in CLASSES:
        row = own.get(label, [0.0] * 5)
        expected += [Fraction(value) / step for value, step in zip(row, steps, strict=True)]
    expected += [Fraction(found.count_by_label().get(label, 0)) for label in CLASSES]
    assert all(value.denominator == 1 for value in expected)
    words = words_of(found, CLASSES)
    assert words.tolist() == [wrapped(value) for value in expected]
    assert len(words) == words_for(found, len(CLASSES))


def test_words_are_sums_again():
    found = sums()
    again = sums_of(words_of(found, CLASSES), found.empty(), CLASSES)
    assert again.digest() == found.digest()


def test_words_of_parts_add_up_to_those_of_all():
    parts = [sums(10, seed, ("cat", "dog") if seed % 2 else ("eel",)) for seed in range(5)]
    joint = parts[0].empty()
    for part in parts:
        joint.add(part)
    total = sum((words_of(part, CLASSES) for part in parts), np.uint64(0))
    assert total.tolist() == words_of(joint, CLASSES).tolist()
    assert sums_of(total, joint.empty(), CLASSES).digest() == joint.digest()


def test_masks_cancel_to_the_bit():
    words, secret = words_of(sums(), CLASSES), secrets.token_bytes(32)
    noise = mask(secret, "here", len(words))
    assert [(a + b) % 2**64 for a, b in zip(words.tolist(), noise.tolist(), strict=True)] == (
        words + noise
    ).tolist()
    assert ((words + noise) - noise).tolist() == words.tolist()


def test_a_mask_depends_on_every_bit_of_secret_and_purpose():
    secret = bytes(range(32))
    other = bytes([*range(31), 30])
    drawn = [mask(secret, "a", 100), mask(other, "a", 100), mask(secret, "b", 100), mask(secret, "", 100)]
    for i, one in enumerate(drawn):
        for two in drawn[:i]:
            assert not (one == two).any()
    np.testing.assert_array_equal(mask(secret, "a", 10), drawn[0][:10])


def test_a_mask_is_the_same_on_every_machine():
    """Sites with other versions must make the same one."""
    assert mask(bytes(32), "purpose", 2).tolist() == [10719839155731786021, 373708299961149536]


@pytest.mark.parametrize(
    ("secret", "found"), [(b"", 0), (bytes(31), 31), (bytes(33), 33), ("x" * 32, "a str")]
)
def test_a_secret_has_32_bytes(secret, found):
    with pytest.raises(InputError, match=f"must be 32 bytes, not {found}"):
        mask(secret, "", 1)


def test_classes_that_were_not_agreed_on_are_named():
    with pytest.raises(InputError, match="'cat' and 1 others are not among the 2 classes"):
        words_of(sums(), ["dog", "ant"])


def test_sums_that_are_no_whole_numbers_are_refused():
    with pytest.raises(InputError, match="Only exact sums"):
        words_of(GramStatistics(LAYERS), CLASSES)
    with pytest.raises(InputError, match="Only exact sums"):
        words_of(ClassMoments(LAYERS, steps=EXPONENTS), CLASSES)


def test_what_was_dropped_without_its_images_is_refused():
    with pytest.raises(InputError, match="G still holds"):
        words_of(sums().without_class("cat"), CLASSES)


def test_sums_that_would_not_be_exact_are_refused():
    """Each of two sites has room, but not both together."""
    large = GramStatistics(1, steps={"features": 0})
    large.update(np.full((800, 1), 2.0**21), ["cat"] * 800)
    words = words_of(large, ["cat"])
    assert words.tolist()[0] == 800 * 2**42 < FULL
    with pytest.raises(InputError, match="These sums are full"):
        sums_of(words + words, large.empty(), ["cat"])


def test_the_largest_number_of_full_sites_does_not_wrap_around():
    total = sum([np.array([int(FULL)], np.uint64)] * 2**10, np.uint64(0))
    assert total.view(np.int64).tolist() == [2**62]


@pytest.mark.parametrize(
    ("position", "add", "says"),
    [
        (0, -(10**12), "not those of any images"),
        (1, 2**60, "larger than any"),
        (15, 5, "a class without images has a sum"),
        (-3, -1000, "counts"),
    ],
)
def test_sums_that_no_images_have_are_refused(position, add, says):
    words = words_of(sums(), CLASSES)
    words[position] += np.uint64(add % 2**64)
    with pytest.raises(InputError, match=f"No images can have these sums.*{says}"):
        sums_of(words, sums().empty(), CLASSES)
