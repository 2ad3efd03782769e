"""Searches use threads of one torch thread each; other threads do not change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import oracle
from layup.algebra import lambda_search
from layup.algebra.lambda_search import search_lambda
from layup.algebra.statistics import GramStatistics

USUAL = 3
SECONDS = 60.0


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """Some number of threads that no search would set."""
    before = torch.get_num_threads()
    torch.set_num_threads(USUAL)
    yield
    torch.set_num_threads(before)


def in_a_new_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(SECONDS)


def search() -> None:
    x, y = oracle.blobs(np.random.default_rng(1), [12, 12], 20, spread=3.0)
    assert search_lambda(GramStatistics(20), x, y) is not None


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads torch has where a search computes."""
    found, plain = [], lambda_search._searched

    def searched(*arguments: Any) -> Any:
        result = plain(*arguments)
        found.append(torch.get_num_threads())
        return result

    monkeypatch.setattr(lambda_search, "_searched", searched)
    return found


def test_a_small_search_computes_with_one_thread(seen: list[int]) -> None:
    search()
    assert seen == [1]
    assert torch.get_num_threads() == USUAL
    assert in_a_new_thread(torch.get_num_threads) == USUAL


def test_who_first_uses_torch_during_a_search_has_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, found = lambda_search._searched, []

    def searched(*arguments: Any) -> Any:
        found.append(in_a_new_thread(torch.get_num_threads))
        return plain(*arguments)

    monkeypatch.setattr(lambda_search, "_searched", searched)
    search()
    assert found == [USUAL]


def test_searches_that_overlap_leave_all_threads_to_those_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second begins, in a new thread, while the first is at it, and ends after it."""
    plain = lambda_search._searched
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    numbers: dict[str, int] = {}

    def searched(*arguments: Any) -> Any:
        if not first_is_in.is_set():
            first_is_in.set()
            assert second_is_in.wait(SECONDS)
        else:
            second_is_in.set()
            assert first_is_out.wait(SECONDS)
        return plain(*arguments)

    def first() -> None:
        search()
        numbers["first"] = torch.get_num_threads()
        first_is_out.set()

    def second() -> None:
        assert first_is_in.wait(SECONDS)
        search()
        numbers["second"] = torch.get_num_threads()

    monkeypatch.setattr(lambda_search, "_searched", searched)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(first), pool.submit(second)]:
            done.result(SECONDS)
    assert numbers == {"first": USUAL, "second": USUAL}
    assert in_a_new_thread(torch.get_num_threads) == USUAL
    assert torch.get_num_threads() == USUAL
