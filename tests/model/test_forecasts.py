"""What learning and all else will take grows with what decides it."""

from __future__ import annotations

import pytest

from layup.model import forecasts
from layup.model.forecasts import class_sums, learning


def test_only_a_search_needs_more_for_more_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "SOLVING", 1)  # so that the search is what takes most
    plain = [learning(2000, 10, n, searched=False).total for n in (2_000, 200_000)]
    assert plain[0] == plain[1]
    searching = [learning(2000, 10, n, searched=True).total for n in (500, 2_000, 20_000, 200_000, 10**7)]
    assert searching == sorted(searching)
    assert searching[-2] == searching[-1]  # all else is on the disk
    assert searching[1] > plain[0]
    late = learning(2000, 10, 500, known=10**6, searched=True)
    assert late.total > searching[0]  # there is more to factorise than the samples of the lesson


def test_wider_features_more_classes_and_more_digits_need_more() -> None:
    base = learning(2000, 10, 5000, searched=True).total
    assert learning(2500, 10, 5000, searched=True).total > base
    assert learning(2000, 500, 5000, searched=True).total > base
    assert learning(2000, 10, 5000, searched=True, precision="float32").total < base
    assert learning(2000, 10, 5000, searched=True, solved=500).total < base
    assert class_sums(2000, 10, 5000).total < base / 5
