"""Sums of multiples of steps are exact: the same to the bit, however they came about."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from layup.algebra import ClassRoots, ClassSums, GramStatistics, Steps
from layup.algebra.steps import FULL, LARGEST
from layup.algebra.symmetric import Triangle
from layup.errors import InputError, MismatchError

LAYERS = {"shallow": 2, "deep": 3}
EXPONENTS = {"shallow": -9, "deep": 4}
STEPS = Steps(LAYERS, EXPONENTS)


def samples(count=40, seed=0, spread=300.0):
    """Samples in steps, and labels."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, 5)) * STEPS.columns * spread
    return STEPS.nearest(x), rng.choice(["cat", "dog", "eel"], count)


def sums_of(x, y, kind=GramStatistics):
    sums = kind(LAYERS, steps=EXPONENTS)
    sums.update(x, y)
    return sums


# Rounding


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_become_the_nearest_multiples(dtype):
    x = (np.random.default_rng(0).standard_normal((50, 5)) * 1000).astype(dtype)
    found = STEPS.nearest(x)
    assert found.dtype == dtype
    steps = [Fraction(2) ** e for e in (-9, -9, 4, 4, 4)]
    for row, before in zip(found.tolist(), x.tolist(), strict=True):
        for value, was, step in zip(row, before, steps, strict=True):
            assert Fraction(value) % step == 0
            assert abs(Fraction(value) - Fraction(was)) <= step / 2
    np.testing.assert_array_equal(STEPS.nearest(found), found)


def test_there_is_no_negative_zero():
    found = STEPS.nearest(np.array([[-1e-9, 0.0, -1.0, -0.0, 1e-9]]))
    assert not np.signbit(found).any()


def test_a_gram_matrix_is_rounded_to_products_of_steps():
    x, _ = samples()
    exact = Triangle.zeros(5).plus_rows(x)
    noise = np.random.default_rng(0).uniform(-0.4, 0.4, (5, 5))
    moved = exact.dense() + np.tril(noise) * np.outer(STEPS.columns, STEPS.columns)
    assert STEPS.nearest_gram(Triangle.of(moved)).equals(exact)


# Exactness


def test_sums_are_those_of_whole_numbers():
    """Python's whole numbers do not round."""
    x, y = samples(500, spread=2000.0)
    sums = sums_of(x, y)
    whole = [[int(value) for value in row] for row in (x / STEPS.columns).tolist()]
    steps = [Fraction(2) ** e for e in (-9, -9, 4, 4, 4)]
    for i in range(5):
        for j in range(5):
            exact = sum(row[i] * row[j] for row in whole) * steps[i] * steps[j]
            assert Fraction(float(sums.gram[i, j])) == exact
        for number, label in enumerate(sums.labels):
            exact = sum(row[i] for row, of in zip(whole, y, strict=True) if of == label) * steps[i]
            assert Fraction(float(sums.prototypes[number, i])) == exact


HISTORY = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 39)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(40)), st.lists(st.integers(1, 39), max_size=6), HISTORY)
def test_every_history_has_the_same_digest(order, cuts, detours):
    """Any order and batches, and on the way samples that are learned, merged and forgotten again."""
    x, y = samples()
    other_x, other_y = samples(40, seed=1)
    found = GramStatistics(LAYERS, steps=EXPONENTS)
    extra = []
    for part in np.split(np.array(order), sorted({*cuts})):
        found.update(x[part], y[part])
        for kind, row in detours:
            one = other_x[row : row + 1], other_y[row : row + 1]
            if kind == 0:
                found.update(*one)
                extra.append(row)
            elif kind == 1:
                found = found + sums_of(*one)
                extra.append(row)
            elif extra:
                row = extra.pop()
                found.revert(other_x[row : row + 1], other_y[row : row + 1])
    for row in extra:
        found = found - sums_of(other_x[row : row + 1], other_y[row : row + 1])
    assert found.digest() == sums_of(x, y).digest()


def test_sums_that_are_not_exact_depend_on_order():
    """So the law above can fail."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((1500, 5)) * 10.0 ** rng.integers(-6, 7, (1500, 5)), ["cat"] * 1500
    one, two = GramStatistics(5), GramStatistics(5)
    one.update(x, y)
    two.update(x[::-1], y)
    assert one.digest() != two.digest()


def test_the_digest_is_that_of_classes_counts_and_values():
    x, y = samples()
    plain = sums_of(x, y).digest()
    assert sums_of(x, y, ClassSums).digest() != plain
    assert sums_of(np.where(np.arange(5) == 2, x + 16.0, x), y).digest() != plain
    assert sums_of(x, np.where(y == "eel", "elk", y)).digest() != plain
    assert sums_of(x[:-1], y[:-1]).digest() != plain


def test_a_class_is_forgotten_exactly_by_its_root():
    x, y = samples(60)
    roots = ClassRoots(5)
    roots.update(x, y)
    left = sums_of(x, y).without_class("dog", roots.root("dog"))
    others = y != "dog"
    assert left.digest() == sums_of(x[others], y[others]).digest()


def test_selecting_layers_keeps_their_steps():
    x, y = samples()
    chosen = sums_of(x, y).select(["deep"])
    assert chosen.steps.exponents == {"deep": 4}
    direct = GramStatistics({"deep": 3}, steps={"deep": 4})
    direct.update(x[:, 2:], y)
    assert chosen.digest() == direct.digest()


# Limits


def test_what_is_no_multiple_is_refused():
    sums = GramStatistics(LAYERS, steps=EXPONENTS)
    with pytest.raises(InputError, match="must be multiples of their steps"):
        sums.update(np.full((1, 5), 0.3), ["cat"])
    with pytest.raises(InputError, match="steps large"):
        sums.update(STEPS.columns[None] * (LARGEST + 1), ["cat"])
    assert sums.total == 0


def test_full_sums_say_so_before_they_round():
    sums = GramStatistics(1, steps={"features": 0})
    x = np.full((512, 1), LARGEST)
    sums.update(x, ["cat"] * 512)
    sums.update(x, ["cat"] * 512)
    with pytest.raises(InputError, match=r"These sums are full.*Nothing was changed"):
        sums.update(np.tile(x, (2, 1)), ["cat"] * 1024)
    assert sums.total == 1024
    assert Fraction(float(sums.gram[0, 0])) == sums.total * Fraction(LARGEST) ** 2 <= 2**53


def test_merging_full_sums_is_refused():
    half = GramStatistics(1, steps={"features": 0})
    half.update(np.full((900, 1), LARGEST), ["cat"] * 900)
    _ = half.state()  # nothing waits any more
    assert half.room < 900
    with pytest.raises(InputError, match="These sums are full"):
        _ = half + half


def test_there_is_room_for_as_many_as_is_said():
    sums = GramStatistics(1, steps={"features": 0})
    sums.update(np.full((4, 1), 2.0**20), ["cat"] * 4)
    assert (sums.room + 4) * 2.0**40 == FULL
    assert GramStatistics(1).room is None


@pytest.mark.parametrize("steps", [None, {"shallow": -8, "deep": 4}])
def test_sums_of_other_steps_are_not_mixed(steps):
    x, y = samples()
    other = GramStatistics(LAYERS, steps=steps)
    other.update(STEPS.nearest(x) * 2, y)
    with pytest.raises(MismatchError, match="rounded to different steps"):
        _ = sums_of(x, y) + other


def test_float32_cannot_be_exact():
    with pytest.raises(InputError, match="float32 cannot be exact"):
        GramStatistics(LAYERS, "float32", EXPONENTS)


# Files


def test_files_keep_steps_and_bytes(tmp_path):
    x, y = samples()
    sums = sums_of(x, y)
    sums.save(tmp_path / "sums")
    loaded = GramStatistics.load(tmp_path / "sums")
    assert loaded.steps.exponents == EXPONENTS
    assert loaded.digest() == sums.digest()


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("prototypes", lambda a: a + 2.0**-11, "class sums are not multiples"),
        ("gram", lambda a: a + 2.0**-20, "does not consist of multiples"),
        ("gram", lambda a: a * 2.0**60, "larger than any that is exact"),
    ],
)
def test_forged_sums_are_refused(name, change, says):
    header, arrays = sums_of(*samples()).state()
    with pytest.raises(ValueError, match=says):
        GramStatistics.from_state(header, {**arrays, name: change(arrays[name])})


def test_steps_of_other_layers_are_refused():
    header, arrays = sums_of(*samples()).state()
    with pytest.raises(ValueError, match="2 layers but 1 steps"):
        GramStatistics.from_state({**header, "steps": [4]}, arrays)
