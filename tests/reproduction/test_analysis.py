from __future__ import annotations

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy.stats import spearmanr

from layup.benchmark import metrics
from layup.errors import InputError
from layup.reproduction.analysis import (
    ClassChange,
    Correlation,
    Similarities,
    UnitSums,
    class_change,
    class_similarities,
    contrast,
    median_bandwidth,
    rank_correlation,
    share_better,
    squared_mmd,
)

NO = math.nan

few = settings(max_examples=40, deadline=None)


def features(seed: int, n: int, d: int = 3, shift: float = 0.0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


# How far apart two sets of features are


def slow_mmd(x: Any, y: Any, bandwidth: float) -> float:
    def kernel(a: Any, b: Any) -> float:
        return math.exp(-sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) / (2 * bandwidth**2))

    n, m = len(x), len(y)
    own = sum(kernel(x[i], x[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    other = sum(kernel(y[i], y[j]) for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    return own + other - 2 * sum(kernel(a, b) for a in x for b in y) / (n * m)


@pytest.mark.parametrize("rows", [1, 2, 5, 7, 12, 1024])
@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 5.0])
def test_mmd_agrees_with_double_sums_in_tiles_of_any_size(rows: int, bandwidth: float) -> None:
    x, y = features(0, 12), features(1, 7, shift=0.5)
    assert squared_mmd(x, y, bandwidth, rows=rows) == pytest.approx(slow_mmd(x, y, bandwidth), abs=1e-13)


@given(st.integers(2, 9), st.integers(2, 9), st.integers(1, 4), st.integers(1, 10), st.integers(0, 1000))
@few
def test_mmd_agrees_with_double_sums_of_any_shape(n: int, m: int, d: int, rows: int, seed: int) -> None:
    x, y = features(seed, n, d), features(seed + 1, m, d, shift=1.0)
    assert squared_mmd(x, y, 1.5, rows=rows) == pytest.approx(slow_mmd(x, y, 1.5), abs=1e-13)


def test_mmd_does_not_depend_on_the_order_of_rows_or_sides_or_where_both_are() -> None:
    x, y = features(0, 30), features(1, 20, shift=0.5)
    found = squared_mmd(x, y, 1.0, rows=8)
    rng = np.random.default_rng(2)
    assert squared_mmd(rng.permutation(x), rng.permutation(y), 1.0, rows=8) == pytest.approx(found)
    assert squared_mmd(y, x, 1.0, rows=8) == pytest.approx(found)
    assert squared_mmd(x + 1e6, y + 1e6, 1.0) == pytest.approx(found, abs=1e-8)
    assert squared_mmd(3 * x, 3 * y, 3.0) == pytest.approx(found)


def test_mmd_grows_with_the_distance_up_to_what_each_side_is_within_itself() -> None:
    x, y = features(0, 60), features(1, 50)
    found = [squared_mmd(x, y + shift, 1.0) for shift in (0.0, 0.5, 1.0, 4.0)]
    assert found == sorted(found)
    assert abs(found[0]) < 0.03 < found[1]
    # However far, what is within is as exact as before: each side is centred on its own.
    far, farther = (squared_mmd(x, y + shift, 1.0) for shift in (100.0, 1e8))
    assert far == pytest.approx(farther, abs=1e-6)
    assert far == pytest.approx(slow_mmd(x, y + 100.0, 1.0))


def test_mmd_has_no_bias() -> None:
    """Over every way to draw two rows of each of two small worlds, its mean is MMD² of these worlds."""
    first, second = [0.0, 1.0, 4.0], [0.5, 3.0]
    draws_a, draws_b = (list(itertools.product(own, repeat=2)) for own in (first, second))
    found = [squared_mmd(np.array(a)[:, None], np.array(b)[:, None], 1.0) for a in draws_a for b in draws_b]

    def mean(a: list[float], b: list[float]) -> float:
        return float(np.mean([math.exp(-((p - q) ** 2) / 2) for p in a for q in b]))

    true = mean(first, first) + mean(second, second) - 2 * mean(first, second)
    assert np.mean(found) == pytest.approx(true, abs=1e-13)


def test_mmd_of_one_distribution_is_zero_on_average_and_so_at_times_negative() -> None:
    found = [squared_mmd(features(2 * i, 20), features(2 * i + 1, 15), 1.0) for i in range(300)]
    assert abs(np.mean(found)) < 4 * np.std(found) / math.sqrt(len(found))
    assert min(found) < 0 < max(found)


def test_a_row_is_no_pair_with_itself() -> None:
    """With rows this far apart, all pairs have a kernel of 0; those of a row with itself would add to it."""
    x, y = np.arange(9.0)[:, None] * 1e3, np.arange(5.0)[:, None] * 1e3 + 500
    for rows in (1, 4, 9):
        assert squared_mmd(x, y, 1.0, rows=rows) == 0.0


def test_mmd_takes_memory_of_tiles_only() -> None:
    x, y = features(0, 1500, 2), features(1, 1400, 2)
    tracemalloc.start()
    try:
        squared_mmd(x, y, 1.0, rows=128)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1500 * 128 * 8 < 1500 * 1500 * 8 / 10


def test_mmd_of_single_precision_is_taken_in_double() -> None:
    x, y = features(0, 40).astype(np.float32), features(1, 40).astype(np.float32)
    assert squared_mmd(x, y, 1.0) == squared_mmd(x.astype(np.float64), y.astype(np.float64), 1.0)


def test_mmd_of_what_cannot_be_is_refused() -> None:
    x = features(0, 4)
    with pytest.raises(InputError, match="at least 2 of each, not 4 and 1"):
        squared_mmd(x, x[:1], 1.0)
    with pytest.raises(InputError, match="at least 2 of each, not 0 and 4"):
        squared_mmd(x[:0], x, 1.0)
    with pytest.raises(InputError, match="Rows of 3 and of 2 features"):
        squared_mmd(x, x[:, :2], 1.0)
    for bandwidth in (0.0, -1.0, NO, math.inf):
        with pytest.raises(InputError, match=f"bandwidth = {bandwidth} is impossible"):
            squared_mmd(x, x, bandwidth)
    with pytest.raises(InputError, match=r"rows = 0 is impossible\. Use rows ≥ 1"):
        squared_mmd(x, x, 1.0, rows=0)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("value", [NO, math.inf])
def test_features_that_are_no_rows_of_numbers_are_refused(side: int, value: float) -> None:
    bad = features(0, 4)
    bad[2, 1] = value
    with pytest.raises(InputError, match="Row 2 of the features has a value that is not finite"):
        squared_mmd(*[features(0, 4), bad][:: 1 if side else -1], 1.0)
    with pytest.raises(InputError, match=r"a row for each image; these have the shape \(4,\)"):
        squared_mmd(*[features(0, 4), bad[:, 0]][:: 1 if side else -1], 1.0)
    for measure in (median_bandwidth, lambda x: class_similarities(x, ["a", "b", "c", "d"])):
        with pytest.raises(InputError, match="Row 2 of the features"):
            measure(bad)
        with pytest.raises(InputError, match="a row for each image"):
            measure(bad[0])


def slow_median(x: Any) -> float:
    return float(np.median([np.linalg.norm(a - b) for a, b in itertools.combinations(x, 2)]))


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 1000))
@few
def test_the_bandwidth_is_the_median_distance_of_all_pairs(n: int, d: int, seed: int) -> None:
    x = features(seed, n, d)
    assert median_bandwidth(x) == pytest.approx(slow_median(x), rel=1e-12)
    assert median_bandwidth(np.round(x)[:, :1] + np.arange(n)[:, None] * 9) == pytest.approx(
        slow_median(np.round(x)[:, :1] + np.arange(n)[:, None] * 9), rel=1e-12
    )


def test_the_bandwidth_of_many_rows_is_that_of_a_sample() -> None:
    x = features(0, 400)
    found = median_bandwidth(x, sample=150)
    assert found == median_bandwidth(x, sample=150)
    assert found != median_bandwidth(x, sample=150, seed=1)
    assert found == pytest.approx(median_bandwidth(x), rel=0.1)
    # Without replacement: a row drawn twice would be at a distance of 0.
    corners = np.eye(50)
    assert median_bandwidth(corners, sample=2) == pytest.approx(math.sqrt(2))
    assert {round(median_bandwidth(corners, sample=2, seed=i), 9) for i in range(50)} == {1.414213562}


def test_the_order_of_rows_does_not_matter_to_the_bandwidth_where_all_are_taken() -> None:
    x = features(0, 40)
    assert median_bandwidth(np.random.default_rng(1).permutation(x), sample=40) == pytest.approx(
        median_bandwidth(x, sample=40)
    )


def test_bandwidths_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="at least 2 rows, not 1"):
        median_bandwidth([[1.0]])
    with pytest.raises(InputError, match="sample = 1 is impossible"):
        median_bandwidth([[1.0], [2.0]], sample=1)
    # Equal rows whose products round: their distance is 0 all the same.
    for seed in range(20):
        equal = np.repeat(features(seed, 1, 50), 9, axis=0)
        x = np.vstack([equal, features(seed, 2, 50, shift=1e3)])
        with pytest.raises(InputError, match="The median distance is 0, which no kernel can use"):
            median_bandwidth(x)


# How alike images are


def slow_similarities(x: Any, labels: Any) -> tuple[float, float]:
    same, other = [], []
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j:
                cosine = sum(x[i] * x[j]) / math.sqrt(sum(x[i] ** 2) * sum(x[j] ** 2))
                (same if labels[i] == labels[j] else other).append(cosine)
    return (float(np.mean(same)) if same else NO, float(np.mean(other)) if other else NO)


def both(found: Similarities) -> tuple[float, float]:
    return found.within, found.between


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12), st.integers(1, 4), st.integers(0, 1000))
@few
def test_similarities_agree_with_all_pairs(labels: list[str], d: int, seed: int) -> None:
    x = features(seed, len(labels), d, shift=0.3)
    expected = pytest.approx(slow_similarities(x, labels), abs=1e-12, nan_ok=True)
    assert both(class_similarities(x, labels)) == expected


@given(st.data())
@few
def test_features_can_be_added_in_parts_in_any_order(data: st.DataObject) -> None:
    labels = data.draw(st.lists(st.sampled_from(["ant", "bumblebee", "cat"]), min_size=2, max_size=15))
    x, names = features(0, len(labels)), np.array(labels)
    order = data.draw(st.permutations(range(len(labels))))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(labels)), max_size=4)))
    sums = UnitSums()
    for part in np.split(np.array(order), cuts):  # parts without a row, too
        sums.add(x[part], names[part])
    assert both(sums.similarities) == pytest.approx(
        both(class_similarities(x, labels)), abs=1e-12, nan_ok=True
    )


def test_the_lengths_of_rows_do_not_matter_to_similarities() -> None:
    x, labels = features(0, 20), [i % 3 for i in range(20)]
    found = both(class_similarities(x, labels))
    for scale in (np.geomspace(1e-5, 1e5, 20), np.geomspace(1e-280, 1e280, 20)):
        assert both(class_similarities(x * scale[:, None], labels)) == pytest.approx(found)
    assert both(class_similarities(-x, labels)) == pytest.approx(found)


def test_similarities_are_nan_where_there_are_no_such_pairs() -> None:
    x = np.ones((3, 2))
    assert both(class_similarities(x, ["a", "a", "a"])) == pytest.approx((1.0, NO), nan_ok=True)
    assert both(class_similarities(x, ["a", "b", "c"])) == pytest.approx((NO, 1.0), nan_ok=True)
    for found in (class_similarities(x[:1], ["a"]), class_similarities(x[:0], []), UnitSums().similarities):
        assert both(found) == pytest.approx((NO, NO), nan_ok=True)


def test_every_pair_counts_the_same_not_every_class() -> None:
    """Three pairs of equal images in one class, and one pair of opposite ones in the other."""
    x = [[1.0], [1.0], [1.0], [1.0], [-1.0]]
    assert class_similarities(x, list("aaabb")) == Similarities(within=0.5, between=0.0)


def test_what_has_no_similarity_is_refused_and_adds_nothing() -> None:
    sums = UnitSums()
    sums.add([[1.0, 0.0], [1.0, 1.0]], ["a", "a"])
    before = sums.similarities
    with pytest.raises(InputError, match="Row 1 of the features is all zero: it has no direction"):
        sums.add([[1.0, 0.0], [0.0, 0.0]], ["a", "b"])
    with pytest.raises(InputError, match=r"Each of 2 rows needs its label, but the labels have shape \(1,\)"):
        sums.add([[1.0, 0.0], [1.0, 0.0]], ["a"])
    with pytest.raises(InputError, match="Rows of 3 features cannot be added to rows of 2"):
        sums.add([[1.0, 0.0, 0.0]], ["a"])
    assert sums.similarities.within == before.within
    assert math.isnan(sums.similarities.between)
    with pytest.raises(InputError, match="Row 0 of the features is all zero"):
        class_similarities([[0.0]], ["a"])


# What a change of method does to classes

ACCURACIES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 7).map(lambda i: i / 7), min_size=1)


def slow_change(before: dict[str, float], after: dict[str, float]) -> tuple[float, ...]:
    better, worse, equal = [], [], 0
    for name in sorted({*before, *after}):
        if name in before and name in after:
            if math.isclose(before[name], after[name], abs_tol=1e-10):
                equal += 1
            elif after[name] > before[name]:
                better.append(after[name] - before[name])
            else:
                worse.append(before[name] - after[name])
    n = len(better) + len(worse) + equal
    gain, loss = (sum(own) / len(own) if own else 0.0 for own in (better, worse))
    return len(better) / n, equal / n, len(worse) / n, gain, loss, n


def numbers(found: ClassChange) -> tuple[float, ...]:
    return found.better, found.equal, found.worse, found.gain, found.loss, found.classes


@given(ACCURACIES, ACCURACIES)
@few
def test_changes_agree_with_classes_counted_one_by_one(before: Any, after: Any) -> None:
    assume(before.keys() & after.keys())
    found = class_change(before, after)
    assert numbers(found) == pytest.approx(slow_change(before, after), abs=1e-8)
    assert found.better + found.equal + found.worse == pytest.approx(1)
    # The mean change is what is gained less what is lost.
    common = [after[name] - before[name] for name in before if name in after]
    assert found.better * found.gain - found.worse * found.loss == pytest.approx(np.mean(common), abs=1e-8)
    back = class_change(after, before)
    assert (back.better, back.worse, back.gain, back.loss) == pytest.approx(
        (found.worse, found.better, found.loss, found.gain)
    )


def test_equal_accuracies_are_equal_however_they_were_rounded() -> None:
    assert 0.1 + 0.2 != 0.3
    assert class_change({"a": 0.3}, {"a": 0.1 + 0.2}) == ClassChange(0.0, 1.0, 0.0, 0.0, 0.0, 1)
    assert class_change({"a": 0.3}, {"a": 0.3 + 1e-8}).better == 1.0  # one image of many is a change


def test_changes_of_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="1 and 2 classes have none in common"):
        class_change({"a": 0.5}, {"b": 0.5, "c": 0.5})
    for bad in (NO, math.inf):
        with pytest.raises(InputError, match=f"accuracies 0.5 and {bad} of 'b' cannot be compared"):
            class_change({"a": 0.5, "b": 0.5}, {"a": 0.5, "b": bad})
    assert class_change({"a": 0.5}, {"a": 0.75, "b": NO}).classes == 1  # nobody compares b


@given(
    st.lists(st.lists(st.integers(0, 4).map(lambda i: i / 4), min_size=5, max_size=5), min_size=1, max_size=6)
)
@few
def test_layers_are_compared_with_the_last(table: list[list[float]]) -> None:
    found = share_better([dict(zip("abcde", row, strict=True)) for row in table])
    assert found == [sum(row[i] > table[-1][i] for i in range(5)) / 5 for row in table[:-1]]


def test_layers_need_a_last_one() -> None:
    assert share_better([{"a": 0.5}]) == []
    with pytest.raises(InputError, match="There is no last layer to compare with"):
        share_better([])


# Whether two numbers rise together


def slow_ranks(values: Any) -> list[float]:
    """How many are smaller, and half of the others that are equal."""
    return [
        sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2
        for one in values
    ]


def slow_correlation(x: Any, y: Any) -> float:
    a, b = slow_ranks(x), slow_ranks(y)
    p, q = [one - sum(a) / len(a) for one in a], [one - sum(b) / len(b) for one in b]
    product = sum(one * other for one, other in zip(p, q, strict=True))
    return product / math.sqrt(sum(one**2 for one in p) * sum(one**2 for one in q))


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-1e6, 1e6)), min_size=3, max_size=20))
@few
def test_correlations_agree_with_ranks_counted_one_by_one_and_with_scipy(pairs: Any) -> None:
    x, y = zip(*pairs, strict=True)
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    found = rank_correlation(x, y, draws=1).value
    assert found == pytest.approx(slow_correlation(x, y), abs=1e-12)
    assert found == pytest.approx(float(spearmanr(x, y).statistic), abs=1e-12)
    assert -1 <= found <= 1


@pytest.mark.parametrize("x", [[1, 2, 3, 4, 5, 6], [1, 1, 2, 2, 3, 3]], ids=["all different", "ties"])
@pytest.mark.parametrize(
    "y", [[1, 2, 3, 4, 6, 5], [2, 1, 5, 1, 4, 6], [6, 5, 4, 3, 2, 1], [1, 2, 2, 2, 2, 3]]
)
def test_the_chance_is_that_of_all_pairings(x: list[int], y: list[int]) -> None:
    """To the accuracy of 4,000 draws."""
    seen = abs(slow_correlation(x, y))
    a, b = np.array(slow_ranks(x)) - 3.5, np.array(slow_ranks(y)) - 3.5
    scale = math.sqrt(sum(a**2) * sum(b**2))
    every = [abs(sum(a * np.array(order))) / scale >= seen - 1e-12 for order in itertools.permutations(b)]
    expected = float(np.mean(every))
    error = math.sqrt(expected * (1 - expected) / 4000)
    assert rank_correlation(x, y, draws=4000).chance == pytest.approx(expected, abs=4 * error + 1 / 4000)


def test_the_pairing_seen_is_one_of_those_by_chance() -> None:
    assert rank_correlation(range(12), range(12), draws=99) == Correlation(1.0, 0.01)
    assert rank_correlation(range(12), range(12, 0, -1), draws=99) == Correlation(-1.0, 0.01)
    # A correlation of 0 is reached by every pairing.
    assert rank_correlation([1, 2, 3, 4], [2, 4, 1, 3], draws=50) == Correlation(0.0, 1.0)


def test_only_ranks_matter_to_correlations_and_pairs_may_come_in_any_order() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    y = x + rng.normal(size=30)
    found = rank_correlation(x, y, draws=200)
    assert rank_correlation(np.exp(x), y**3, draws=200) == found
    assert rank_correlation(x, -y, draws=200).value == -found.value
    order = rng.permutation(30)
    assert rank_correlation(x[order], y[order], draws=200).value == found.value
    assert rank_correlation([-math.inf, 0, math.inf], [1, 2, 3], draws=1).value == 1.0


def test_the_chance_is_the_same_each_time_and_another_for_another_seed() -> None:
    x, y = features(0, 20, 2).T
    assert rank_correlation(x, y, draws=500) == rank_correlation(x, y, draws=500)
    assert len({rank_correlation(x, y, draws=500, seed=seed).chance for seed in range(4)}) > 1


def test_constants_have_no_correlation() -> None:
    for x, y in (([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0.1, 0.1, 0.1]), ([1, 1, 1, 1], [2, 2, 2, 2])):
        found = rank_correlation(x, y)
        assert math.isnan(found.value)
        assert math.isnan(found.chance)


def test_correlations_of_what_cannot_be_are_refused() -> None:
    for x, y in (([1, 2], [1, 2]), ([1, 2, 3], [1, 2, 3, 4]), ([[1, 2, 3]], [[1, 2, 3]]), ([], [])):
        with pytest.raises(InputError, match="at least 3 numbers each"):
            rank_correlation(x, y)
    with pytest.raises(InputError, match="has no rank"):
        rank_correlation([1, 2, NO], [1, 2, 3])
    with pytest.raises(InputError, match="has no rank"):
        rank_correlation([1, 2, 3], [1, 2, NO])
    with pytest.raises(InputError, match=r"draws = 0 is impossible\. Use draws ≥ 1"):
        rank_correlation([1, 2, 3], [1, 2, 3], draws=0)


def test_a_contrast_of_two_runs_is_the_paired_difference():
    rng = np.random.default_rng(1)
    right, tasks = rng.random((2, 300)) < [[0.8], [0.6]], rng.integers(3, size=300)
    found, paired = contrast(right, (1, -1), tasks), metrics.paired_bootstrap(*right, tasks)
    assert found.value == pytest.approx(paired.value)
    assert (found.low, found.high) == pytest.approx((paired.low, paired.high), abs=0.004)
    assert found.standard_error == pytest.approx(paired.standard_error, rel=0.05)


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_a_contrast_is_what_drawing_images_one_by_one_gives(level):
    rng = np.random.default_rng(2)
    right, tasks = rng.random((3, 90)) < [[0.8], [0.6], [0.7]], np.repeat([0, 1, 2], [20, 30, 40])
    weights = np.array([1.5, -0.5, -1.0])
    found = contrast(right, weights, tasks, level=level)

    def of(images):
        return np.mean([weights @ right[:, images[tasks[images] == t]].mean(axis=1) for t in range(3)])

    draws = [
        of(np.concatenate([rng.choice(np.flatnonzero(tasks == t), (tasks == t).sum()) for t in range(3)]))
        for _ in range(2000)
    ]
    assert found.value == pytest.approx(of(np.arange(90)))
    ends = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    assert (found.low, found.high) == pytest.approx(ends, abs=0.02)
