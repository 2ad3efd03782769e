from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import oracle
from layup import storage
from layup.algebra import class_sums, samples, statistics
from layup.algebra.class_moments import ClassMoments
from layup.algebra.class_sums import ClassSums
from layup.algebra.statistics import GramStatistics
from layup.algebra.symmetric import Triangle
from layup.errors import (
    DamagedFileError,
    ForgetError,
    InputError,
    MismatchError,
    StorageError,
    UnknownNameError,
)

SIX = {f"blocks.{i}": 768 for i in range(6, 12)}


def taught(x: Any, y: Any, layers: Any = None) -> GramStatistics:
    sums = GramStatistics(x.shape[1] if layers is None else layers)
    sums.update(x, y)
    return sums


def bits(sums: ClassSums) -> dict[str, Any]:
    """Everything that sums hold, comparable bit by bit."""
    state = {name: value.tobytes() for name, value in oracle.held(sums).items()}
    return {**state, "labels": list(sums.labels), "layers": list(sums.layers.items())}


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return oracle.blobs(rng, [5, 1, 9, 3], dim=6)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


# ---- the sums


def test_sums_are_those_of_a_loop_over_samples(data: Any) -> None:
    sums = taught(*data)
    gram, prototypes, counts = oracle.sums(*data)
    assert sums.labels == sorted(counts)
    assert sums.counts.tolist() == [counts[label] for label in sums.labels]
    assert sums.total == 18
    np.testing.assert_allclose(sums.prototypes, [prototypes[label] for label in sums.labels], rtol=1e-13)
    np.testing.assert_allclose(sums.gram, gram, rtol=1e-13)
    assert (sums.gram == sums.gram.T).all()


@pytest.mark.parametrize(
    "labels",
    [
        [3, 1, 2, 3],
        ["dog", "ant", "cat", "dog"],
        [True, False, False, True],
        [2.5, -1.0, 0.0, 2.5],
        [7, 7, 7, 7],
    ],
)
def test_labels_of_any_type_are_kept_sorted_as_python_objects(labels: list[Any]) -> None:
    sums = taught(np.arange(8.0).reshape(4, 2), labels)
    assert sums.labels == sorted(set(labels))
    assert [type(label) for label in sums.labels] == [type(label) for label in sorted(set(labels))]
    assert sums.counts.tolist() == [labels.count(label) for label in sums.labels]


@pytest.mark.parametrize(
    "features",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], np.uint8),
        np.array([[1, 2], [3, 4]], np.float16),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]),
        np.array([[1.0, 9.0, 2.0], [3.0, 9.0, 4.0]])[:, ::2],
    ],
    ids=["list", "uint8", "float16", "tensor", "fortran", "strided"],
)
def test_numbers_of_every_kind_are_summed_in_float64(features: Any) -> None:
    sums = GramStatistics(2)
    sums.update(features, ["a", "b"])
    assert sums.gram.dtype == sums.prototypes.dtype == np.float64
    assert sums.gram.tolist() == [[10.0, 14.0], [14.0, 20.0]]
    assert sums.prototypes.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_float32_samples_do_not_lose_digits_in_the_sum() -> None:
    x = np.full((3, 1), 4097.0, np.float32)  # 4097² needs 25 bits: one more than float32 has
    assert taught(x, ["a"] * 3).gram.item() == 3 * 4097**2


def test_a_batch_without_samples_changes_nothing(data: Any) -> None:
    sums = taught(*data)
    before = bits(sums)
    sums.update(np.zeros((0, 6)), [])
    sums.revert(np.zeros((0, 6)), [])
    assert bits(sums) == before


def test_scatter_within_classes_is_measured_around_their_means(data: Any) -> None:
    x, y = data
    scatter = np.zeros((6, 6))
    for label in set(y.tolist()):
        centred = x[y == label] - x[y == label].mean(axis=0)
        scatter += centred.T @ centred
    np.testing.assert_allclose(taught(x, y).within_class_scatter(), scatter, atol=1e-12)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_diagonal_of_g_holds_what_waits_and_what_does_not(data: Any, precision: str) -> None:
    x, y = data
    sums = GramStatistics(6, precision)
    assert sums.diagonal.tolist() == [0.0] * 6
    sums.update(x[:9], y[:9])  # all of them wait
    np.testing.assert_allclose(sums.diagonal, (x[:9] ** 2).sum(axis=0), rtol=1e-5)
    sums.state()  # none waits
    np.testing.assert_array_equal(sums.diagonal, np.diagonal(sums.gram))
    sums.update(x[9:], y[9:])  # some wait
    np.testing.assert_allclose(sums.diagonal, np.diagonal(sums.gram), rtol=1e-6)
    np.testing.assert_allclose(sums.diagonal, (x**2).sum(axis=0), rtol=1e-5)
    before = sums.gram.copy()
    sums.diagonal[:] = 7
    np.testing.assert_array_equal(sums.gram, before)
    assert sums.trace == pytest.approx(sums.diagonal.sum(), rel=1e-6)


def test_memory_is_that_of_one_matrix_and_a_row_for_each_class(data: Any) -> None:
    assert taught(*data).nbytes == 8 * (6 * 6 + 4 * 6 + 4)
    sums = ClassSums(6)
    sums.update(*data)
    assert sums.nbytes == 8 * (4 * 6 + 4)
    wide = taught(np.ones((2, 3000)), ["a", "b"])
    assert wide.nbytes < 8 * (0.55 * 3000**2 + 2 * 3000 + 2)  # one triangle is enough


# ---- precision


@pytest.mark.parametrize("kind", [ClassSums, GramStatistics, ClassMoments])
def test_sums_in_float32_stay_so_whatever_is_done_with_them(
    kind: type[ClassSums], data: Any, tmp_path: Path
) -> None:
    x, y = data
    sums = kind({"shallow": 2, "deep": 4}, "float32")
    sums.update(x[:10], y[:10])
    whole = sums + sums
    whole.update(x[10:], y[10:])
    whole.save(tmp_path / "s.layup")
    reverted = whole.copy()
    reverted.revert(x[10:], y[10:])
    for each in (
        sums,
        whole,
        whole - sums,
        whole.select(["deep"]),
        kind.load(tmp_path / "s.layup"),
        reverted,
    ):
        arrays = {name: array.dtype.name for name, array in oracle.held(each).items()}
        assert arrays.pop("counts") == "int64"
        assert set(arrays.values()) == {each.precision} == {"float32"}
    exact = kind({"shallow": 2, "deep": 4})
    exact.update(x, y)
    exact.update(x[:10], y[:10])
    assert whole.labels == exact.labels
    for name in arrays:
        np.testing.assert_allclose(getattr(whole, name), getattr(exact, name), rtol=1e-5, atol=1e-5)
    assert 2 * (whole.nbytes - whole.counts.nbytes) == exact.nbytes - exact.counts.nbytes
    assert bits(kind.load(tmp_path / "s.layup")) == bits(whole)


def test_float32_sums_lose_the_digits_that_float32_has_not() -> None:
    sums = GramStatistics(1, "float32")
    sums.update(np.full((3, 1), 4097.0, np.float32), ["a"] * 3)
    assert sums.gram.item() != 3 * 4097**2


def test_sums_of_different_precision_are_not_combined(data: Any) -> None:
    mine, theirs = taught(*data), GramStatistics(6, "float32")
    before = bits(mine)
    with pytest.raises(MismatchError, match="kept in float64 and in float32"):
        mine + theirs
    assert bits(mine) == before
    with pytest.raises(UnknownNameError, match=r"Unknown precision 'float16'\. Known: float64, float32"):
        GramStatistics(6, "float16")


# ---- the algebra


def test_adding_and_subtracting_leave_their_operands_alone(data: Any) -> None:
    x, y = data
    a, b = taught(x, y), taught(x[:5], y[:5])
    before = bits(a), bits(b)
    both, rest, twin = a + b, a - b, a.copy()
    for sums in (both, rest, twin):
        sums.update(x, y)
    assert (bits(a), bits(b)) == before


def test_merging_aligns_by_label() -> None:
    a = taught(np.array([[1.0], [2.0]]), ["b", "d"])
    b = taught(np.array([[10.0], [20.0], [30.0]]), ["c", "b", "a"])
    both = a + b
    assert both.labels == ["a", "b", "c", "d"]
    assert both.counts.tolist() == [1, 2, 1, 1]
    assert both.prototypes.ravel().tolist() == [30.0, 21.0, 10.0, 2.0]
    assert both.gram.item() == 1 + 4 + 100 + 400 + 900


def test_a_class_without_samples_left_disappears(data: Any) -> None:
    x, y = data
    sums = taught(x, y)
    sums.revert(x[y == "c02"], y[y == "c02"])
    assert sums.labels == ["c00", "c01", "c03"]


def test_forgetting_everything_leaves_not_even_rounding(data: Any) -> None:
    x, y = data
    sums = taught(x, y)
    sums.revert(x[::-1], y[::-1])
    assert bits(sums) == bits(GramStatistics(6))


@pytest.mark.parametrize("layers", [["shallow", "deep"], ["deep", "middle"], []])
def test_layers_that_do_not_follow_each_other_have_no_span(layers: list[str]) -> None:
    sums = ClassSums({"shallow": 1, "middle": 3, "deep": 2})
    with pytest.raises(InputError, match="are not contiguous"):
        sums.span(layers)


def test_selecting_takes_the_columns_of_the_layers_in_the_order_asked(rng: np.random.Generator) -> None:
    x = rng.normal(size=(20, 6))
    sums = taught(x, ["a", "b"] * 10, {"shallow": 1, "middle": 3, "deep": 2})
    chosen = sums.select(["deep", "shallow"])
    assert chosen.layers == {"deep": 2, "shallow": 1}
    assert chosen.gram.tolist() == sums.gram[np.ix_([4, 5, 0], [4, 5, 0])].tolist()
    assert chosen.prototypes.tolist() == sums.prototypes[:, [4, 5, 0]].tolist()
    chosen.update(np.ones((1, 3)), ["c"])
    assert sums.labels == ["a", "b"]


def test_a_layer_selected_twice_counts_once(rng: np.random.Generator) -> None:
    sums = taught(rng.normal(size=(4, 3)), ["a"] * 4, {"shallow": 1, "deep": 2})
    assert bits(sums.select(["deep", "deep"])) == bits(sums.select(["deep"]))


def test_selecting_an_unknown_layer_guesses_what_was_meant() -> None:
    for call in (GramStatistics(SIX).select, GramStatistics(SIX).columns):
        with pytest.raises(UnknownNameError, match=r"Unknown layer 'blocks.5'.*Did you mean 'blocks\.\d+'\?"):
            call(["blocks.5"])


@pytest.mark.parametrize(
    "other", [{"a": 2, "b": 4}, {"a": 3, "c": 3}, {"b": 3, "a": 3}, 6], ids=["width", "name", "order", "flat"]
)
def test_sums_of_other_layers_are_not_combined(other: Any, data: Any) -> None:
    mine, theirs = taught(*data, {"a": 3, "b": 3}), taught(*data, other)
    before = bits(mine)
    for combine in (lambda: mine + theirs, lambda: mine - theirs, lambda: mine.remove(theirs)):
        with pytest.raises(MismatchError, match="different layers"):
            combine()
    assert bits(mine) == before


# ---- what is refused


X = np.ones((3, 4608))


@pytest.mark.parametrize(
    ("features", "labels", "sentence"),
    [
        (X[:, :768], list("abc"), r"have 768 values but the model was built with 4,608 \(6 layers × 768\)"),
        (X, list("ab"), "There are 3 feature vectors but 2 labels"),
        (X[0], ["a"], r"shapes are \(4608,\) and \(1,\)"),
        (X, [["a"], ["b"], ["c"]], r"shapes are \(3, 4608\) and \(3, 1\)"),
        (np.where(np.eye(3, 4608, 1), np.nan, X), list("abc"), r"row 0 holds NaN or infinity \(3 such\)"),
        (np.where(np.eye(3, 4608, -1), np.inf, X), list("abc"), r"row 1 holds NaN or infinity \(2 such\)"),
        (X.astype(str), list("abc"), "must be numbers"),
        (X.astype(object), list("abc"), "must be numbers"),
        (X * 1j, list("abc"), "must be numbers"),
        (X, np.array(["a", 1, None], object), "of one type, not a mix"),
    ],
    ids=["width", "length", "vector", "table", "nan", "inf", "text", "objects", "complex", "mix"],
)
def test_unusable_samples_are_refused_in_a_sentence_and_change_nothing(
    features: Any, labels: Any, sentence: str
) -> None:
    sums = ClassSums(SIX)
    sums.update(X[:1], ["a"])
    before = bits(sums)
    for call in (sums.update, sums.revert):
        with pytest.raises(InputError, match=sentence):
            call(features, labels)
    assert bits(sums) == before


LIMITS = {"float64": (1e-60, 1e60), "float32": (1e-15, 1e7)}


@pytest.mark.parametrize("kind", [ClassSums, GramStatistics, ClassMoments])
@pytest.mark.parametrize("precision", LIMITS)
def test_features_whose_squares_overflow_or_vanish_are_refused_and_change_nothing(
    precision: str, kind: type[ClassSums], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (class_sums, samples):
        monkeypatch.setattr(module, "CHUNK", 2)
    least, most = LIMITS[precision]
    sums = kind(3, precision)
    sums.update(np.eye(3), list("abc"))
    before = bits(sums)
    for size in (1.01 * most, -1e200, 0.99 * least, 1e-160, -5e-324):
        x = np.ones((6, 3))
        x[4:] = [0.0, size, 0.0]
        limits, found = f"from {least:.0e} to {most:.0e} in size", f"In row 4 it is {abs(size):.3g} (2 such)"
        for call in (sums.update, sums.revert):
            with pytest.raises(InputError, match=f"squares of features must fit into {precision}") as refused:
                call(x, ["a"] * 6)
            assert limits in str(refused.value)
            assert found in str(refused.value)
    assert bits(sums) == before


@pytest.mark.parametrize("precision", LIMITS)
def test_zeros_small_values_beside_others_and_sizes_up_to_the_limits_are_learned(precision: str) -> None:
    least, most = LIMITS[precision]
    x = np.array([[0.0, 0.0], [1e-300, 1.0], [0.0, -5e-324 - least], [most, 0.0], [-most, least]])
    sums = GramStatistics(2, precision)
    sums.update(x, list("abcde"))
    assert np.isfinite(sums.gram).all()
    sums = GramStatistics(2, precision)
    sums.update(x[2:3], ["c"])
    assert sums.gram[1, 1] == pytest.approx(least**2, rel=1e-6)
    assert sums.gram[1, 1] * np.finfo(precision).eps >= np.finfo(precision).tiny


@pytest.mark.parametrize("value", [np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal])
def test_whatever_a_network_gives_in_float32_is_summed_in_float64(value: np.float32) -> None:
    sums = GramStatistics(2)
    sums.update(np.full((3, 2), value, np.float32), list("abc"))
    np.testing.assert_allclose(sums.gram, 3 * float(value) ** 2, rtol=1e-15)


@pytest.mark.parametrize("precision", LIMITS)
def test_a_billion_samples_of_a_hundred_thousand_values_overflow_nowhere(precision: str) -> None:
    """What is computed at most of samples at the limits: see `SUMMABLE`."""
    number = np.dtype(precision).type
    n, d, (least, most) = number(1e9), number(1e5), map(number, samples.SUMMABLE[precision])
    assert np.isfinite(n * n * d * most * most)
    assert number(np.finfo(precision).eps) * least * least >= np.finfo(precision).tiny
    if precision == "float64":
        assert np.isfinite((n * d * most * most) ** 2)
        assert np.isfinite(1 / (np.finfo(precision).eps * least * least) ** 2)


@pytest.mark.parametrize("dtype", [np.longdouble, np.int64, np.uint8, bool, np.float16])
def test_numbers_of_any_length_are_measured(dtype: Any) -> None:
    sums = GramStatistics(2)
    sums.update(np.ones((1, 2), dtype), ["a"])
    if dtype is np.longdouble:
        with pytest.raises(InputError, match=r"row 0 holds NaN or infinity|In row 0 it is 1.8e\+308"):
            sums.update(np.full((1, 2), np.finfo(dtype).max), ["a"])
    assert sums.gram.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_what_is_not_a_number_is_no_positive_matrix() -> None:
    for value in (np.nan, np.inf, -np.inf):
        for place in ((0, 0), (2, 0)):
            matrix = np.eye(3)
            matrix[place] = matrix[place[::-1]] = value
            assert not statistics.is_positive(matrix, 0.0)
    assert not statistics.is_positive(np.eye(3), np.nan)
    assert statistics.is_positive(np.eye(3), 0.0)
    assert not statistics.is_positive(-np.eye(3), 0.5)


def test_widths_that_differ_are_listed() -> None:
    with pytest.raises(InputError, match=r"1,792 \(3 layers of 192 \+ 320 \+ 1280\)"):
        ClassSums({"a": 192, "b": 320, "c": 1280}).update(X[:, :4], list("abc"))
    with pytest.raises(InputError, match=r"5 \(1 layer × 5\)"):
        ClassSums(5).update(X[:, :4], list("abc"))


def test_a_bad_row_far_down_is_found_before_anything_is_learned(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (class_sums, samples):
        monkeypatch.setattr(module, "CHUNK", 4)
    x = rng.normal(size=(10, 2))
    x[9, 1] = np.nan
    sums = GramStatistics(2)
    with pytest.raises(InputError, match="row 9"):
        sums.update(x, ["a"] * 10)
    assert bits(sums) == bits(GramStatistics(2))


def test_labels_of_another_type_are_refused_and_change_nothing(data: Any) -> None:
    sums = taught(*data)
    before = bits(sums)
    with pytest.raises(MismatchError, match=r"of one type, unlike \['c00', 'c01'\] and \[0, 1\]"):
        sums.update(np.ones((2, 6)), [0, 1])
    assert bits(sums) == before


@pytest.mark.parametrize("kind", [ClassSums, GramStatistics, ClassMoments])
@pytest.mark.parametrize(
    ("count", "label", "sentence"),
    [
        (40, "tabby", "Cannot forget 40 images of 'tabby': only 32 were learned"),
        (1, "lion", "Cannot forget 1 image of 'lion': that class was never learned"),
    ],
)
def test_more_than_was_learned_cannot_be_forgotten(
    kind: type[ClassSums], count: int, label: str, sentence: str
) -> None:
    sums = kind(2)
    sums.update(np.ones((34, 2)), ["tabby"] * 32 + ["siamese"] * 2)
    before = bits(sums)
    with pytest.raises(ForgetError, match=sentence):
        sums.revert(np.ones((count + 1, 2)), [label] * count + ["siamese"])
    assert bits(sums) == before


@pytest.mark.parametrize("case", ["another image", "another label", "swapped labels"])
def test_what_was_never_learned_cannot_be_forgotten(case: str, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [6, 6, 6], dim=40)  # fewer samples than dimensions
    sums = taught(x, y)
    before = bits(sums)
    gone_x, gone_y = {
        "another image": (x[:1] + 0.5 * rng.normal(size=(1, 40)), y[:1]),
        "another label": (x[y == "c00"][:1], ["c01"]),
        "swapped labels": (np.concatenate([x[y == "c00"][:2], x[y == "c01"][:2]]), ["c01"] * 2 + ["c00"] * 2),
    }[case]
    with pytest.raises(ForgetError, match="not what was learned"):
        sums.revert(gone_x, gone_y)
    assert bits(sums) == before
    with pytest.raises(ForgetError, match="Nothing was changed"):
        sums - taught(np.asarray(gone_x), gone_y)


@pytest.mark.parametrize("keep_others", [True, False])
def test_a_whole_class_cannot_be_forgotten_with_other_images(
    keep_others: bool, rng: np.random.Generator
) -> None:
    x, y = oracle.blobs(rng, [200, 20], dim=5)  # many samples: G alone would not notice
    if not keep_others:
        x, y = x[y == "c01"], y[y == "c01"]
    sums = taught(x, y)
    before = bits(sums)
    with pytest.raises(ForgetError, match="not what was learned"):
        sums.revert(x[y == "c01"] * 0.9, y[y == "c01"])
    assert bits(sums) == before


def test_forgetting_bears_the_rounding_of_a_second_visit(rng: np.random.Generator) -> None:
    """A network gives the same image slightly other float32 features in another batch."""
    x, y = oracle.blobs(rng, [20, 20], dim=60)
    again = x * (1 + 1e-6 * rng.normal(size=x.shape))
    for rows in (slice(0, 5), slice(0, 39), y == "c00", slice(None)):
        sums = taught(x, y)
        sums.revert(again[rows], y[rows])
        assert sums.total == len(y) - len(y[rows])


def test_samples_of_nothing_but_zeros_can_be_learned_and_forgotten() -> None:
    sums = taught(np.zeros((4, 3)), list("aabb"))
    sums.revert(np.zeros((1, 3)), ["a"])
    assert (sums.labels, sums.counts.tolist()) == (["a", "b"], [1, 2])


# ---- files


@pytest.mark.parametrize("kind", [ClassSums, GramStatistics, ClassMoments])
@pytest.mark.parametrize("labels", [["b", "ñ 犬", "a"], [3, -1, 2], [0.1, -0.0, 1e300], [True, False, True]])
def test_a_file_gives_back_every_bit(kind: type[ClassSums], labels: list[Any], tmp_path: Path) -> None:
    sums = kind({"shallow": 2, "deep": 3})
    sums.update(np.random.default_rng(0).normal(size=(3, 5)), labels)
    sums.save(tmp_path / "s.layup")
    loaded = kind.load(tmp_path / "s.layup")
    assert bits(loaded) == bits(sums)
    assert [type(label) for label in loaded.labels] == [type(label) for label in sums.labels]
    sums.update(np.ones((1, 5)), labels[:1])
    loaded.update(np.ones((1, 5)), labels[:1])
    assert bits(loaded) == bits(sums)


def test_empty_sums_have_a_file_too(tmp_path: Path) -> None:
    GramStatistics(3).save(tmp_path / "s.layup")
    assert bits(GramStatistics.load(tmp_path / "s.layup")) == bits(GramStatistics(3))


def test_a_file_holds_one_triangle_of_g(data: Any, tmp_path: Path) -> None:
    taught(*data).save(tmp_path / "s.layup")
    _, arrays = storage.read(tmp_path / "s.layup", "statistics")
    assert {name: array.shape for name, array in arrays.items()} == {"prototypes": (4, 6), "gram": (21,)}


@pytest.mark.parametrize("label", [b"cat", np.datetime64("2024-05-01", "s")])
def test_labels_that_no_file_can_hold_are_named(label: Any, tmp_path: Path) -> None:
    sums = taught(np.ones((1, 2)), np.array([label]))
    with pytest.raises(InputError, match=r"Cannot save the label .*: labels in files are strings or numbers"):
        sums.save(tmp_path / "s.layup")
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    ClassSums(2).save(tmp_path / "s.layup")
    with pytest.raises(StorageError, match="'class sums', not 'statistics'"):
        GramStatistics.load(tmp_path / "s.layup")


# ---- samples that wait to be added to G


@pytest.fixture
def few_wait(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Only four samples may wait. Gives how many samples were added to G at a time."""
    added: list[int] = []
    plus_rows = Triangle.plus_rows

    def counted(self: Triangle, x: Any, sign: int = 1) -> Triangle:
        added.append(sign * len(x))
        return plus_rows(self, x, sign=sign)

    monkeypatch.setattr(statistics, "PENDING", 4)
    monkeypatch.setattr(Triangle, "plus_rows", counted)
    return added


def test_few_samples_wait_until_they_are_many(data: Any, few_wait: list[int]) -> None:
    x, y = data
    sums = GramStatistics(6)
    for i in range(18):
        sums.update(x[i : i + 1], y[i : i + 1])
        assert (sums.total, sums.labels) == (i + 1, sorted(set(y[: i + 1].tolist())))
    assert few_wait == [5, 5, 5]
    batch = sums.empty()
    batch.update(x[:1], y[:1])
    sums.add(batch)
    assert few_wait == [5, 5, 5]
    np.testing.assert_allclose(sums.gram, taught(x, y).gram + np.outer(x[0], x[0]), rtol=1e-12)
    assert sums.trace == pytest.approx(np.trace(sums.gram), rel=1e-14)


def test_small_batches_wait_until_they_are_many(data: Any, few_wait: list[int]) -> None:
    x, y = data
    sums = GramStatistics(6)
    for start, size in ((0, 1), (1, 1), (2, 2), (4, 3), (7, 1)):
        sums.add(taught(x[start : start + size], y[start : start + size]))
    assert few_wait == [7]


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 1, 1), (2, 3, 1, 4), (4, 1, 6, 2, 1), (7, 2, 9)])
def test_when_batches_are_added_to_g_changes_nothing_but_rounding(
    sizes: tuple[int, ...], data: Any, few_wait: list[int]
) -> None:
    x, y = data
    now_and_then, joint = GramStatistics(6), GramStatistics(6)
    start = 0
    for size in sizes:
        for sums in (now_and_then, joint):
            batch = sums.empty()
            for i in range(start, start + size):  # the last chunk of a long batch may wait
                batch.update(x[i : i + 1], y[i : i + 1])
            sums.add(batch)
        joint.state()
        np.testing.assert_allclose(now_and_then.gram, joint.gram, rtol=1e-13, atol=1e-13)
        start += size


def test_whoever_looks_at_g_does_not_change_what_comes_of_it(data: Any, few_wait: list[int]) -> None:
    x, y = data
    seen, unseen = GramStatistics(6), GramStatistics(6)
    for i in range(18):
        for sums in (seen, unseen):
            sums.update(x[i : i + 1], y[i : i + 1])
        bits(seen)
    assert bits(seen) == bits(unseen)


def test_a_small_batch_still_has_its_samples(data: Any, few_wait: list[int]) -> None:
    x, y = data
    batch = GramStatistics({"shallow": 2, "deep": 4})
    empty = batch.rows
    assert empty is not None
    assert (empty[0].shape, empty[1].shape) == ((0, 6), (0,))
    for i in range(4):
        batch.update(x[i : i + 1].astype(np.float32), y[i : i + 1])
    for sums, columns in (
        (batch, slice(None)),
        (batch.copy(), slice(None)),
        (batch.select(["deep"]), slice(2, 6)),
    ):
        rows = sums.rows
        assert rows is not None
        np.testing.assert_allclose(rows[0], x[:4, columns], rtol=1e-6)
        assert (rows[0].dtype, rows[1].tolist()) == (np.float64, y[:4].tolist())
    batch.gram  # noqa: B018 - to look at it changes nothing
    assert batch.rows is not None
    batch.update(x[4:5], y[4:5])
    assert batch.rows is None


def test_no_sample_waits_in_a_file_or_after_one_was_written(data: Any, tmp_path: Path) -> None:
    sums = taught(*data)
    assert sums.rows is not None
    sums.save(tmp_path / "s.layup")
    assert sums.rows is None
    assert GramStatistics.load(tmp_path / "s.layup").rows is None


def test_forgetting_a_few_samples_takes_no_matrix_of_their_own(data: Any, few_wait: list[int]) -> None:
    x, y = data
    sums = taught(x, y)
    few_wait.clear()
    sums.revert(x[:3], y[:3])
    assert few_wait == [-3, -len(sums.labels)]  # and the class sums, for the check of what is left
    np.testing.assert_allclose(sums.gram, taught(x[3:], y[3:]).gram, atol=1e-12)


@pytest.mark.parametrize("verb", ["update", "add", "revert", "remove"])
@pytest.mark.parametrize("at", ["plus_rows", "__add__", "__sub__", "dense"])
def test_an_interruption_leaves_the_sums_as_they_were(
    verb: str, at: str, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = data
    sums, expected = taught(x[:12], y[:12]), taught(x[:12], y[:12])
    monkeypatch.setattr(statistics, "PENDING", 2)
    batch = taught(x[3:9], y[3:9])
    arguments = (x[3:9], y[3:9]) if verb in ("update", "revert") else (batch,)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(Triangle, at, interrupted)
        try:
            getattr(sums, verb)(*arguments)
        except KeyboardInterrupt:
            finished = False
        else:
            finished = True  # this verb has no need of that operation
    if finished:
        sign = 1 if verb in ("update", "add") else -1
        np.testing.assert_allclose(sums.gram, expected.gram + sign * batch.gram, atol=1e-12)
    else:
        assert bits(sums) == bits(expected)
    assert sums.total == 12 + (finished and (6 if verb in ("update", "add") else -6))


def test_classes_that_a_batch_does_not_touch_are_not_copied(rng: np.random.Generator) -> None:
    sums = taught(rng.normal(size=(1000, 50)), np.arange(1000))
    tracemalloc.start()
    sums.update(np.ones((1, 50)), [7])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1000 * 50 * 8 / 2


def test_sums_that_hold_nothing_take_no_memory() -> None:
    tracemalloc.start()
    sums = GramStatistics(2000)
    batch = sums.empty()
    batch.update(np.ones((1, 2000)), ["a"])
    sums.add(batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2000 * 2000


@pytest.mark.parametrize("dim", [2, 8, 80])
@pytest.mark.parametrize("value", [1e308, -1e308, 1e200])
def test_a_value_whose_square_overflows_is_in_no_sound_sums(
    value: float, dim: int, rng: np.random.Generator
) -> None:
    """On its way through such a matrix, a factorisation meets what is not a number, and may go on."""
    header, arrays = taught(0.1 * rng.normal(size=(20, dim)), ["ant", "bee"] * 10).state()
    diagonal = {row * (row + 3) // 2 for row in range(dim)}
    for place in sorted({*range(len(arrays["gram"]))} - diagonal)[:200]:
        gram = arrays["gram"].copy()
        gram[place] = value
        with pytest.raises(ValueError, match="not those of any images"):
            GramStatistics.from_state(header, {**arrays, "gram": gram})


# ---- state that no samples can have given


def state_of_three_classes() -> tuple[dict[str, Any], dict[str, Any]]:
    sums = taught(*oracle.blobs(np.random.default_rng(7), [5, 1, 9], dim=6), {"a": 2, "b": 4})
    header, arrays = sums.state()
    return header, dict(arrays)


FORGERIES: dict[str, tuple[str, Any]] = {
    "two layers of one name": ("have the same name", lambda h, a: h["layers"][1].__setitem__(0, "a")),
    "a label too many": ("4 labels but 3 counts", lambda h, a: h["labels"].append("zebra")),
    "labels out of order": ("labels", lambda h, a: h["labels"].reverse()),
    "a label twice": ("labels", lambda h, a: h["labels"].__setitem__(1, h["labels"][0])),
    "labels of two types": ("labels", lambda h, a: h["labels"].__setitem__(0, 7)),
    "a label that is a list": ("labels", lambda h, a: h["labels"].__setitem__(0, ["cat"])),
    "labels that are no list": ("labels", lambda h, a: h.__setitem__("labels", "abc")),
    "no labels at all": ("labels", lambda h, a: h.pop("labels")),
    "a count of nothing": ("counts", lambda h, a: h["counts"].__setitem__(0, 0)),
    "no array": ("no array 'gram'", lambda h, a: a.pop("gram")),
    "whole numbers": ("int64 of shape", lambda h, a: a.update(gram=a["gram"].astype(np.int64))),
    "another shape": ("not floats of shape", lambda h, a: a.update(prototypes=a["prototypes"][:, 1:])),
    "two types": ("different types", lambda h, a: a.update(gram=a["gram"].astype(np.float32))),
    "no number": ("'gram' holds NaN", lambda h, a: a["gram"].__setitem__(3, np.nan)),
    "an endless number": ("'prototypes' holds NaN or inf", lambda h, a: a["prototypes"].fill(np.inf)),
    "class sums too large": ("larger than any", lambda h, a: a["prototypes"].fill(1e200)),
    "a negative trace": ("not that of its classes", lambda h, a: a.update(gram=-a["gram"])),
    "another G": ("not those of any images", lambda h, a: a.update(gram=a["gram"] * 1e-3)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_state_that_no_samples_can_have_given_is_refused(name: str, tmp_path: Path) -> None:
    says, forge = FORGERIES[name]
    header, arrays = state_of_three_classes()
    GramStatistics.from_state(header, arrays)  # as it was
    arrays = {each: array.copy() for each, array in arrays.items()}
    forge(header, arrays)
    with pytest.raises(ValueError, match=says):
        GramStatistics.from_state(header, arrays)
    storage.write(tmp_path / "s.layup", GramStatistics.kind, header, arrays)
    with pytest.raises(DamagedFileError, match=says):
        GramStatistics.load(tmp_path / "s.layup")


def test_no_classes_have_no_g() -> None:
    header, arrays = GramStatistics(3).state()
    assert GramStatistics.from_state(header, arrays).labels == []
    with pytest.raises(ValueError, match="not that of its classes"):
        GramStatistics.from_state(header, {**arrays, "gram": np.ones_like(arrays["gram"])})


# ---- classes that change their name, or go


@pytest.mark.parametrize("kind", [ClassSums, GramStatistics, ClassMoments])
@pytest.mark.parametrize("verb", ["renamed", "without_class"])
def test_a_class_that_is_not_there_is_guessed(kind: type[ClassSums], verb: str) -> None:
    sums = kind(2)
    sums.update([[1.0, 2.0], [3.0, 4.0]], ["tabby", "dog"])
    before = bits(sums)
    with pytest.raises(
        ForgetError, match=r"Unknown class 'tabbi'\. Known: dog, tabby\. Did you mean 'tabby'\?"
    ):
        getattr(sums, verb)(*["tabbi", "cat"][: 2 if verb == "renamed" else 1])
    numbers = kind(2)
    numbers.update([[1.0, 2.0]], [3])
    with pytest.raises(ForgetError, match=r"Unknown class '4'\. Known: 3\."):
        getattr(numbers, verb)(*[4, 5][: 2 if verb == "renamed" else 1])
    assert bits(sums) == before


def test_a_new_name_is_of_the_type_of_the_others(data: Any) -> None:
    sums = taught(*data)
    with pytest.raises(MismatchError, match="must be of one type"):
        sums.renamed("c00", 7)
    assert type(sums.renamed("c00", np.str_("c09")).labels[-1]) is str
    assert bits(sums.renamed("c00", "c00")) == bits(sums)


@pytest.mark.parametrize("root", [[1.0, 2.0], [[1.0, 2.0]], [[np.nan] * 6]])
def test_a_root_that_is_no_table_of_numbers_is_refused(root: Any, data: Any) -> None:
    with pytest.raises(InputError, match="must be a table of finite numbers with 6 columns"):
        taught(*data).without_class("c00", root)


def test_a_class_cannot_be_dropped_with_what_is_not_its_own(data: Any) -> None:
    x, y = data
    with pytest.raises(ForgetError, match="they are not what was learned"):
        taught(x, y).without_class("c01", 3 * x[y == "c02"])


def test_what_is_left_of_dropped_classes_is_in_files(data: Any, tmp_path: Path) -> None:
    sums = taught(*data).without_class("c02")
    sums.save(tmp_path / "s.layup")
    loaded = GramStatistics.load(tmp_path / "s.layup")
    assert bits(loaded) == bits(sums)
    assert (loaded.leftover, loaded.samples, loaded.total) == (9, 18, 9)
    header, arrays = sums.state()
    for leftover in (0, -1, 1.5, True, "9", None):
        with pytest.raises(ValueError, match="leftover is"):
            GramStatistics.from_state({**header, "leftover": leftover}, arrays)
    nothing, arrays = GramStatistics(6).state()
    with pytest.raises(ValueError, match="its G is not that of its classes"):
        GramStatistics.from_state({**nothing, "leftover": 1}, arrays)


def test_what_is_left_of_dropped_classes_is_merged_and_taken_out_once(data: Any) -> None:
    base = taught(*data).without_class("c02")
    more = base + taught(*data)
    assert more.leftover == 9
    assert (more - base).leftover == 0
    with pytest.raises(ForgetError, match="Cannot forget 9 images of classes that were dropped: only 0"):
        taught(*data) - base
    assert taught(*data).without_class("c00").without_class("c01").leftover == 6


def test_with_the_last_class_its_g_goes(data: Any) -> None:
    x, y = data
    last = taught(x[y == "c00"], y[y == "c00"]).without_class("c00")
    assert (last.labels, last.leftover, last.samples, last.trace) == ([], 0, 0, 0.0)
