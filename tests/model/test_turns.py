"""Threads that share an object take turns."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from layup import FeatureCache, ImageModel, LayUP, load, load_backbone
from layup.model.turns import Turn, all_turns, in_turn
from photos import batch

THREADS = 4


class Slow:
    """Everything in it takes long enough for another thread to come between."""

    def __init__(self) -> None:
        self.turn = Turn()
        self.count = 0

    @in_turn
    def add(self) -> None:
        before = self.count
        time.sleep(0.002)
        self.count = before + 1

    @in_turn
    def add_twice(self) -> None:
        self.add()
        self.add()


def in_threads(*works: Callable[[], object]) -> list[object]:
    """Let all begin at the same time."""
    barrier = threading.Barrier(len(works))
    done: list[Future[object]] = [Future() for _ in works]

    def begin(work: Callable[[], object], future: Future[object]) -> None:
        try:
            barrier.wait(timeout=60)
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    for each in zip(works, done, strict=True):
        # A deadlock must not keep the tests from ending.
        threading.Thread(target=begin, args=each, daemon=True).start()
    return [future.result(timeout=60) for future in done]


def test_calls_do_not_come_between_each_other() -> None:
    slow = Slow()
    in_threads(*[slow.add_twice] * 8)
    assert slow.count == 16


def test_several_objects_are_held_in_one_order_so_that_nobody_waits_for_ever() -> None:
    one, other = Slow(), Slow()

    def both(*order: Slow) -> None:
        for _ in range(20):
            with all_turns(*order):
                one.add()
                other.add()

    in_threads(lambda: both(one, other), lambda: both(other, one))
    assert (one.count, other.count) == (40, 40)


@pytest.mark.parametrize("copied", [deepcopy, lambda slow: pickle.loads(pickle.dumps(slow))])
def test_a_copy_has_a_turn_of_its_own(copied: Callable[[Slow], Slow]) -> None:
    slow = Slow()
    with slow.turn:
        twin = copied(slow)
        in_threads(twin.add)  # while this thread holds the other's
    assert (slow.count, twin.count) == (0, 1)


@pytest.fixture
def often() -> Iterator[None]:
    """Let threads change every few instructions, so that they come between each other."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def learn_all(model: ImageModel, batches: list[tuple[list[np.ndarray], list[str]]]) -> None:
    for images, labels in batches:
        model.learn(images, labels)


@pytest.mark.usefixtures("often")
def test_a_model_that_learns_in_four_threads_loses_nothing(tmp_path: Path) -> None:
    """Features come from the cache, so that the threads do nothing but add; five times, as it is chance."""
    batches = [batch({digit: 1}, start=i) for digit in range(4) for i in range(10)]
    nano, cache = load_backbone("vit-nano"), FeatureCache(tmp_path)
    alone = LayUP(nano, k=2, lam=1.0, cache=cache)
    learn_all(alone, batches)
    for _ in range(5):
        shared = LayUP(nano, k=2, lam=1.0, cache=cache)
        works = [partial(learn_all, shared, batches[start::THREADS]) for start in range(THREADS)]
        in_threads(*works, lambda: [(shared.counts_, shared.classes_) for _ in range(50)])  # noqa: B023
        assert shared.counts_ == alone.counts_
        np.testing.assert_allclose(shared.statistics_.gram, alone.statistics_.gram, rtol=1e-9)
        np.testing.assert_allclose(shared.statistics_.prototypes, alone.statistics_.prototypes, rtol=1e-9)


@pytest.mark.slow
def test_predicting_and_saving_beside_learning(tmp_path: Path) -> None:
    one = LayUP("vit-nano", k=2, lam=1.0, cache=False)
    images, labels = batch({0: 4, 1: 4})
    one.learn(images, labels)
    more = [batch({digit: 3}, start=60) for digit in range(2, 8)]

    def predict() -> None:
        for _ in range(10):
            assert set(one.predict(images).tolist()) <= {*one.classes_}
            one.save(tmp_path / "m.layup")
            assert load(tmp_path / "m.layup").counts_.keys() <= {*one.classes_}

    in_threads(lambda: [one.learn(*each) for each in more], predict, predict)
    assert sum(one.counts_.values()) == 8 + 3 * len(more)


@pytest.mark.usefixtures("often")
def test_merging_beside_learning_in_both_directions(tmp_path: Path) -> None:
    """One model learns, others are added to it, and it is added to others: all batches of three images."""
    nano, cache = load_backbone("vit-nano"), FeatureCache(tmp_path)
    batches = [batch({digit: 3}, start=3 * i) for digit in range(5) for i in range(10)]

    def knowing(*held: tuple[list[np.ndarray], list[str]]) -> LayUP:
        model = LayUP(nano, k=2, lam=1.0, cache=cache)
        learn_all(model, list(held))
        return model

    one = knowing()
    learned, *others = (batches[start::5] for start in range(5))
    givers, takers = (
        [[knowing(each) for each in part] for part in half] for half in (others[:2], others[2:])
    )
    in_threads(
        lambda: learn_all(one, learned),
        *[lambda part=part: [one.merge(giver) for giver in part] for part in givers],
        *[lambda part=part: [taker.merge(one) for taker in part] for part in takers],
    )
    assert one.statistics_.total == 3 * 30
    for model in (one, *(taker for part in takers for taker in part)):
        learned = [sum(entry.learned.values()) for entry in model.log if entry.action == "learn"]
        assert {*learned} == {3}
        assert model.statistics_.total == len(model.photos) == sum(learned)  # all of a batch, or nothing
