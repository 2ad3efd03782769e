"""One thread computes for many callers: together where it can, and each gets its own rows and errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from layup import LayUP
from layup.errors import BusyError, LayupError
from layup.features import Extraction, FeatureSource, Rows
from layup.features.sources import MappedRows
from layup.images import image_digest
from layup.serving.network import READERS, NetworkThread, SharedSource
from layup.serving.waiting import awaited
from live import photo, photos, wait_until
from models import small_network

IMAGES = [*photos(range(20)), b"no image", *photos(range(20, 40))]
FATAL = photo(50)


@pytest.fixture
def alone() -> FeatureSource:
    """What reads photos without another thread."""
    return LayUP(small_network(), 2, cache=False).extractor_


class Held(MappedRows):
    """A source that waits before it computes, and counts what it computes together."""

    def __init__(self, source: FeatureSource) -> None:
        self.source = source
        self.layers, self.steps = source.layers, source.steps
        self.may = threading.Event()
        self.begun = threading.Event()
        self.sizes: list[int] = []

    def mapped(self, rows: Rows) -> Rows:
        return rows

    def computed(self, reads: Sequence[Any]) -> list[Extraction]:
        self.begun.set()
        self.may.wait(20)
        self.sizes.append(sum(len(read.kept) + len(read.bad) for read in reads))
        if any(image_digest(FATAL) in read.digests for read in reads):
            raise OSError("the disk is gone")
        return super().computed(reads)


class Doubled:
    """A use of rows, which counts how many it is given together."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, rows: Rows) -> Rows:
        self.sizes.append(len(rows))
        return 2 * rows


@pytest.fixture
def held(alone: FeatureSource) -> Held:
    return Held(alone)


@pytest.fixture
def network() -> Iterator[NetworkThread]:
    found = NetworkThread(16, gather=0.2, patience=20)
    yield found
    found.close()


def test_many_images_are_read_in_parts_as_alone(alone: FeatureSource, network: NetworkThread) -> None:
    expected, found = alone.extract(IMAGES), SharedSource(alone, network).extract(IMAGES)
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.kept, expected.kept)
    assert (found.digests, found.bad, found.forwarded) == (expected.digests, expected.bad, expected.forwarded)


def test_callers_share_a_pass_and_each_gets_its_own(
    alone: FeatureSource, held: Held, network: NetworkThread
) -> None:
    shared = SharedSource(held, network)
    with ThreadPoolExecutor(10) as pool:
        asked = [pool.submit(shared.extract, IMAGES[start : start + 3]) for start in range(0, 30, 3)]
        held.may.set()
        found = [each.result() for each in asked]
    for start, each in zip(range(0, 30, 3), found, strict=True):
        expected = alone.extract(IMAGES[start : start + 3])
        np.testing.assert_array_equal(each.rows, expected.rows)
        np.testing.assert_array_equal(each.kept, expected.kept)
        assert (each.digests, each.bad) == (expected.digests, expected.bad)
    assert sum(held.sizes) == 30
    assert len(held.sizes) < 10
    assert max(held.sizes) <= 16


def test_rows_of_a_pass_are_used_together_and_each_gets_its_own(
    alone: FeatureSource, held: Held, network: NetworkThread
) -> None:
    shared, twice, again = SharedSource(held, network), Doubled(), Doubled()
    groups = [(IMAGES[18:22], twice), ([b"no image"], twice), (IMAGES[:2], again), (IMAGES[2:5], twice)]
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(shared.extract, IMAGES[30:31])
        held.begun.wait(20)
        asked = [pool.submit(lambda each=each: [*shared.used(*each)]) for each in groups]
        wait_until(lambda: len(network._jobs) == len(groups))
        held.may.set()
        assert len(first.result().kept) == 1
        found = [each.result() for each in asked]
    for (images, _), (used,) in zip(groups, found, strict=True):
        expected = alone.extract(images)
        np.testing.assert_array_equal(used.found.rows, expected.rows)
        np.testing.assert_array_equal(used.made, 2 * expected.rows)
        assert used.found.bad == expected.bad
    assert held.sizes == [1, 10]
    assert (twice.sizes, again.sizes) == ([6], [2])


def test_an_error_in_a_use_fails_only_who_asked_for_it(held: Held, network: NetworkThread) -> None:
    shared = SharedSource(held, network)

    def broken(rows: Rows) -> Rows:
        raise LayupError("these rows have no use")

    with ThreadPoolExecutor(2) as pool:
        bad = pool.submit(lambda: [*shared.used(IMAGES[:2], broken)])
        good = pool.submit(shared.extract, IMAGES[2:5])
        wait_until(lambda: network.waiting == 2)
        held.may.set()
        with pytest.raises(LayupError, match="no use"):
            bad.result()
        assert len(good.result().kept) == 3
    assert network.alive


def test_a_pass_waits_for_those_who_were_just_answered(
    held: Held, network: NetworkThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layup.serving.network.RETURN", 1e6)
    source = SharedSource(held, network)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(source.extract, IMAGES[:3])
        held.begun.wait(20)
        second = pool.submit(source.extract, IMAGES[3:5])
        wait_until(lambda: network.waiting == 2)
        held.may.set()
        first.result(20)
        assert not second.done()
        pool.submit(source.extract, IMAGES[:3]).result(20)
        second.result(20)
    assert held.sizes == [3, 5]


def test_who_is_alone_waits_for_nobody(
    held: Held, network: NetworkThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layup.serving.network.RETURN", 1e6)
    held.may.set()
    for _ in range(3):
        SharedSource(held, network).extract(IMAGES[:3])
    assert held.sizes == [3, 3, 3]


def test_an_error_fails_only_those_whose_photos_it_is_about(held: Held, network: NetworkThread) -> None:
    shared = SharedSource(held, network)
    with ThreadPoolExecutor(4) as pool:
        good = [pool.submit(shared.extract, photos([number])) for number in range(3)]
        bad = pool.submit(shared.extract, [FATAL])
        wait_until(lambda: network.waiting == 4)
        held.may.set()
        assert [len(each.result().kept) for each in good] == [1, 1, 1]
        with pytest.raises(OSError, match="disk is gone"):
            bad.result()
    assert network.alive


def test_too_many_callers_are_refused_and_late_ones_given_up(held: Held) -> None:
    network = NetworkThread(16, gather=0, most=2, patience=0.3)
    shared = SharedSource(held, network)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(shared.extract, photos([number])) for number in range(2)]
        wait_until(lambda: network.waiting == 2)
        with pytest.raises(BusyError, match="2 others are waiting already"):
            shared.extract(photos([3]))
        for each in asked:
            with pytest.raises(BusyError, match=r"takes longer than 0\.3 s"):
                each.result()
    assert network.waiting == 0
    network.patience = 20
    held.may.set()
    assert len(shared.extract(photos([3])).kept) == 1
    network.close()
    with pytest.raises(LayupError, match="Start the server again"):
        shared.extract(photos([3]))


def test_who_cannot_begin_to_decode_in_time_is_told_to_come_again(alone: FeatureSource) -> None:
    network = NetworkThread(16, patience=0.1)
    shared = SharedSource(alone, network)
    with ExitStack() as decoding:
        for _ in range(READERS):
            decoding.enter_context(network.reading())
        with pytest.raises(BusyError, match=r"takes longer than 0\.1 s. It was not begun"):
            shared.extract(IMAGES[:1])
    assert len(shared.extract(IMAGES[:1]).kept) == 1
    network.close()


def test_what_is_read_elsewhere_is_computed_in_turn(alone: FeatureSource, network: NetworkThread) -> None:
    shared, batches = SharedSource(alone, network), [[0, 1], [20], [5]]
    read = shared.reader(IMAGES)
    found, expected = shared.computed([read(each) for each in batches]), alone.extract(IMAGES)
    rows = [expected.rows[:2], expected.rows[:0], expected.rows[5:6]]
    for each, own in zip(found, rows, strict=True):
        np.testing.assert_array_equal(each.rows, own)


def test_what_was_not_begun_in_time_is_not_done() -> None:
    waiting: Future[int] = Future()
    with pytest.raises(BusyError, match="It was not begun"):
        awaited(waiting, 0.01, "Counting")
    assert not waiting.set_running_or_notify_cancel()
    begun: Future[int] = Future()
    begun.set_running_or_notify_cancel()
    with pytest.raises(BusyError, match="It may still be done"):
        awaited(begun, 0.01, "Counting")
