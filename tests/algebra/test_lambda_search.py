from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

import oracle
from layup.algebra import lambda_search
from layup.algebra.lambda_grid import LAMBDAS, Grid, LambdaSearch
from layup.algebra.lambda_search import search_blocks, search_lambda
from layup.algebra.statistics import GramStatistics
from layup.errors import InputError

SHAPES = {"few samples": ([7, 9, 8], 60), "as many": ([10, 5, 5], 20), "many samples": ([30, 45, 25], 12)}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def batches(rng: np.random.Generator, sizes: list[list[int]], dim: int) -> list[tuple[Any, Any]]:
    return [oracle.blobs(rng, counts, dim, spread=3.0) for counts in sizes]


CURRICULA = {
    "one batch": ([[12, 12, 12]], 30),
    "new classes": ([[12, 12, 0, 0], [0, 0, 12, 12]], 20),
    "old classes return": ([[9, 9, 0], [0, 8, 9], [5, 0, 6]], 15),
    "fewer samples than dimensions": ([[6, 6, 0, 0], [0, 0, 7, 5]], 50),
    "imbalanced": ([[40, 4, 9, 0], [5, 0, 31, 13]], 40),
    "classes of one to three": ([[20, 1, 2, 3], [3, 15, 1, 1, 2]], 20),
    "one class": ([[9]], 6),
}


WAYS = {"as it sees fit": lambda_search.LARGE_FOLD, "folds together": np.inf, "folds apart": 0.0}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("curriculum", CURRICULA)
def test_search_sees_what_its_loop_by_loop_twin_sees(
    curriculum: str, balance: bool, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lambda_search, "LARGE_FOLD", WAYS[way])
    sizes, dim = CURRICULA[curriculum]
    history, past = GramStatistics(dim), None
    for x, y in batches(np.random.default_rng(5), sizes, dim):
        found = search_lambda(history, x, y, balance=balance)
        expected = oracle.search(past, x, y, balance)
        assert found is not None
        assert list(found.accuracies.values()) == list(expected.values())
        assert list(found.accuracies) == pytest.approx(list(expected))
        assert found.best == pytest.approx(oracle.best(expected))
        history.update(x, y)
        past = (x, y) if past is None else (np.concatenate([past[0], x]), np.concatenate([past[1], y]))
        if found.weights is not None:
            weights = oracle.classifier(*past, found.best, balance)[1]
            np.testing.assert_allclose(found.weights, weights, rtol=1e-7, atol=1e-9)


SIZES = ("one", "classes", "seen classes", "samples of a fold", "dimensions", "any")
KINDS = [
    *product(("few samples", "many samples"), SIZES, (False, True)),
    *product(("folds apart",), ("classes", "any"), (False, True)),  # λ by λ: no size can coincide with theirs
]
"""How the search is to go, how many λ there are, and whether classes are balanced."""
LEAD = 1e-6
"""In parts of a score: well above the rounding of both twins, for λ from 1e-3 and sums of some thousands."""


@dataclass
class Case:
    """A batch, what was learned before it, and the λ and blocks to search: sizes that coincide."""

    past: tuple[Any, Any] | None
    x: Any
    y: Any
    layers: dict[str, int]
    grid: list[float]

    @classmethod
    def drawn(cls, rng: np.random.Generator, classes: int, way: str, size: str) -> Case:
        """Of so many classes; some may be in the history alone, and some be left out with their fold."""
        counts = rng.choice([1, 2, 3], size=(2, classes), p=[0.6, 0.3, 0.1])
        counts[0] *= rng.integers(2)
        counts[1] *= (counts[0] == 0) | rng.integers(2, size=classes)
        counts[1, rng.integers(classes)] = rng.integers(4, 7)
        (past_x, past_y), (x, y) = (oracle.blobs(rng, each.tolist(), 200, spread=2.0) for each in counts)
        fold = oracle.folds(y)[0]
        known = [*past_y, *np.delete(y, fold)]
        dim = {
            "few samples": len(known) + rng.integers(1, 4),
            "many samples": rng.integers(1, min(len(known), 30) + 1),
            "folds apart": rng.integers(1, 40),
        }[way]
        count = {
            "one": 1,
            "classes": classes,
            "seen classes": len({*known}),
            "samples of a fold": len(fold),
            "dimensions": dim,
            "any": rng.integers(2, 18),
        }[size]
        first = int(rng.integers(dim)) if size == "any" else 0
        layers = {"shallow": first, "deep": int(dim) - first} if first else {"all": int(dim)}
        past = (past_x[:, :dim], past_y) if len(past_y) else None
        return cls(past, x[:, :dim], y, layers, (10 ** rng.uniform(-3, 3, count)).tolist())

    @property
    def blocks(self) -> dict[str, list[str]]:
        """Each layer alone, and all."""
        return {**{name: [name] for name in self.layers}, "all": [*self.layers]}

    def found(self, balance: bool) -> dict[str, LambdaSearch]:
        history = GramStatistics(self.layers)
        if self.past is not None:
            history.update(*self.past)
        return search_blocks(
            history, self.x, self.y, self.blocks, balance=balance, grid=Grid(tuple(self.grid))
        )

    def expected(self, block: str, balance: bool) -> tuple[dict[float, Fraction], float]:
        """What the twin finds with these layers only, and by how much its predictions lead."""
        span = GramStatistics(self.layers).span(self.blocks[block])
        past = None if self.past is None else (self.past[0][:, span], self.past[1])
        return oracle.search_and_lead(past, self.x[:, span], self.y, balance, self.grid)


@pytest.mark.slow
@pytest.mark.parametrize(
    "classes",
    [1, 2, 3, 4, 8, *(pytest.param(each, marks=pytest.mark.slow) for each in (5, 6, 7, *range(9, 41)))],
)
def test_no_coincidence_of_sizes_misleads_the_search(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a matrix for each λ, and its sides are classes, samples or dimensions: any may be equal."""
    rng = np.random.default_rng(classes)
    clear = ambiguous = 0
    with threadpool_limits(1):  # threads would wait for each other
        for way, size, balance in KINDS:
            monkeypatch.setattr(lambda_search, "LARGE_FOLD", 0.0 if way == "folds apart" else np.inf)
            case = Case.drawn(rng, classes, way, size)
            for block, found in case.found(balance).items():
                expected, lead = case.expected(block, balance)
                if lead > LEAD:
                    assert found.accuracies == expected
                    clear += 1
                else:
                    ambiguous += 1  # rounding may decide either way
    assert clear >= len(KINDS)
    assert ambiguous <= 2


def test_every_way_of_searching_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """By G, by the kernel of few samples, and apart: the curricula and sizes decide."""
    taken = []
    for owner, name in (
        (lambda_search._Whole, "of_few"),
        (lambda_search._Whole, "of_many"),
        (lambda_search._Apart, "of"),
    ):
        original = getattr(owner, name)

        def noted(*args: Any, original: Any = original, name: str = name) -> Any:
            taken.append(name)
            return original(*args)

        monkeypatch.setattr(owner, name, noted)
    for curriculum in CURRICULA.values():
        history = GramStatistics(curriculum[1])
        for x, y in batches(np.random.default_rng(5), *curriculum):
            search_lambda(history, x, y)
            history.update(x, y)
    assert {*taken} == {"of_few", "of_many", "of"}


BLOCKS = {
    "within all": {"last": ["c"], "last two": ["b", "c"], "all": ["a", "b", "c"], "middle": ["b"]},
    "within two": {"last": ["c"], "first": ["a"], "last two": ["b", "c"]},
    "apart": {"first": ["a"], "middle": ["b"], "last": ["c"]},
}


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("side", ["a thread for each", "all threads for each"])
@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_are_searched_as_if_there_were_no_other_layers(
    kind: str, side: str, balance: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those with more dimensions than samples, with fewer, and with so few that folds are searched apart."""
    if side == "all threads for each":
        monkeypatch.setattr(lambda_search, "SIDE_BY_SIDE", 0)
    threads = torch.get_num_threads()
    history = GramStatistics({"a": 60, "b": 15, "c": 9})
    for x, y in batches(np.random.default_rng(5), [[9, 9, 0, 0], [0, 9, 8, 0], [6, 0, 0, 9]], 84):
        found = search_blocks(history, x, y, BLOCKS[kind], balance=balance)
        assert list(found) == list(BLOCKS[kind])
        for name, layers in BLOCKS[kind].items():
            alone = search_lambda(history.select(layers), x[:, history.span(layers)], y, balance=balance)
            assert found[name] == alone
            if alone is not None and alone.weights is not None:
                np.testing.assert_allclose(found[name].weights, alone.weights, rtol=1e-7, atol=1e-9)
        history.update(x, y)
    assert torch.get_num_threads() == threads


def test_blocks_without_a_class_of_four_are_not_searched() -> None:
    history = GramStatistics({"a": 2, "b": 2})
    assert search_blocks(history, np.eye(4), np.array(list("wxyz")), {"last": ["b"]}) == {}


def test_large_features_and_small_lambdas_are_searched_as_their_singular_values_say() -> None:
    """Fewer samples than dimensions, where G + λI cannot be told from G: the twin factorises the features."""
    rng = np.random.default_rng(2)
    history, past = GramStatistics(80), None
    for sizes in ([9, 8, 0, 0], [0, 0, 9, 8]):
        x, y = oracle.blobs(rng, sizes, 80, spread=3.0)
        x *= 100
        found, expected = search_lambda(history, x, y), oracle.search(past, x, y)
        assert found is not None
        assert list(found.accuracies.values()) == list(expected.values())
        history.update(x, y)
        past = x, y


@pytest.mark.parametrize("way", ["few samples", "many samples", "folds apart"])
@pytest.mark.parametrize("balance", [False, True])
def test_features_that_overflow_end_the_search_in_a_sentence(
    way: str, balance: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lambda_search, "LARGE_FOLD", 0.0 if way == "folds apart" else np.inf)
    dim = 60 if way == "few samples" else 6
    x, y = oracle.blobs(np.random.default_rng(1), [8, 8], dim)
    with pytest.raises(
        InputError, match="not finite numbers" if way == "few samples" else "must fit into float64"
    ):
        search_lambda(GramStatistics(dim), 1e200 * x, y, balance=balance)


def test_photos_that_come_twice_can_be_searched() -> None:
    """In the same fold and in different ones: the kernel is singular, and a fold predicts itself."""
    for dim in (8, 60):
        x, y = oracle.blobs(np.random.default_rng(4), [8, 8], dim, spread=2.0)
        x, y = np.concatenate([x, x[:6], x[:2]]), np.concatenate([y, y[:6], y[:2]])
        found, expected = search_lambda(GramStatistics(dim), x, y), oracle.search(None, x, y)
        assert found is not None
        assert list(found.accuracies.values()) == list(expected.values())


def test_the_curricula_can_tell_a_wrong_search_from_a_right_one() -> None:
    """λ matters in them, and the best is not always the largest."""
    accuracies = [
        oracle.search(None, *batches(np.random.default_rng(5), *CURRICULA[name])[0])
        for name in ("new classes", "imbalanced")
    ]
    assert min(len(set(found.values())) for found in accuracies) >= 5
    assert min(map(oracle.best, accuracies)) < 10


def test_the_grid_is_the_papers() -> None:
    assert len(LAMBDAS) == 16
    np.testing.assert_allclose(LAMBDAS, oracle.SIXTEEN, rtol=1e-15)


SCALES = {"tiny": 2e-5, "small": 1e-3, "usual": 1.0, "large": 30.0, "huge": 100.0}
"""By how much features are multiplied: this moves the best λ, by its square, beyond both ends of the grid."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize(
    "scale",
    ["tiny", "usual", "huge", *(pytest.param(each, marks=pytest.mark.slow) for each in ("small", "large"))],
)
def test_the_wide_search_sees_what_its_loop_by_loop_twin_sees(
    scale: str, balance: bool, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lambda_search, "LARGE_FOLD", WAYS[way])
    with threadpool_limits(1):
        for name in ("new classes", "imbalanced"):
            sizes, dim = CURRICULA[name]
            history, past = GramStatistics(dim), None
            for x, y in batches(np.random.default_rng(5), sizes, dim):
                x *= SCALES[scale]
                found = search_lambda(history, x, y, balance=balance, grid=Grid(widen=True))
                expected = oracle.wide_search(past, x, y, balance)
                assert found is not None
                assert list(found.accuracies) == pytest.approx(list(expected))
                assert list(found.accuracies.values()) == list(expected.values())
                assert found.best == pytest.approx(oracle.best(expected))
                history.update(x, y)
                past = (x, y)
                if found.weights is not None and len(history.labels) == len({*y}):
                    weights = oracle.classifier(x, y, found.best, balance)[1]
                    np.testing.assert_allclose(found.weights, weights, rtol=1e-6, atol=1e-9 / SCALES[scale])


def test_the_scales_lead_the_wide_search_beyond_both_ends_and_into_the_gap() -> None:
    """Otherwise the twins would agree that nothing is to be done."""
    winners = []
    for scale in SCALES.values():
        for name in ("new classes", "imbalanced"):
            x, y = batches(np.random.default_rng(5), *CURRICULA[name])[0]
            found = oracle.wide_search(None, scale * x, y)
            winners.append(oracle.best(found))
    assert min(winners) < 1e-8
    assert max(winners) > 1e3
    assert any(1e-8 < lam < 1e-4 for lam in winners)


@pytest.mark.parametrize("scale", SCALES.values())
def test_the_wide_search_is_at_least_as_accurate_as_the_papers(scale: float) -> None:
    x, y = oracle.blobs(np.random.default_rng(3), [12, 12, 12], 40, spread=3.0)
    grids = Grid(), Grid(widen=True)
    paper, wide = (search_lambda(GramStatistics(40), scale * x, y, grid=grid) for grid in grids)
    assert paper is not None
    assert wide is not None
    assert wide.accuracies.items() >= paper.accuracies.items()
    assert wide.highest >= paper.highest
    assert wide.best == paper.best if wide.highest == paper.highest else wide.best not in LAMBDAS


def test_blocks_are_widened_each_by_itself() -> None:
    x, y = oracle.blobs(np.random.default_rng(3), [12, 12, 12], 40, spread=3.0)
    x[:, 20:] *= 1e-5
    history = GramStatistics({"a": 20, "b": 20})
    found = search_blocks(history, x, y, {"a": ["a"], "b": ["b"]}, grid=Grid(widen=True))
    alone = search_lambda(GramStatistics(20), x[:, 20:], y, grid=Grid(widen=True))
    assert found["b"] == alone
    assert found["a"] == search_lambda(GramStatistics(20), x[:, :20], y, grid=Grid(widen=True))


def test_equal_accuracies_go_to_the_larger_lambda() -> None:
    half = Fraction(1, 2)
    assert LambdaSearch({1e-8: half, 10.0: half, 0.1: half, 100.0: Fraction(49, 100)}).best == 10.0
    easy = np.repeat(np.eye(3), 4, axis=0)
    found = search_lambda(GramStatistics(3), easy, np.repeat(["a", "b", "c"], 4))
    assert found is not None
    assert set(found.accuracies.values()) == {Fraction(1)}
    assert found.best == 1e3


def test_accuracies_are_exact_so_that_rounding_breaks_no_tie(rng: np.random.Generator) -> None:
    """13 samples make folds of 4, 3, 3, 3: sums of thirds and quarters that floats would round."""
    x, y = oracle.blobs(rng, [13], dim=3)
    found = search_lambda(GramStatistics(3), x, y)
    assert found is not None
    assert set(found.accuracies.values()) == {Fraction(1)}
    assert all(isinstance(accuracy, Fraction) for accuracy in found.accuracies.values())


def test_folds_weigh_the_same_whatever_their_size() -> None:
    """One of nine samples is wrong, in the fold of three: the mean is 11/12 and not 8/9."""
    x = np.array([[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 4)
    y = np.array(["a"] * 5 + ["b"] * 4)
    x[0] = [0.0, 1.0]  # the first fold holds rows 0, 1 and 5
    found = search_lambda(GramStatistics(2), x, y)
    assert found is not None
    assert set(found.accuracies.values()) == {Fraction(11, 12)}


def test_a_class_absent_from_a_folds_training_part_cannot_be_predicted_there() -> None:
    """The single sample of "b" is right in no λ; with "b" in the history it is."""
    x = np.array([[1.0, 0.0]] * 4 + [[0.0, 1.0]])
    y = np.array(["a"] * 4 + ["b"])
    history = GramStatistics(2)
    found = search_lambda(history, x, y)
    assert found is not None
    assert set(found.accuracies.values()) == {Fraction(7, 8)}
    history.update([[0.0, 1.0]], ["b"])
    found = search_lambda(history, x, y)
    assert found is not None
    assert set(found.accuracies.values()) == {Fraction(1)}


def test_search_depends_on_the_order_given_and_on_nothing_random(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [13, 11, 12], dim=10, spread=2.0)
    first, again = (search_lambda(GramStatistics(10), x, y) for _ in range(2))
    assert first == again
    order = rng.permutation(len(y))
    assert first != search_lambda(GramStatistics(10), x[order], y[order])


@pytest.mark.parametrize("counts", [[3, 3, 3], [1], [1] * 30, [3, 2, 1]])
def test_without_four_samples_of_any_class_there_is_nothing_to_search(counts: list[int]) -> None:
    x, y = oracle.blobs(np.random.default_rng(0), counts, dim=5)
    assert search_lambda(GramStatistics(5), x, y) is None


def test_searching_changes_neither_the_history_nor_the_batch(rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [8, 8], dim=5)
    history = GramStatistics(5)
    history.update(x, y)
    before = history.gram.tobytes(), history.prototypes.tobytes(), x.tobytes(), y.tobytes()
    search_lambda(history, x, y, balance=True)
    assert (history.gram.tobytes(), history.prototypes.tobytes(), x.tobytes(), y.tobytes()) == before


@pytest.mark.parametrize("shape", SHAPES)
def test_a_search_in_float32_is_near_that_of_float64(shape: str) -> None:
    counts, dim = SHAPES[shape]
    x, y = oracle.blobs(np.random.default_rng(3), counts, dim, 2.0)
    double, single = (search_lambda(GramStatistics(dim, each), x, y) for each in ("float64", "float32"))
    assert double is not None
    assert single is not None
    for lam, accuracy in double.accuracies.items():
        assert float(single.accuracies[lam]) == pytest.approx(float(accuracy), rel=0.02, abs=0.02)


@pytest.mark.parametrize(
    "count", [1, lambda_search.STRIP, lambda_search.STRIP + 1, 3 * lambda_search.STRIP - 7]
)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_inner_products_by_strips_are_those_of_all_columns(count: int, batch: tuple[int, ...]) -> None:
    columns = torch.from_numpy(np.random.default_rng(count).normal(size=(*batch, 5, count)))
    found = lambda_search._inner(columns)
    torch.testing.assert_close(found, columns.mT @ columns, rtol=1e-12, atol=1e-12)
    end = lambda_search.STRIP
    assert torch.equal(found[..., :end, end:], found[..., end:, :end].mT)  # copied


def test_a_singular_system_has_the_smallest_solution(rng: np.random.Generator) -> None:
    half = rng.normal(size=(3, 6, 2))
    singular = half @ half.transpose(0, 2, 1)
    singular[0] = np.diag([1.0, 1.0, 0.0, 0.0, 0.0, -1e-18])  # rounding has made it indefinite
    right = singular @ rng.normal(size=(3, 6, 4))
    found = lambda_search._solved(torch.from_numpy(singular), torch.from_numpy(right)).numpy()
    for matrix, wanted, solution in zip(singular, right, found, strict=True):
        np.testing.assert_allclose(solution, np.linalg.lstsq(matrix, wanted, rcond=1e-12)[0], atol=1e-9)
