from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, recall_score

import oracle
from layup.benchmark.metrics import (
    accuracy,
    average_accuracy,
    average_accuracy_curve,
    backward_transfer,
    band,
    bootstrap,
    confusion,
    forgetting_curve,
    mean_of_curve,
    mean_over_all_curve,
    paired_bootstrap,
    per_class_accuracy,
    sample_weighted_curve,
    sample_weighted_over_all_curve,
    standard_error,
    summary,
)
from layup.errors import InputError

TRUTH = ["cat", "cat", "cat", "dog", "eel", "eel"]
ANSWERS = ["cat", "dog", "ant", "dog", "eel", "cat"]


def test_confusion_counts_every_pair() -> None:
    labels, table = confusion(TRUTH, ANSWERS)
    assert labels == ["ant", "cat", "dog", "eel"]
    assert table.tolist() == [[0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 1, 0], [0, 1, 0, 1]]


def test_accuracy_weighs_samples_and_per_class_accuracy_weighs_classes() -> None:
    assert accuracy(TRUTH, ANSWERS) == 0.5
    assert per_class_accuracy(TRUTH, ANSWERS) == {"cat": 1 / 3, "dog": 1.0, "eel": 0.5}  # no ant was shown


@pytest.mark.parametrize("seed", range(5))
def test_metrics_agree_with_scikit_learn(seed: int) -> None:
    truth, predictions = np.random.default_rng(seed).integers(0, 7, size=(2, 80))
    assert accuracy(truth, predictions) == pytest.approx(accuracy_score(truth, predictions))
    assert list(per_class_accuracy(truth, predictions).values()) == pytest.approx(
        recall_score(truth, predictions, average=None)
    )
    np.testing.assert_array_equal(confusion(truth, predictions)[1], confusion_matrix(truth, predictions))


def test_average_accuracy_weighs_tasks_the_same() -> None:
    assert average_accuracy([0.5]) == 0.5
    assert average_accuracy([1.0, 0.5, 0.0, 0.1]) == pytest.approx(0.4)
    with pytest.raises(InputError, match="give at least one"):
        average_accuracy([])


@pytest.mark.parametrize("measure", [confusion, accuracy, per_class_accuracy])
@pytest.mark.parametrize(
    ("truth", "predictions"), [(["a"], ["a", "b"]), ([["a", "b"]], [["a", "b"]]), ([], ["a"])]
)
def test_lists_that_do_not_match_are_refused(measure: Any, truth: Any, predictions: Any) -> None:
    with pytest.raises(InputError, match="lists of one length"):
        measure(truth, predictions)


def test_the_accuracy_of_nothing_is_undefined() -> None:
    with pytest.raises(InputError, match="nothing to evaluate"):
        accuracy([], [])
    assert per_class_accuracy([], []) == {}


def test_confusion_in_a_given_order() -> None:
    labels, table = confusion(["b", "a"], ["a", "a"], ["c", "b", "a"])
    assert labels == ["c", "b", "a"]
    assert table.tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 1]]
    with pytest.raises(InputError, match="lacks 'b'"):
        confusion(["b", "a"], ["a", "a"], ["a"])


# The matrix of accuracies

NO = math.nan
CIL = np.array([[1.0, NO, NO], [0.8, 0.6, NO], [0.9, 0.4, 0.2]])
DIL = np.array([[0.5, 0.7, 0.1], [0.6, 0.5, 0.3], [0.4, 0.6, 0.8]])
SIZES = [10, 30, 60]


def test_numbers_of_class_incremental_learning_by_hand() -> None:
    assert average_accuracy_curve(CIL) == pytest.approx([1.0, 0.7, 0.5])
    # Task 1 was best at 1.0, also after task 2; task 2 at 0.6, when it was new.
    assert forgetting_curve(CIL) == pytest.approx([NO, 0.2, (0.1 + 0.2) / 2], nan_ok=True)
    assert sample_weighted_curve(CIL, SIZES) == pytest.approx([1.0, (8 + 18) / 40, (9 + 12 + 12) / 100])
    assert mean_over_all_curve(CIL) == pytest.approx([NO, NO, 0.5], nan_ok=True)
    assert sample_weighted_over_all_curve(CIL, SIZES) == pytest.approx([NO, NO, 0.33], nan_ok=True)
    assert backward_transfer(CIL) == pytest.approx((0.9 - 1.0 + 0.4 - 0.6) / 2)
    assert mean_of_curve(average_accuracy_curve(CIL)) == pytest.approx(2.2 / 3)


def test_numbers_of_domain_incremental_learning_by_hand() -> None:
    assert average_accuracy_curve(DIL) == pytest.approx([0.5, 0.55, 0.6])
    assert mean_over_all_curve(DIL) == pytest.approx([1.3 / 3, 1.4 / 3, 0.6])
    # By the letter: domain 2 was best at 0.7, before it was learned.
    assert forgetting_curve(DIL) == pytest.approx([NO, -0.1, (0.2 + 0.1) / 2], nan_ok=True)
    assert sample_weighted_over_all_curve(DIL, SIZES)[0] == pytest.approx(0.05 + 0.21 + 0.06)


def test_the_summary_names_each_number() -> None:
    found = summary(CIL, SIZES)
    assert found["average_accuracy"] == found["mean_over_all_tasks"] == pytest.approx(0.5)
    assert found["sample_weighted_accuracy"] == found["sample_weighted_over_all_tasks"] == pytest.approx(0.33)
    assert found["mean_of_average_accuracy_curve"] == pytest.approx(2.2 / 3)
    assert found["mean_of_sample_weighted_curve"] == pytest.approx((1.0 + 0.65 + 0.33) / 3)
    assert found["mean_of_all_tasks_curve"] is None  # classes not learned yet are not tested
    assert found["forgetting"] == pytest.approx(0.15)
    assert found["backward_transfer"] == pytest.approx(-0.15)
    assert summary(DIL, SIZES)["mean_of_all_tasks_curve"] == pytest.approx((1.3 / 3 + 1.4 / 3 + 0.6) / 3)


@pytest.mark.parametrize("columns", [0, 3])
def test_a_run_without_a_task_has_no_numbers(columns: int) -> None:
    empty = np.empty((0, columns))
    assert set(summary(empty, SIZES[:columns]).values()) == {None}
    assert forgetting_curve(empty).shape == (0,)


def test_one_task_has_neither_forgetting_nor_transfer() -> None:
    found = summary([[0.5]], [4])
    assert found["average_accuracy"] == 0.5
    assert found["forgetting"] is None
    assert found["backward_transfer"] is None


def test_an_unfinished_run_is_that_of_the_tasks_so_far() -> None:
    assert average_accuracy_curve(CIL[:2]) == pytest.approx([1.0, 0.7])
    assert backward_transfer(CIL[:2]) == pytest.approx(-0.2)
    assert summary(CIL[:2], SIZES)["average_accuracy"] == pytest.approx(0.7)
    assert summary(CIL[:2], SIZES)["mean_over_all_tasks"] is None


def test_a_task_without_tests_makes_the_mean_over_tasks_undefined_but_not_that_over_images() -> None:
    matrix = [[1.0, NO], [0.5, NO]]
    assert sample_weighted_curve(matrix, [4, 0]).tolist() == [1.0, 0.5]
    assert summary(matrix, [4, 0])["average_accuracy"] is None
    assert math.isnan(sample_weighted_curve([[NO]], [0])[0])


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Of finished and unfinished runs; in CIL the upper triangle is unknown, in DIL it is not."""
    tasks = draw(st.integers(1, 6))
    rows = draw(st.integers(1, tasks))
    values = draw(st.lists(st.floats(0, 1), min_size=rows * tasks, max_size=rows * tasks))
    matrix = np.array(values).reshape(rows, tasks)
    if draw(st.booleans()):
        matrix[np.triu_indices_from(matrix, 1)] = NO
    return matrix


@given(matrices(), st.data())
def test_curves_agree_with_the_formulas_read_aloud(matrix: Any, data: st.DataObject) -> None:
    rows, tasks = matrix.shape
    sizes = data.draw(st.lists(st.integers(1, 50), min_size=tasks, max_size=tasks))
    for t in range(1, rows + 1):
        assert average_accuracy_curve(matrix)[t - 1] == pytest.approx(oracle.average_accuracy(matrix, t))
        images = [matrix[t - 1, i] for i in range(t) for _ in range(sizes[i])]
        assert sample_weighted_curve(matrix, sizes)[t - 1] == pytest.approx(np.mean(images))
        if t > 1:
            assert forgetting_curve(matrix)[t - 1] == pytest.approx(oracle.forgetting(matrix, t), abs=1e-12)
    assert math.isnan(forgetting_curve(matrix)[0])


@given(matrices())
def test_where_accuracy_only_falls_transfer_is_minus_forgetting(matrix: Any) -> None:
    falling = -np.sort(-np.nan_to_num(matrix), axis=0)
    falling[np.triu_indices_from(falling, 1)] = NO
    np.testing.assert_allclose(backward_transfer(falling), -forgetting_curve(falling)[-1], atol=1e-12)


@pytest.mark.parametrize("function", [average_accuracy_curve, forgetting_curve, backward_transfer])
@pytest.mark.parametrize("matrix", [[0.5], [[0.5], [0.5]], [[[0.5]]]])
def test_matrices_of_impossible_shapes_are_refused(function: Any, matrix: Any) -> None:
    with pytest.raises(InputError, match="a row for each task learned"):
        function(matrix)


@pytest.mark.parametrize("sizes", [[1, 2], [1, 2, -3], []])
def test_sizes_that_do_not_fit_are_refused(sizes: list[int]) -> None:
    with pytest.raises(InputError, match="3 tasks need as many sizes"):
        sample_weighted_curve(CIL, sizes)


def test_standard_error_and_bands() -> None:
    assert standard_error([1.0, 2.0, 4.0]) == pytest.approx(np.std([1, 2, 4], ddof=1) / np.sqrt(3))
    assert math.isnan(standard_error([0.5]))
    assert math.isnan(standard_error([0.5, NO]))
    with pytest.raises(InputError, match="at least one value"):
        standard_error([])
    single = band([[NO, 0.5]])
    assert np.isnan(single.error).all()
    for curves in ([], [[1.0], [1.0, 2.0]], [1.0, 2.0]):
        with pytest.raises(InputError, match="curves of one length"):
            band(curves)
    with pytest.raises(InputError, match="A curve is a list"):
        mean_of_curve(CIL)


# Error bars over test images


def exact(right: list[Any], strata: list[int], by_image: bool) -> dict[float, float]:
    """The whole distribution of a bootstrap: every way to draw images, all equally likely."""
    tasks = sorted(set(strata))
    images = [[i for i, task in enumerate(strata) if task == each] for each in tasks]
    found: dict[float, float] = {}
    ways = [list(itertools.product(own, repeat=len(own))) for own in images]
    for drawn in itertools.product(*ways):
        value = 0.0
        for chosen in drawn:
            weight = len(chosen) / len(strata) if by_image else 1 / len(tasks)
            runs = [np.mean([run[i] for i in chosen]) for run in right]
            value += weight * (runs[0] - (runs[1] if len(runs) > 1 else 0.0))
        value = round(value, 9)
        found[value] = found.get(value, 0) + 1 / math.prod(map(len, ways))
    return found


def moments(distribution: dict[float, float]) -> tuple[float, float]:
    mean = sum(value * chance for value, chance in distribution.items())
    return mean, math.sqrt(sum(chance * (value - mean) ** 2 for value, chance in distribution.items()))


STRATA = [0, 0, 1, 1, 1]
A = [True, False, True, True, False]
B = [True, True, False, False, False]


@pytest.mark.parametrize("by_image", [False, True])
@pytest.mark.parametrize("runs", [[A], [A, B]], ids=["one run", "a pair"])
def test_counts_are_distributed_as_those_of_resampled_images(runs: Any, by_image: bool) -> None:
    """Against every possible resample of five images, to the accuracy of 200,000 draws."""
    measure: Any = bootstrap if len(runs) == 1 else paired_bootstrap
    mean, deviation = moments(exact(runs, STRATA, by_image))
    for level in (0.5, 0.8, 0.95):
        found = measure(*runs, STRATA, by_image=by_image, draws=200_000, level=level)
        assert found.value == pytest.approx(mean)
        assert found.standard_error == pytest.approx(deviation, rel=0.01)
        chances = exact(runs, STRATA, by_image)
        outside = sum(p for x, p in chances.items() if x < found.low - 1e-6 or x > found.high + 1e-6)
        assert outside <= 1 - level + 0.01
        inside = sum(p for x, p in chances.items() if found.low + 1e-6 < x < found.high - 1e-6)
        assert inside <= level + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("by_image", [False, True])
def test_the_bootstrap_agrees_with_resampling_images(by_image: bool) -> None:
    rng = np.random.default_rng(0)
    strata = np.repeat([3, 7, 8], [40, 100, 60])
    a, b = rng.random(200) < 0.8, rng.random(200) < 0.7
    for runs, found in (
        ([a], bootstrap(a, strata, by_image=by_image)),
        ([a, b], paired_bootstrap(a, b, strata, by_image=by_image)),
    ):
        naive = oracle.bootstrap(runs, strata, 4000, rng, by_image)
        assert found.standard_error == pytest.approx(naive.std(), rel=0.05)
        assert [found.low, found.high] == pytest.approx(np.quantile(naive, [0.025, 0.975]), abs=0.007)


def test_pairing_makes_the_error_smaller_where_runs_agree() -> None:
    """Two runs that differ only in five images differ surely, however hard the images are."""
    rng = np.random.default_rng(1)
    a = rng.random(400) < 0.5
    b = a.copy()
    b[np.flatnonzero(a)[:5]] = False
    strata = np.arange(400) % 4
    found = paired_bootstrap(a, b, strata)
    assert found.value == pytest.approx(5 / 400)
    assert found.standard_error < bootstrap(a, strata).standard_error / 3
    assert paired_bootstrap(a, a, strata).high == 0


def test_the_bootstrap_gives_the_same_numbers_each_time_and_others_for_another_seed() -> None:
    assert paired_bootstrap(A, B, STRATA) == paired_bootstrap(A, B, STRATA)
    right = np.random.default_rng(0).random(500) < 0.7
    strata = np.arange(500) % 3
    assert bootstrap(right, strata).standard_error != bootstrap(right, strata, seed=1).standard_error


def test_the_bootstrap_of_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="True or False"):
        bootstrap([0.5, 1.0], [0, 0])
    with pytest.raises(InputError, match="at least one image"):
        bootstrap([], [])
    with pytest.raises(InputError, match="are not pairs"):
        paired_bootstrap(A, A[:2], STRATA)
    with pytest.raises(InputError, match="needs its task"):
        bootstrap(A, STRATA[:2])
    for options in ({"draws": 0}, {"level": 0.0}, {"level": 1.0}):
        with pytest.raises(InputError, match="impossible"):
            bootstrap(A, STRATA, **options)
