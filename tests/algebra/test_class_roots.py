from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import oracle
from layup.algebra import class_roots
from layup.algebra.class_moments import ClassMoments
from layup.algebra.class_roots import ClassRoots, root_values
from layup.algebra.class_sums import ClassSums
from layup.algebra.statistics import GramStatistics
from layup.errors import ForgetError, InputError, MismatchError

NAMES = ["ant", "bee", "cat"]
SHAPES = {"few samples": ([7, 1, 9], 40), "as many": ([6, 12, 13], 12), "many samples": ([30, 45, 2], 8)}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def taught(x: Any, y: Any, *more: Any) -> ClassRoots:
    roots = ClassRoots(x.shape[1])
    for part in ((x, y), *more):
        roots.update(*part)
    return roots


def samples_of(shape: str, seed: int = 3) -> tuple[Any, Any]:
    counts, dim = SHAPES[shape]
    return oracle.blobs(np.random.default_rng(seed), counts, dim)


def assert_of(roots: ClassRoots, x: Any, y: Any, size: float = 0.0) -> None:
    """They are the roots of exactly these samples, to the rounding of sums of this size."""
    grams = oracle.grams(x, y)
    assert roots.labels == sorted(grams)
    assert roots.counts.tolist() == [int((y == label).sum()) for label in roots.labels]
    for label, gram in grams.items():
        slack = 1e-13 * max(size, np.trace(gram), 1e-300)
        np.testing.assert_allclose(roots.gram(label), gram, atol=slack, rtol=0)
        root = roots.root(label)
        assert len(root) <= min((y == label).sum(), x.shape[1])
        assert not np.tril(root, -1).any()


@every_shape
def test_roots_are_those_of_a_loop_over_samples(shape: str) -> None:
    x, y = samples_of(shape)
    roots = taught(x, y)
    assert_of(roots, x, y)
    assert roots.nbytes == 8 * root_values(roots.counts.tolist(), roots.dim)


@every_shape
@pytest.mark.parametrize("size", [1, 2, 5])
def test_neither_batches_nor_their_order_matter(
    shape: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = samples_of(shape)
    order = np.random.default_rng(1).permutation(len(y))
    batches = [(x[order[i : i + size]], y[order[i : i + size]]) for i in range(0, len(y), size)]
    assert_of(taught(*batches[0], *batches[1:]), x, y)
    monkeypatch.setattr(class_roots, "CHUNK", size)
    assert_of(taught(x, y), x, y)


@every_shape
def test_merged_shards_equal_joint_learning_and_a_shared_base_is_taken_out_once(shape: str) -> None:
    base, more, other = (samples_of(shape, seed) for seed in range(3))
    both = taught(*base, more) + taught(*base, other) - taught(*base)
    x, y = (np.concatenate([part[i] for part in (base, more, other)]) for i in range(2))
    assert_of(both, x, y, size=4 * float((x**2).sum()))


@every_shape
def test_removing_undoes_learning(shape: str) -> None:
    x, y = samples_of(shape)
    more = samples_of(shape, 4)
    roots = taught(x, y, more)
    roots.remove(*more)
    assert_of(roots, x, y, size=2 * float((x**2).sum()))
    roots.remove(x[:5], y[:5])
    assert_of(roots, x[5:], y[5:], size=2 * float((x**2).sum()))
    roots.remove(x[5:], y[5:])
    assert (roots.labels, roots.nbytes) == ([], 0)


@pytest.mark.parametrize("copies", [2, 40])
def test_samples_that_come_twice_are_learned_and_removed(copies: int) -> None:
    x, y = oracle.blobs(np.random.default_rng(0), [3, 4], 10)
    repeated, labels = np.tile(x, (copies, 1)), np.tile(y, copies)
    roots = taught(repeated, labels)
    assert_of(roots, repeated, labels)
    roots.remove(repeated[7:], labels[7:])
    assert_of(roots, x, y, size=float((repeated**2).sum()))


def test_removing_bears_the_rounding_of_a_second_visit() -> None:
    x, y = samples_of("few samples")
    again = x * (1 + 1e-6 * np.random.default_rng(0).normal(size=x.shape))
    roots = taught(x, y)
    roots.remove(again[:4], y[:4])
    for label, gram in oracle.grams(x[4:], y[4:]).items():
        np.testing.assert_allclose(roots.gram(label), gram, atol=1e-5 * float((x**2).sum()))
    roots.remove(again[4:], y[4:])
    assert roots.labels == []


@pytest.mark.parametrize("count", [1, 7])
def test_other_images_cannot_be_removed(count: int) -> None:
    x, y = samples_of("few samples")
    roots = taught(x, y)
    before = {label: roots.root(label) for label in roots.labels}
    own = x[y == "c00"]
    for wrong in (own[:count] + 0.1, 1.01 * own[:count], x[y == "c02"][:count], 0.0 * own[:count]):
        with pytest.raises(ForgetError, match="These images of 'c00' cannot be forgotten"):
            roots.remove(wrong, ["c00"] * count)
    with pytest.raises(ForgetError, match="Cannot forget 2 images of 'c01': only 1 were learned"):
        roots.remove(x[:2], ["c01"] * 2)
    with pytest.raises(ForgetError, match="that class was never learned"):
        roots.remove(x[:1], ["zebra"])
    assert all(roots.root(label) is root for label, root in before.items())


def test_zeros_can_be_learned_and_removed() -> None:
    roots = ClassRoots(3)
    roots.update(np.zeros((2, 3)), ["a", "a"])
    roots.remove(np.zeros((1, 3)), ["a"])
    assert roots.counts.tolist() == [1]
    assert not roots.gram("a").any()
    header, arrays = roots.state()
    assert ClassRoots.from_state(header, arrays).gram("a").tolist() == np.zeros((3, 3)).tolist()


def test_with_its_root_a_class_is_dropped_exactly() -> None:
    for shape in SHAPES:
        x, y = samples_of(shape)
        sums = GramStatistics(x.shape[1])
        sums.update(x, y)
        rest = GramStatistics(x.shape[1])
        rest.update(x[y != "c00"], y[y != "c00"])
        dropped = sums.without_class("c00", taught(x, y).root("c00"))
        assert dropped.labels == rest.labels
        np.testing.assert_array_equal(dropped.prototypes, rest.prototypes)
        np.testing.assert_allclose(dropped.gram, rest.gram, atol=1e-12 * sums.trace)


@every_shape
def test_renaming_equals_learning_with_the_new_name_and_dropping_never_having_learned(shape: str) -> None:
    x, y = samples_of(shape)
    roots = taught(x, y)
    for new in ("c02", "a name", "c00"):
        assert_of(roots.renamed("c00", new), x, np.where(y == "c00", new, y))
    assert_of(roots.without("c00"), x[y != "c00"], y[y != "c00"])
    assert_of(roots, x, y)
    with pytest.raises(MismatchError, match="must be of one type"):
        roots.renamed("c00", 3)


def test_a_class_that_is_not_there_is_guessed() -> None:
    roots = taught(np.ones((2, 3)), ["tabby", "dog"])
    for verb in (roots.without, roots.root, roots.gram, lambda label: roots.renamed(label, "cat")):
        with pytest.raises(ForgetError, match=r"Unknown class 'tabbi'\. Known: dog, tabby\. Did you mean"):
            verb("tabbi")


def test_unusable_samples_are_refused() -> None:
    roots = ClassRoots(3)
    with pytest.raises(InputError, match="These features have 4 values"):
        roots.update(np.ones((1, 4)), ["a"])
    with pytest.raises(InputError, match="NaN or infinity"):
        roots.update([[1.0, np.nan, 0.0]], ["a"])
    with pytest.raises(MismatchError, match="3 and 4 columns"):
        roots + ClassRoots(4)
    assert roots.labels == []


def test_roots_do_not_alias_the_input_and_cannot_be_written_to() -> None:
    x = np.arange(3.0)[None]
    roots = taught(x, ["a"])
    x[:] = 7
    assert np.abs(roots.root("a")).tolist() == [[0.0, 1.0, 2.0]]
    for each in (roots, ClassRoots.from_state(*roots.state())):
        with pytest.raises(ValueError, match="read-only"):
            each.root("a")[0, 0] = 1.0


@pytest.mark.parametrize("verb", ["update", "remove"])
def test_an_interruption_leaves_the_roots_as_they_were(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = samples_of("as many")
    roots, calls = taught(x, y), []
    decompose = np.linalg.qr

    def interrupted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return decompose(*args, **options)

    monkeypatch.setattr(np.linalg, "qr", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(roots, verb)(x, y)
    monkeypatch.undo()
    assert_of(roots, x, y)


# ---- on whatever hypothesis can think of


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Some steps: samples to learn, how many of them to un-learn, classes to rename or drop."""
    rows = st.lists(st.integers(-9, 9), min_size=3, max_size=3)
    batch = st.lists(st.tuples(rows, st.sampled_from(NAMES)), min_size=1, max_size=6)
    pairs = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))
    step = st.one_of(
        st.tuples(st.just("update"), batch),
        st.tuples(st.just("merge"), batch),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 99), min_size=1, max_size=4)),
        st.tuples(st.just("rename"), pairs),
        st.tuples(st.just("drop"), st.sampled_from(NAMES)),
    )
    return draw(st.lists(step, min_size=1, max_size=10))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(history=histories())
def test_after_any_history_roots_are_those_of_the_samples_that_are_left(history: Any) -> None:
    roots, kept, learned = ClassRoots(3), [], 0.0
    for verb, what in history:
        known = {label for _, label in kept}
        if verb in ("update", "merge"):
            x, y = np.array([row for row, _ in what], float), np.array([label for _, label in what])
            roots = roots + taught(x, y) if verb == "merge" else taught_more(roots, x, y)
            kept += [(tuple(row), label) for row, label in what]
            learned += float((x**2).sum())
        elif verb == "remove" and kept:
            chosen = [kept.pop(index % len(kept)) for index in what if kept]
            roots.remove(np.array([row for row, _ in chosen], float), [label for _, label in chosen])
        elif verb == "rename" and what[0] in known:
            roots = roots.renamed(*what)
            kept = [(row, what[1] if label == what[0] else label) for row, label in kept]
        elif verb == "drop" and what in known:
            roots = roots.without(what)
            kept = [(row, label) for row, label in kept if label != what]
        x = np.array([row for row, _ in kept], float).reshape(-1, 3)
        assert_of(roots, x, np.array([label for _, label in kept]), size=10 * learned)
        assert_same(ClassRoots.from_state(*through_json(roots)), roots)


def taught_more(roots: ClassRoots, x: Any, y: Any) -> ClassRoots:
    roots.update(x, y)
    return roots


def through_json(roots: ClassRoots) -> tuple[Any, Any]:
    header, arrays = roots.state()
    return json.loads(json.dumps(header)), arrays


def assert_same(a: ClassRoots, b: ClassRoots) -> None:
    assert a.count_by_label() == b.count_by_label()
    for label in a.labels:
        np.testing.assert_array_equal(a.root(label), b.root(label))


# ---- state that no samples can have given


FORGERIES: dict[str, tuple[str, Any]] = {
    "no width": ("dim is None", lambda h, a: h.pop("dim")),
    "a label too many": ("roots of 4 labels", lambda h, a: h["labels"].append("zebra")),
    "labels out of order": ("labels", lambda h, a: h["labels"].reverse()),
    "a count of nothing": ("counts", lambda h, a: h["counts"].__setitem__(0, 0)),
    "rows that are true": ("rows", lambda h, a: h["rows"].__setitem__(1, True)),
    "more rows than images": ("has 9 rows, more than 5 images", lambda h, a: h["rows"].reverse()),
    "no array": ("no array 'roots'", lambda h, a: a.pop("roots")),
    "float32": ("float32 of shape", lambda h, a: a.update(roots=a["roots"].astype(np.float32))),
    "another shape": ("not float64 of shape", lambda h, a: a.update(roots=a["roots"][1:])),
    "no number": ("holds NaN", lambda h, a: a["roots"].__setitem__((-1, -1), np.nan)),
    "an endless number": ("holds NaN or inf", lambda h, a: a["roots"].__setitem__((0, -1), -np.inf)),
    "a square": ("root of 'c02' is not triangular", lambda h, a: a["roots"].__setitem__((-1, 0), 1.0)),
    "too large": ("root of 'c00' is larger than any", lambda h, a: a["roots"].__setitem__((0, 0), 1e70)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_state_that_no_samples_can_have_given_is_refused(name: str) -> None:
    says, forge = FORGERIES[name]
    header, arrays = taught(*oracle.blobs(np.random.default_rng(7), [5, 1, 9], dim=12)).state()
    ClassRoots.from_state(header, arrays)  # as it was
    arrays = {each: array.copy() for each, array in arrays.items()}
    forge(header, arrays)
    with pytest.raises(ValueError, match=says):
        ClassRoots.from_state(header, arrays)


def test_labels_that_no_file_can_hold_are_named() -> None:
    with pytest.raises(InputError, match="Cannot save the label b'cat'"):
        taught(np.ones((1, 2)), [b"cat"]).state()


@pytest.mark.parametrize("kind", [ClassSums, GramStatistics, ClassMoments])
def test_roots_must_be_those_of_the_sums(kind: type[ClassSums]) -> None:
    x, y = samples_of("few samples")
    sums = kind(x.shape[1])
    sums.update(x, y)
    taught(x, y).require_roots_of(sums)
    for part in (taught(x[:-1], y[:-1]), ClassRoots(40)):
        with pytest.raises(ValueError, match="but its sums have"):
            part.require_roots_of(sums)
    with pytest.raises(ValueError, match="its roots have 4 columns, but its sums 40"):
        ClassRoots(4).require_roots_of(sums)
    with pytest.raises(ValueError, match="root of 'zebra' is of 1 images, but its sums have 0"):
        taught(np.vstack([x, x[:1]]), [*y, "zebra"]).require_roots_of(sums)
    if kind is GramStatistics:
        with pytest.raises(ValueError, match="its roots are larger than its G"):
            taught(2 * x, y).require_roots_of(sums)
