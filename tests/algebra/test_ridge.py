from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oracle
from layup.algebra.ridge import Solution, Spectrum, eigenpairs, equations, solve, square_root
from layup.algebra.statistics import GramStatistics
from layup.errors import InputError

EPS = np.finfo(np.float64).eps


def taught(x: Any, y: Any) -> GramStatistics:
    sums = GramStatistics(x.shape[1])
    sums.update(x, y)
    return sums


def spectrum(x: Any, y: Any, balance: bool = False) -> Spectrum:
    sums = taught(x, y)
    return Spectrum.of(*equations(sums, balance), sums.total)


def relative_error(found: Any, expected: Any) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


# ---- solving

SHAPES = {"few samples": ([7, 9, 8], 60), "as many": ([10, 5, 5], 20), "many samples": ([30, 45, 25], 12)}


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("lam", [0.0, 1e-8, 1e-4, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_are_those_of_the_oracle_on_all_data(
    shape: str, lam: float, balance: bool, rng: np.random.Generator
) -> None:
    counts, dim = SHAPES[shape]
    x, y = oracle.blobs(rng, counts, dim)
    labels, weights = oracle.classifier(x, y, lam, balance)
    sums = taught(x, y)
    assert sums.labels == labels
    # Where Cholesky is used, rounding in the directions without samples grows as ‖G‖/λ.
    tolerance = 1e-9 + (EPS * np.trace(sums.gram) / lam if lam and shape == "few samples" else 0)
    assert relative_error(Solution(sums, lam, balance).weights, weights) < tolerance
    assert relative_error(spectrum(x, y, balance).weights(lam), weights) < 1e-9


@pytest.mark.parametrize("shape", SHAPES)
def test_lambda_zero_means_the_minimum_norm_solution(shape: str, rng: np.random.Generator) -> None:
    counts, dim = SHAPES[shape]
    x, y = oracle.blobs(rng, counts, dim)
    weights = Solution(taught(x, y), 0.0, False).weights
    np.testing.assert_allclose(weights, np.linalg.pinv(x) @ oracle.one_hot(y)[1], atol=1e-10)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_repeated_and_empty_columns_do_no_harm(scale: float, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [30, 30], dim=4)
    x = scale * np.concatenate([x, x[:, :2], np.zeros((60, 3))], axis=1)  # rank 4 of 9
    targets = oracle.one_hot(y)[1]
    for lam in (0.0, 1e-16 * scale**2):
        weights = Solution(taught(x, y), lam, False).weights
        assert relative_error(weights, np.linalg.lstsq(x, targets, rcond=None)[0]) < 1e-9


def test_small_lambda_is_right_where_a_plain_solve_is_not(rng: np.random.Generator) -> None:
    """Fewer samples than dimensions and features of some size: G + λI cannot be told from G."""
    x, y = oracle.blobs(rng, [10, 10, 10], dim=120)
    x *= 100
    test, lam = 100 * rng.normal(size=(50, 120)), 1e-8
    scores = test @ oracle.classifier(x, y, lam)[1]
    sums = taught(x, y)
    assert relative_error(test @ Solution(sums, lam, False).weights, scores) < 1e-9
    naive = np.linalg.solve(sums.gram + lam * np.eye(120), sums.prototypes.T)
    assert relative_error(test @ naive, scores) > 0.01
    single = (sums.gram + lam * np.eye(120)).astype(np.float32)
    naive = np.linalg.solve(single, sums.prototypes.T.astype(np.float32))
    assert relative_error(test @ naive, scores) > 1.0


def test_weights_go_to_those_of_lambda_zero_without_a_jump(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [8, 8], dim=40)
    sums = taught(x, y)
    at_zero = Solution(sums, 0.0, False).weights
    for lam in np.geomspace(1e-16, 1e-7, 19):  # across the switch from eigenvalues to Cholesky
        assert relative_error(Solution(sums, lam, False).weights, at_zero) < 1 / 40


def test_forgetting_down_to_few_samples_leaves_a_solvable_system(rng: np.random.Generator) -> None:
    """What subtracting large sums leaves in the empty directions is above the rounding of the small rest."""
    x, y = oracle.blobs(rng, [8, 8], dim=40)
    past_x, past_y = oracle.blobs(rng, [2000, 2000], dim=40)
    sums, test = taught(x, y), rng.normal(size=(30, 40))
    joint = taught(np.concatenate([x, 30 * past_x]), np.concatenate([y, past_y]))
    joint.revert(30 * past_x, past_y)
    for lam in (None, 0.0, 1e-4):
        expected, found = Solution(sums, lam, False), Solution(joint, lam, False)
        assert found.lambda_ == pytest.approx(expected.lambda_, rel=1e-3)
        assert relative_error(test @ found.weights, test @ expected.weights) < 1e-3


def test_sums_whose_rounding_is_negative_are_solved_all_the_same() -> None:
    gram = np.diag([4.0, 1.0, -1e-9])  # as subtracting can leave it
    weights = solve(gram, np.array([[2.0, 1.0, 1e-9]]), total=2, lam=1e-10)
    np.testing.assert_allclose(weights.ravel(), [0.5, 1.0, 0.0], atol=1e-8)


def test_sums_of_zeros_have_zero_weights() -> None:
    sums = taught(np.zeros((4, 3)), list("aabb"))
    for lam in (None, 0.0, 1.0):
        for balance in (False, True):
            assert not Solution(sums, lam, balance).weights.any()
    assert Solution(sums, None, False).lambda_ == 1.0


@pytest.mark.parametrize("dim", [1, 2, 60])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_sums_that_are_not_finite_are_refused(precision: str, value: float, dim: int) -> None:
    gram, prototypes = np.eye(dim, dtype=precision), np.ones((2, dim), precision)
    for bad in ((np.full_like(gram, value), prototypes), (gram, np.full_like(prototypes, value))):
        for total in (1, 100):
            for refuse in (
                lambda bad=bad, total=total: solve(*bad, total, 1.0),
                lambda bad=bad, total=total: solve(*bad, total, 0.0),
                lambda bad=bad, total=total: Spectrum.of(*bad, total),
            ):
                with pytest.raises(InputError, match="not finite numbers"):
                    refuse()
    with pytest.raises(InputError, match="not finite numbers"):
        eigenpairs(np.full_like(gram, value))


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1e-58, 1e58])
def test_features_near_the_limits_are_solved_as_others(
    scale: float, shape: str, balance: bool, rng: np.random.Generator
) -> None:
    """Weights are as many times smaller as features and √λ are larger."""
    counts, dim = SHAPES[shape]
    x, y = oracle.blobs(rng, counts, dim)
    for lam in (None, 0.0, 1e-3):
        expected = Solution(taught(x, y), lam, balance)
        found = Solution(taught(scale * x, y), lam and lam * scale**2, balance)
        assert found.lambda_ == pytest.approx(expected.lambda_ * scale**2, rel=1e-3)
        assert relative_error(found.weights * scale, expected.weights) < 1e-3


# ---- factorising samples instead of sums


@pytest.mark.parametrize("shape", SHAPES)
def test_the_spectrum_of_samples_is_that_of_their_sums(shape: str, rng: np.random.Generator) -> None:
    counts, dim = SHAPES[shape]
    x, y = oracle.blobs(rng, counts, dim)
    targets = oracle.one_hot(y)[1]
    found, expected = Spectrum.of_samples(x, targets), spectrum(x, y)
    assert found.total == expected.total
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(len(found.values)), atol=1e-9)
    np.testing.assert_allclose(x.T @ x @ found.vectors, found.vectors * found.values, atol=1e-9)
    np.testing.assert_allclose(found.targets, found.vectors.T @ x.T @ targets, atol=1e-9)
    for lam in (0.0, 1e-8, 1e-3, 1.0, 1e4):
        np.testing.assert_allclose(found.weights(lam), oracle.ridge(x, targets, lam), atol=1e-9)
        np.testing.assert_allclose(found.weights(lam), expected.weights(lam), atol=1e-9)
        assert found.gcv(lam + 1e-3) == pytest.approx(expected.gcv(lam + 1e-3), rel=1e-7)


def test_samples_of_which_some_repeat_have_a_spectrum(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [6, 6], dim=40)
    x, y = np.concatenate([x, x[:4]]), np.concatenate([y, y[:4]])
    targets = oracle.one_hot(y)[1]
    found = Spectrum.of_samples(x, targets)
    assert len(found.values) == 12
    for lam in (0.0, 1e-8, 1.0):
        assert relative_error(found.weights(lam), oracle.ridge(x, targets, lam)) < 1e-7


@pytest.mark.parametrize("shape", SHAPES)
def test_a_square_root_has_the_sums_it_is_made_of_and_no_more_rows_than_samples(
    shape: str, rng: np.random.Generator
) -> None:
    counts, dim = SHAPES[shape]
    x, y = oracle.blobs(rng, counts, dim)
    x[:, 3] = x[:, 4]  # one dimension less
    x[1], y[1] = x[0], y[0]  # and one sample
    sums = taught(x, y)
    rows, targets = square_root(sums.gram, sums.prototypes, sums.total)
    assert len(rows) == len(targets) == min(len(x) - 1, dim - 1)
    np.testing.assert_allclose(rows.T @ rows, sums.gram, atol=1e-9)
    np.testing.assert_allclose(targets.T @ rows, sums.prototypes, atol=1e-9)
    # They do not reveal the samples: no row is one, and each mixes many.
    near = np.abs(rows @ x.T) / np.outer(np.linalg.norm(rows, axis=1), np.linalg.norm(x, axis=1))
    assert len(x) == 1 or near.max() < 1 - 1e-6


def test_the_square_root_of_nothing_has_no_rows() -> None:
    rows, targets = square_root(np.zeros((4, 4)), np.zeros((0, 4)), 0)
    assert (rows.shape, targets.shape) == ((0, 4), (0, 0))


# ---- float32


def in_single(x: Any, y: Any) -> GramStatistics:
    sums = GramStatistics(x.shape[1], "float32")
    sums.update(x, y)
    return sums


@pytest.mark.parametrize("balance", [False, True])
def test_float32_is_a_plain_solve_in_float32(balance: bool, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [30, 45, 25], dim=12)
    sums = in_single(x, y)
    for lam in (0.0, 1e-3, 1.0):
        weights = Solution(sums, lam, balance).weights
        assert weights.dtype == np.float32
        gram, prototypes = equations(sums, balance)
        assert gram.dtype == prototypes.dtype == np.float32
        naive = np.linalg.solve(gram + np.float32(lam) * np.eye(12, dtype=np.float32), prototypes.T)
        np.testing.assert_allclose(weights, naive, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(weights, oracle.classifier(x, y, lam, balance)[1], rtol=1e-2, atol=1e-4)


def test_float32_collapses_where_float64_does_not() -> None:
    """As in the paper's Table 3: fewer samples than dimensions, features of some size, and λ = 1."""
    rng = np.random.default_rng(0)
    x, y = oracle.blobs(rng, [8] * 10, dim=400, spread=0.2)
    test_x, test_y = oracle.blobs(rng, [20] * 10, dim=400, spread=0.2)
    right = {}
    for precision in ("float64", "float32"):
        sums = GramStatistics(400, precision)
        sums.update(300 * x, y)
        scores = 300 * test_x @ Solution(sums, 1.0, False).weights
        right[precision] = np.mean(np.array(sums.labels)[scores.argmax(axis=1)] == test_y)
    assert right["float64"] == 1
    assert right["float32"] < 0.8


@pytest.mark.parametrize("balance", [False, True])
def test_a_singular_matrix_in_float32_gives_numbers_of_some_kind(balance: bool) -> None:
    rng = np.random.default_rng(0)
    for x in (
        np.zeros((4, 3)),
        np.ones((4, 3)),
        np.repeat(np.eye(2), 2, axis=0),
        *(
            rng.normal(size=(1, 12)) * 10 ** rng.uniform(-15, 7, (4, 1)) * [[1], [1], [0], [1]]
            for _ in range(100)
        ),
    ):
        for lam in (None, 0.0, 1e-8, 1.0):
            weights = Solution(in_single(x.clip(-1e7, 1e7), list("aaab")), lam, balance).weights
            assert weights.dtype == np.float32
            assert np.isfinite(weights).all()
    assert not Solution(in_single(np.zeros((4, 3)), list("aabb")), 0.0, False).weights.any()


@pytest.mark.parametrize("shape", SHAPES)
def test_gcv_in_float32_is_near_that_of_float64(shape: str) -> None:
    counts, dim = SHAPES[shape]
    x, y = oracle.blobs(np.random.default_rng(3), counts, dim, 2.0)
    exact, found = Solution(taught(x, y), None, False), Solution(in_single(x, y), None, False)
    assert found.lambda_ == pytest.approx(exact.lambda_, rel=0.05)
    assert relative_error(found.weights, exact.weights) < 0.02


# ---- balance


def test_balanced_equations_are_the_formula(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [40, 3, 1, 11], dim=7)
    gram, prototypes = equations(taught(x, y), balance=True)
    expected_gram, expected_prototypes = oracle.balanced_sums(x, y)
    np.testing.assert_allclose(gram, expected_gram, rtol=1e-11)
    np.testing.assert_allclose(prototypes, expected_prototypes, rtol=1e-11)
    assert (gram == gram.T).all()


def test_the_oracles_balanced_data_has_the_balanced_sums(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [40, 3, 1, 11], dim=7)
    rows, targets = oracle.balanced_data(x, y)
    gram, prototypes = oracle.balanced_sums(x, y)
    np.testing.assert_allclose(rows.T @ rows, gram, rtol=1e-11)
    np.testing.assert_allclose(targets.T @ rows, prototypes, rtol=1e-11)
    assert (targets**2).sum() == pytest.approx(len(y))


def test_balancing_equal_classes_changes_nothing(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [9, 9, 9], dim=7)
    sums = taught(x, y)
    gram, prototypes = equations(sums, balance=True)
    np.testing.assert_array_equal(gram, sums.gram)
    np.testing.assert_allclose(prototypes, sums.prototypes, rtol=1e-15)


def test_balancing_without_any_class_is_possible() -> None:
    gram, prototypes = equations(GramStatistics(3), balance=True)
    assert (gram.shape, prototypes.shape) == ((3, 3), (0, 3))


def test_balance_helps_small_classes(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [400, 400, 8, 8], dim=16, spread=2.5)
    test_x, test_y = oracle.blobs(rng, [200] * 4, dim=16, spread=2.5)
    small = (test_y == "c02") | (test_y == "c03")
    recall, overall = {}, {}
    for balance in (False, True):
        sums = taught(x, y)
        scores = test_x @ Solution(sums, 1.0, balance).weights
        right = np.array(sums.labels)[scores.argmax(axis=1)] == test_y
        recall[balance], overall[balance] = right[small].mean(), right.mean()
    assert recall[True] > recall[False] + 0.2
    assert overall[True] > overall[False] + 0.05


# ---- λ by generalised cross-validation


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_gcv_is_the_textbook_definition_on_all_data(shape: str, balance: bool) -> None:
    counts, dim = SHAPES[shape]
    for seed in range(5):  # rounding falls on the good side half of the time
        x, y = oracle.blobs(np.random.default_rng(seed), counts, dim)
        rows, targets = oracle.balanced_data(x, y) if balance else (x, oracle.one_hot(y)[1])
        found = spectrum(x, y, balance)
        for lam in np.geomspace(1e-2, 1e4, 13):
            assert found.gcv(lam) == pytest.approx(oracle.gcv(rows, targets, lam), rel=1e-8)


def test_gcv_keeps_its_digits_as_lambda_vanishes() -> None:
    """With K = XXᵀ invertible, N − tr H = λ tr (K + λI)⁻¹ and Y − HY = λ (K + λI)⁻¹ Y: λ drops out."""
    for seed in range(8):
        x, y = oracle.blobs(np.random.default_rng(seed), [9, 8, 10], dim=60)
        inverse = np.linalg.inv(x @ x.T)
        limit = len(x) * ((inverse @ oracle.one_hot(y)[1]) ** 2).sum() / np.trace(inverse) ** 2
        for lam in (1e-10, 1e-8, 1e-6):
            assert spectrum(x, y).gcv(lam) == pytest.approx(limit, rel=1e-6)


@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_best_gcv_is_the_minimum_over_a_dense_grid(shape: str, spread: float) -> None:
    counts, dim = SHAPES[shape]
    x, y = oracle.blobs(np.random.default_rng(3), counts, dim, spread)
    targets, top = oracle.one_hot(y)[1], np.linalg.norm(x, 2) ** 2
    free = [lam for lam in np.geomspace(1e-7 * top, top, 150) if oracle.freedom(x, lam) >= 0.1 * len(x)]
    lowest = min(oracle.gcv(x, targets, lam) for lam in free)
    lam = Solution(taught(x, y), None, False).lambda_
    assert 0 < lam <= top * (1 + 1e-9)
    # Where the freedom binds, our grid meets it within an eighth of a decade.
    assert oracle.gcv(x, targets, lam) <= lowest * (1.02 if shape == "few samples" else 1 + 1e-6)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_samples_that_come_twice_do_not_make_gcv_collapse(times: int) -> None:
    """Their twins predict them however small λ is: without care the best λ would be none at all."""
    x, y = oracle.blobs(np.random.default_rng(5), [20, 20, 20], dim=200, spread=2.0)
    plain = Solution(taught(x, y), None, False).lambda_
    again = np.concatenate([x, x[:times]]), np.concatenate([y, y[:times]])
    assert plain / 2 < Solution(taught(*again), None, False).lambda_ < 2 * plain
    nearly = np.concatenate([x, x[:times] * 1.001]), again[1]
    assert plain / 10 < Solution(taught(*nearly), None, False).lambda_ < 2 * plain
    twice = Solution(taught(np.concatenate([x, x]), np.concatenate([y, y])), None, False).lambda_
    assert twice == pytest.approx(2 * plain, rel=1e-3)


def test_gcv_finds_more_shrinkage_where_there_is_more_noise(rng: np.random.Generator) -> None:
    found = [
        Solution(taught(*oracle.blobs(rng, [40, 40, 40], 12, spread)), None, False).lambda_
        for spread in (0.5, 2.0, 8.0)
    ]
    assert found == sorted(found)
    assert found[2] > 10 * found[0]


def test_gcv_is_the_same_whatever_way_the_samples_came(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [30, 5, 17], dim=10, spread=2.0)
    more_x, more_y = oracle.blobs(rng, [4, 4, 4, 20], dim=10, spread=2.0)
    expected = Solution(taught(x, y), None, True).lambda_
    batches, forgotten = GramStatistics(10), taught(x, y)
    for row in rng.permutation(len(y)):
        batches.update(x[[row]], y[[row]])
    forgotten.update(more_x, more_y)
    forgotten.revert(more_x, more_y)
    for sums in (batches, taught(x[20:], y[20:]) + taught(x[:20], y[:20]), forgotten):
        assert Solution(sums, None, True).lambda_ == pytest.approx(expected, rel=1e-4)
    assert Solution(taught(more_x, more_y), None, True).lambda_ != pytest.approx(expected, rel=1e-2)


def test_one_sample_is_enough_for_gcv() -> None:
    solution = Solution(taught(np.array([[3.0, 4.0]]), ["a"]), None, False)
    assert 0 < solution.lambda_ <= 25
    assert np.isfinite(solution.weights).all()
