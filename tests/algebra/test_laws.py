"""The laws of sums, each in one sentence, for all that is made of sums.

They hold to float64 rounding for the sums, and for predictions at a given λ. ("search" looks at a batch once
more, in its order, and may choose another λ; it obeys the laws that are not of the algebra.)
"""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import clone

import oracle
from layup import NearestMeanClassifier, RidgeClassifier
from layup.algebra import class_sums, statistics
from layup.algebra.auto import AutoClassifier
from layup.algebra.class_covariances import ClassCovariancesClassifier
from layup.algebra.class_moments import ClassMoments
from layup.algebra.class_sums import ClassSums
from layup.algebra.discriminant import DiscriminantClassifier
from layup.algebra.ridge_classifier import HeldOutRidgeClassifier
from layup.algebra.statistics import GramStatistics
from layup.algebra.truncated import TruncatedClassifier

ALGEBRAIC = [
    AutoClassifier(),
    *(RidgeClassifier(lam, balance=b) for lam in ("gcv", 0, 1.0) for b in (False, True)),
    *(NearestMeanClassifier(metric) for metric in ("cosine", "euclidean")),
    DiscriminantClassifier(),
    TruncatedClassifier(),
    DiscriminantClassifier("oas", balance=True),
    ClassCovariancesClassifier(),
]
SEARCHING = [RidgeClassifier("search"), HeldOutRidgeClassifier("search")]
every_sums = pytest.mark.parametrize("kind", [ClassSums, GramStatistics, ClassMoments])
every_algebraic = pytest.mark.parametrize("model", ALGEBRAIC, ids=repr)
every_classifier = pytest.mark.parametrize("model", [*ALGEBRAIC, *SEARCHING], ids=repr)

LAYERS = {"shallow": 3, "middle": 5, "deep": 4}
DIM = 12


def batches() -> list[tuple[Any, Any]]:
    """Three batches: new classes in each, some of the first return in the last; 71 samples."""
    rng = np.random.default_rng(1)
    return [
        oracle.blobs(rng, counts, DIM, 1.5) for counts in ([12, 9, 0, 0, 0], [0, 0, 14, 6], [7, 0, 2, 0, 21])
    ]


def everything() -> tuple[Any, Any]:
    parts = batches()
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def taught(kind: type[ClassSums], *parts: tuple[Any, Any]) -> Any:
    sums = kind(LAYERS)
    for x, y in parts:
        sums.update(x, y)
    return sums


def fitted(model: Any, *parts: tuple[Any, Any]) -> Any:
    model = clone(model)
    for x, y in parts:
        model.partial_fit(x, y)
    return model


def assert_same_sums(a: ClassSums, b: ClassSums) -> None:
    """Equal labels and counts, and sums equal to rounding."""
    assert a.labels == b.labels
    assert a.counts.tolist() == b.counts.tolist()
    for name, array in oracle.held(b).items():
        np.testing.assert_allclose(getattr(a, name), array, rtol=1e-9, atol=1e-9)


def assert_same_answers(a: Any, b: Any) -> None:
    test = 2 * np.random.default_rng(2).normal(size=(100, DIM))
    assert a.classes_.tolist() == b.classes_.tolist()
    np.testing.assert_allclose(a.scores(test), b.scores(test), rtol=1e-5, atol=1e-7)
    assert a.predict(test).tolist() == b.predict(test).tolist()


def bits(sums: ClassSums) -> bytes:
    """Everything that sums hold, as bytes."""
    return pickle.dumps(copy.deepcopy((sums.labels, sums.layers, oracle.held(sums))))


# ---- the algebra


@every_sums
def test_learning_order_does_not_matter_to_the_sums(kind: type[ClassSums]) -> None:
    first, second, third = batches()
    expected = taught(kind, first, second, third)
    assert_same_sums(taught(kind, third, first, second), expected)
    x, y = everything()
    order = np.random.default_rng(3).permutation(len(y))
    assert_same_sums(taught(kind, (x[order], y[order])), expected)


@every_algebraic
def test_learning_order_does_not_matter_to_the_predictions(model: Any) -> None:
    first, second, third = batches()
    assert_same_answers(fitted(model, third, first, second), fitted(model, first, second, third))


@every_sums
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_one_batch_or_many_give_the_same_sums(
    kind: type[ClassSums], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = everything()
    expected = taught(kind, (x, y))
    batches = [(x[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]
    assert_same_sums(taught(kind, *batches), expected)
    monkeypatch.setattr(class_sums, "CHUNK", size)
    assert_same_sums(taught(kind, (x, y)), expected)


@every_algebraic
def test_one_batch_or_many_give_the_same_predictions(model: Any) -> None:
    x, y = everything()
    single = [(x[[i]], y[[i]]) for i in range(len(y))]
    assert_same_answers(fitted(model, *single), clone(model).fit(x, y))


@every_sums
def test_merged_shards_equal_joint_learning(kind: type[ClassSums]) -> None:
    shards = [taught(kind, batch) for batch in batches()]
    assert_same_sums(shards[2] + shards[0] + shards[1], taught(kind, everything()))


@every_algebraic
def test_merged_shards_give_the_predictions_of_joint_learning(model: Any) -> None:
    first, second, third = batches()
    merged = fitted(model, first)
    for shard in (third, second):
        merged.absorb(fitted(model, shard).statistics_)
    assert_same_answers(merged, clone(model).fit(*everything()))


@every_sums
def test_models_grown_from_one_base_are_merged_by_taking_the_base_out_once(kind: type[ClassSums]) -> None:
    base, second, third = batches()
    merged = taught(kind, base, second) + taught(kind, base, third) - taught(kind, base)
    assert_same_sums(merged, taught(kind, base, second, third))


@every_sums
def test_reverting_undoes_updating(kind: type[ClassSums]) -> None:
    first, second, third = batches()
    sums = taught(kind, first, second, third)
    sums.revert(*second)
    assert_same_sums(sums, taught(kind, first, third))
    sums.revert(third[0][::-1], third[1][::-1])
    assert_same_sums(sums, taught(kind, first))


@every_algebraic
def test_after_reverting_predictions_are_those_of_one_who_never_learned_it(model: Any) -> None:
    first, second, third = batches()
    assert_same_answers(fitted(model, first, second, third).revert(*second), fitted(model, first, third))


@every_sums
@pytest.mark.parametrize("names", [["deep"], ["shallow", "deep"], ["deep", "middle"], list(LAYERS)])
def test_selecting_layers_equals_learning_with_those_layers(kind: type[ClassSums], names: list[str]) -> None:
    columns = {"shallow": range(3), "middle": range(3, 8), "deep": range(8, 12)}
    chosen = [column for name in names for column in columns[name]]
    x, y = everything()
    expected = kind({name: LAYERS[name] for name in names})
    expected.update(x[:, chosen], y)
    assert_same_sums(taught(kind, (x, y)).select(names), expected)


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("lam", [0, 1e-4, 1.0, 100.0])
def test_continual_ridge_is_joint_ridge_on_all_data(lam: float, balance: bool) -> None:
    x, y = everything()
    test = np.random.default_rng(2).normal(size=(100, DIM))
    labels, weights = oracle.classifier(x, y, lam, balance)
    model = fitted(RidgeClassifier(lam, balance=balance), *batches())
    assert model.classes_.tolist() == labels
    np.testing.assert_allclose(model.scores(test), test @ weights, atol=1e-10)
    assert model.predict(test).tolist() == oracle.predict(labels, weights, test)


def test_the_last_batch_alone_decides_on_the_searched_lambda_and_all_batches_on_the_rest() -> None:
    parts = batches()
    model = fitted(RidgeClassifier("search"), *parts)
    x, y = everything()
    seen = len(y) - len(parts[2][1])
    assert model.lambda_ == pytest.approx(oracle.best(oracle.search((x[:seen], y[:seen]), *parts[2])))
    assert_same_answers(model, fitted(RidgeClassifier(model.lambda_), (x, y)))


# ---- what does not change


@every_classifier
def test_predicting_changes_nothing(model: Any) -> None:
    parts = batches()
    model, silent = fitted(model, *parts[:2]), fitted(model, *parts[:2])
    before, test = bits(model.statistics_), parts[0][0].copy()
    for _ in range(2):
        model.predict(test)
        model.decision_function(test)
    assert bits(model.statistics_) == before
    assert test.tobytes() == parts[0][0].tobytes()
    model.partial_fit(*parts[2])
    silent.partial_fit(*parts[2])
    assert bits(model.statistics_) == bits(silent.statistics_)
    assert model.predict(test).tolist() == silent.predict(test).tolist()


@every_classifier
def test_predictions_do_not_depend_on_what_else_is_in_the_batch(model: Any) -> None:
    model = fitted(model, *batches())
    test = np.random.default_rng(4).normal(size=(50, DIM))
    scores, predictions = model.scores(test), model.predict(test)
    for i in range(50):
        np.testing.assert_allclose(model.scores(test[[i]])[0], scores[i], rtol=1e-11, atol=1e-11)
        assert model.predict(test[[i]])[0] == predictions[i]
    assert model.predict(np.concatenate([1e6 * test, test[::-1]]))[50:].tolist() == predictions[::-1].tolist()


@every_sums
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_sums_do_not_alias_the_input(kind: type[ClassSums], dtype: Any) -> None:
    x, y = np.eye(DIM, dtype=dtype), np.arange(DIM)  # one sample a class: each sum is a sample
    sums = taught(kind, (x, y))
    before = bits(sums)
    x[:], y[:] = 7, 7
    assert bits(sums) == before
    part = taught(kind, (np.ones((1, DIM)), [99]))
    merged = sums + part
    before = bits(merged)
    part.prototypes[:], sums.prototypes[:] = 5, 5
    assert bits(merged) == before


@every_classifier
def test_a_classifier_does_not_alias_the_input(model: Any) -> None:
    x, y = everything()
    model = clone(model).fit(x, y)
    test = x.copy()
    before = model.scores(test)
    x[:], y[:] = 7, "c00"
    np.testing.assert_array_equal(model.scores(test), before)


@every_classifier
def test_a_new_class_may_arrive_at_any_time_and_an_old_one_may_return(model: Any) -> None:
    corners = 10 * np.eye(DIM)
    model = clone(model).partial_fit(corners[[5] * 4], ["m"] * 4)
    for corner, label in ((2, "z"), (7, "a"), (2, "z"), (0, "n"), (5, "m")):
        model.partial_fit(corners[[corner] * 4], [label] * 4)
        assert model.predict(corners[[corner]]).tolist() == [label]
    assert model.classes_.tolist() == ["a", "m", "n", "z"]
    assert model.statistics_.counts.tolist() == [4, 8, 4, 8]
    assert model.predict(corners[[7, 5, 0, 2]]).tolist() == ["a", "m", "n", "z"]


@every_classifier
def test_saved_and_loaded_sums_are_equal_to_the_bit_and_so_are_their_predictions(
    model: Any, tmp_path: Path
) -> None:
    model = fitted(model, *batches())
    model.statistics_.save(tmp_path / "s.layup")
    twin, loaded = clone(model), type(model.statistics_).load(tmp_path / "s.layup")
    assert bits(loaded) == bits(model.statistics_)
    if model.__dict__.get("lam") == "search":
        twin.adopt(loaded, model.lambda_)
    else:
        twin.adopt(loaded)
    test = np.random.default_rng(4).normal(size=(50, DIM))
    np.testing.assert_array_equal(twin.scores(test), model.scores(test))
    assert twin.predict(test).tolist() == model.predict(test).tolist()


@every_classifier
def test_the_same_input_gives_the_same_result_to_the_bit(model: Any) -> None:
    one, other = fitted(model, *batches()), fitted(model, *batches())
    assert bits(one.statistics_) == bits(other.statistics_)
    test = np.random.default_rng(4).normal(size=(50, DIM))
    assert one.scores(test).tobytes() == other.scores(test).tobytes()


# ---- memory


@every_sums
def test_memory_does_not_grow_with_samples(kind: type[ClassSums]) -> None:
    def peak(samples: int) -> tuple[int, int]:
        x = np.random.default_rng(0).normal(size=(samples, 64)).astype(np.float32)
        y = np.arange(samples) % 10
        sums = kind(64)
        tracemalloc.start()
        sums.update(x, y)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest, sums.nbytes

    few, many = peak(5_000), peak(20_000)
    assert many[1] == few[1]
    assert many[0] < 1.1 * few[0]
    assert many[0] < 20_000 * 64 * 8  # less than the samples in float64


@every_algebraic
def test_a_classifier_keeps_no_samples(model: Any) -> None:
    x, y = oracle.blobs(np.random.default_rng(0), [30, 30], DIM)
    model = clone(model).partial_fit(x, y)

    def size() -> int:
        return len(pickle.dumps(copy.deepcopy(vars(model.statistics_))))

    model.statistics_.state()
    before = size(), model.statistics_.nbytes
    for _ in range(50):
        model.partial_fit(x, y)
    assert size() < before[0] + 1.1 * statistics.PENDING * DIM * 8  # some may wait to be added to G
    model.statistics_.state()  # but none in a file
    # Counts are kept in eight bytes, whatever they are.
    assert (size(), model.statistics_.nbytes) == before


# ---- the algebra again, on whatever hypothesis can think of


@st.composite
def samples(draw: st.DrawFn) -> tuple[Any, Any]:
    """Up to eight samples of three integer features: sums of these are exact, so equal means equal."""
    size = draw(st.integers(0, 8))
    rows = st.lists(st.integers(-1000, 1000), min_size=3, max_size=3)
    x = draw(st.lists(rows, min_size=size, max_size=size))
    y = draw(st.lists(st.sampled_from(["ant", "bee", "cat", "dog"]), min_size=size, max_size=size))
    return np.array(x, np.float64).reshape(size, 3), np.array(y, dtype="<U3")


def exact(kind: type[ClassSums], *parts: tuple[Any, Any]) -> Any:
    sums = kind({"shallow": 1, "deep": 2})
    for x, y in parts:
        sums.update(x, y)
    return sums


def equal(a: ClassSums, b: ClassSums) -> bool:
    same = all(np.array_equal(array, getattr(b, name)) for name, array in oracle.held(a).items())
    return same and a.labels == b.labels and a.layers == b.layers


lawful = settings(derandomize=True, deadline=None, max_examples=60)


@every_sums
@lawful
@given(a=samples(), b=samples(), c=samples())
def test_addition_is_commutative_and_associative(kind: type[ClassSums], a: Any, b: Any, c: Any) -> None:
    p, q, r = exact(kind, a), exact(kind, b), exact(kind, c)
    assert equal(p + q, q + p)
    assert equal((p + q) + r, p + (q + r))


@every_sums
@lawful
@given(a=samples(), b=samples())
def test_addition_is_learning_and_empty_sums_are_its_zero(kind: type[ClassSums], a: Any, b: Any) -> None:
    assert equal(exact(kind, a) + exact(kind, b), exact(kind, a, b))
    assert equal(exact(kind, a) + exact(kind), exact(kind, a))
    assert equal(exact(kind, a).copy(), exact(kind, a))


@every_sums
@lawful
@given(a=samples(), b=samples())
def test_subtraction_is_the_inverse_of_addition(kind: type[ClassSums], a: Any, b: Any) -> None:
    p, q = exact(kind, a), exact(kind, b)
    assert equal((p + q) - q, p)
    assert equal(p - p, exact(kind))
    both = p + q
    both.revert(*a)
    assert equal(both, q)


@every_sums
@lawful
@given(a=samples(), b=samples())
def test_sums_are_aligned_by_label(kind: type[ClassSums], a: Any, b: Any) -> None:
    both = exact(kind, a) + exact(kind, b)
    x, y = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
    assert both.labels == sorted(set(y.tolist()))
    for label, count, total in zip(both.labels, both.counts, both.prototypes, strict=True):
        assert count == (y == label).sum()
        assert total.tolist() == x[y == label].sum(axis=0).tolist()


@every_sums
@lawful
@given(a=samples(), b=samples(), names=st.sampled_from([["deep"], ["shallow"], ["deep", "shallow"]]))
def test_selecting_layers_goes_through_addition(
    kind: type[ClassSums], a: Any, b: Any, names: list[str]
) -> None:
    p, q = exact(kind, a), exact(kind, b)
    assert equal((p + q).select(names), p.select(names) + q.select(names))


@lawful
@given(parts=st.lists(samples(), min_size=1, max_size=4))
def test_g_stays_symmetric_and_without_negative_directions(parts: list[Any]) -> None:
    sums = exact(GramStatistics, *parts)
    assert (sums.gram == sums.gram.T).all()
    slack = 1e-12 * (1 + np.trace(sums.gram))
    assert np.linalg.eigvalsh(sums.gram).min() >= -slack
    if sums.labels:
        assert np.linalg.eigvalsh(sums.within_class_scatter()).min() >= -slack


# ---- classes that change their name, or go


NAMES = ["ant", "bee", "cat", "dog"]


@every_sums
@lawful
@given(
    a=samples(),
    b=samples(),
    old=st.sampled_from(NAMES),
    new=st.sampled_from([*NAMES, "a much longer name"]),
)
def test_renaming_a_class_equals_learning_with_the_new_name(
    kind: type[ClassSums], a: Any, b: Any, old: str, new: str
) -> None:
    sums = exact(kind, a, b)
    if old not in sums.labels:
        return
    renamed = [(x, np.where(y == old, new, y)) for x, y in (a, b)]
    before = bits(sums)
    assert equal(sums.renamed(old, new), exact(kind, *renamed))
    assert bits(sums) == before


@lawful
@given(a=samples(), b=samples(), label=st.sampled_from(NAMES))
def test_a_class_dropped_with_its_own_g_was_never_learned(a: Any, b: Any, label: str) -> None:
    sums = exact(GramStatistics, a, b)
    if label not in sums.labels:
        return
    others = [(x[y != label], y[y != label]) for x, y in (a, b)]
    own = np.concatenate([x[y == label] for x, y in (a, b)])
    before = bits(sums)
    without = sums.without_class(label, own)
    assert equal(without, exact(GramStatistics, *others))
    assert without.leftover == 0
    assert equal(exact(ClassSums, a, b).without_class(label), exact(ClassSums, *others))
    assert bits(sums) == before


@lawful
@given(a=samples(), b=samples(), label=st.sampled_from(NAMES))
def test_without_its_g_the_sum_and_count_of_a_class_are_dropped_and_g_stays(
    a: Any, b: Any, label: str
) -> None:
    sums = exact(GramStatistics, a, b)
    if label not in sums.labels or len(sums.labels) == 1:
        return
    without = sums.without_class(label)
    assert equal(exact(ClassSums, a, b).without_class(label), select_sums(without))
    assert np.array_equal(without.gram, sums.gram)
    count = int(sums.counts[sums.labels.index(label)])
    assert (without.leftover, without.samples) == (count, sums.total)
    assert (without + sums).leftover == count
    assert without.select(["deep"]).leftover == count


def select_sums(sums: GramStatistics) -> ClassSums:
    """The same without G."""
    header, arrays = sums.state()
    header.pop("leftover", None)
    return ClassSums.from_state(header, {"prototypes": arrays["prototypes"]})


@pytest.mark.parametrize("dim", [8, 60])
@pytest.mark.parametrize("lam", [0, 1e-8, 1.0, "gcv"])
@pytest.mark.parametrize("balance", [False, True])
def test_what_is_left_of_a_dropped_class_has_targets_of_zero(dim: int, lam: Any, balance: bool) -> None:
    """More samples than dimensions, and fewer: no direction of G may be lost to a count that is too small."""
    x, y = oracle.blobs(np.random.default_rng(5), [12, 9, 14], dim, 1.5)
    model = RidgeClassifier(lam, balance=balance).fit(x, y)
    model.adopt(model.statistics_.without_class("c01"))
    rest, own = y != "c01", y == "c01"
    rows, targets = (
        oracle.balanced_data(x[rest], y[rest]) if balance else (x[rest], oracle.one_hot(y[rest])[1])
    )
    rows, targets = np.concatenate([rows, x[own]]), np.concatenate([targets, np.zeros((9, 2))])
    if lam == "gcv":
        best = oracle.gcv(rows, targets, model.lambda_)
        floor = 0.1 * (35 if dim == 8 else np.linalg.matrix_rank(rows))
        grid = [each for each in np.geomspace(1e-6, 1e6, 49) if oracle.freedom(rows, each) >= floor]
        assert best <= min(oracle.gcv(rows, targets, each) for each in grid) * (1 + 1e-6)
    weights = oracle.ridge(rows, targets, model.lambda_)
    test = np.random.default_rng(2).normal(size=(50, dim))
    np.testing.assert_allclose(model.scores(test), test @ weights, rtol=1e-5, atol=1e-8)
