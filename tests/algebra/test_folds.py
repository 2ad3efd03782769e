from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.model_selection import StratifiedKFold

from layup.algebra.folds import Dealer, chunks, stratified
from layup.algebra.samples import CHUNK

LABELS = st.lists(st.sampled_from(["ant", "bee", "cat", "dog"]), max_size=40)


@given(LABELS, st.integers(2, 6))
def test_folds_are_those_of_scikit_learn_where_it_can_split(labels: list[str], folds: int) -> None:
    found = stratified(np.array(labels), folds)
    assert sorted(row for rows in found for row in rows.tolist()) == list(range(len(labels)))
    assert len(found) == folds
    if max(Counter(labels).values(), default=0) < folds:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = StratifiedKFold(folds).split(labels, labels)
        assert [rows.tolist() for rows in found] == [rows.tolist() for _, rows in expected]


@given(LABELS, st.integers(2, 6))
def test_a_class_is_spread_as_evenly_as_can_be(labels: list[str], folds: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = stratified(np.array(labels), folds)
    for label in {*labels}:
        counts = [sum(labels[row] == label for row in rows) for rows in found]
        assert max(counts) - min(counts) <= 1


@given(LABELS, st.integers(2, 6))
def test_folds_can_be_dealt_one_by_one(labels: list[str], folds: int) -> None:
    dealer = Dealer(Counter(labels), folds)
    dealt = [dealer.deal(label) for label in labels]
    expected = stratified(np.array(labels), folds)
    assert [[row for row, fold in enumerate(dealt) if fold == each] for each in range(folds)] == [
        rows.tolist() for rows in expected
    ]


@pytest.mark.parametrize("count", [0, 1, CHUNK, 2 * CHUNK + 3])
def test_chunks_are_all_rows_in_order(count: int) -> None:
    rows = np.random.default_rng(0).permutation(count)
    found = list(chunks(rows))
    assert [row for chunk in found for row in chunk.tolist()] == rows.tolist()
    assert all(0 < len(chunk) <= CHUNK for chunk in found)
