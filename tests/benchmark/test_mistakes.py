"""Which classes are confused, and which photos are wrong, compared with counting by hand."""

from __future__ import annotations

import csv
import io
from collections import Counter

import numpy as np
from hypothesis import given, strategies as st

from layup.benchmark.metrics import confusion
from layup.benchmark.mistakes import Mistake, Pair, confused_pairs, mistakes, mistakes_csv

LABELS = st.sampled_from(["cat", "dog", "eel", "fox"])
PAIRS = st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=60)


@given(PAIRS)
def test_confused_pairs_are_those_that_one_counts(predictions):
    truth, predicted = ([pair[side] for pair in predictions] for side in (0, 1))
    found = confused_pairs(*confusion(truth, predicted))
    wrong = Counter((label, other) for label, other in predictions if label != other)
    sizes = Counter(truth)
    assert {(pair.truth, pair.predicted): pair.count for pair in found} == wrong
    assert all(pair.of == sizes[pair.truth] for pair in found)
    order = [(-pair.count, -pair.count / pair.of, pair.truth, pair.predicted) for pair in found]
    assert order == sorted(order)


def test_pairs_leave_the_table_as_it_is():
    labels, table = confusion(["cat", "dog"], ["cat", "cat"])
    before = table.copy()
    assert confused_pairs(labels, table) == [Pair("dog", "cat", 1, 1)]
    np.testing.assert_array_equal(table, before)


def test_the_most_confident_mistake_is_first():
    """By the margin to the truth, not by the score alone; what could not be right is last."""
    scores = np.array([[0.9, 0.8, 0.0], [0.5, 0.1, 0.0], [0.9, 0.1, 0.0], [0.3, 0.0, 0.1], [0.4, 0.0, 0.1]])
    truth = ["dog", "dog", "cat", "owl", "owl"]
    found = mistakes(["a", "b", "right", "c", "d"], truth, ["cat", "dog", "eel"], scores)
    assert [each.image for each in found] == ["b", "a", "d", "c"]
    assert found[0] == Mistake("b", "dog", "cat", 0.5, 0.1)
    assert found[0].margin == 0.4
    assert (found[2].truth_score, found[2].margin) == (None, None)


@given(PAIRS, st.integers(0, 2**32 - 1))
def test_mistakes_are_those_of_an_obvious_loop(pairs, seed):
    truth = [label for label, _ in pairs]
    classes = ["cat", "dog", "eel"]  # a fox was never learned
    scores = np.random.default_rng(seed).integers(0, 4, (len(truth), 3)) / 4  # some are equal
    found = mistakes([str(i) for i in range(len(truth))], truth, classes, scores)
    expected = {}
    for i, (label, row) in enumerate(zip(truth, scores.tolist(), strict=True)):
        best = classes[row.index(max(row))]
        if best != label:
            expected[str(i)] = best, max(row), row[classes.index(label)] if label in classes else None
    assert {each.image: (each.predicted, each.score, each.truth_score) for each in found} == expected
    known = [each.margin for each in found if each.margin is not None]
    assert known == sorted(known, reverse=True)
    assert all(each.margin is None for each in found[len(known) :])


def test_csv_has_a_row_for_each_and_no_formula():
    found = [
        Mistake("=x/a, b.jpg", 'a "dog"', "cat\x1b[2J", 0.75, 0.25),
        Mistake("日本/c.jpg", "never learned", "cat", 0.5, None),
    ]
    head, first, second = csv.reader(io.StringIO(mistakes_csv(found)))
    assert head == ["path", "truth", "prediction", "score", "truth_score", "margin"]
    assert first == ["'=x/a, b.jpg", 'a "dog"', "cat\\x1b[2J", "0.75", "0.25", "0.5"]
    assert second == ["日本/c.jpg", "never learned", "cat", "0.5", "", ""]
