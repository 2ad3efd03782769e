"""One thread reads for many callers: together where it can, and each gets its own photos and errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from layup import LayUP
from layup.errors import BusyError, LayupError
from layup.features import Extraction, FeatureSource
from layup.images import ImageSource
from layup.serving.network import NetworkThread, SharedSource
from layup.serving.waiting import awaited
from live import photos, wait_until
from models import small_network

IMAGES = [*photos(range(20)), b"no image", *photos(range(20, 40))]


@pytest.fixture
def alone() -> FeatureSource:
    """What reads photos without another thread."""
    return LayUP(small_network(), 2, cache=False).extractor_


class Held:
    """A source that waits before it reads, and counts what it reads together."""

    def __init__(self, source: FeatureSource) -> None:
        self.source = source
        self.layers, self.cache, self.steps = source.layers, source.cache, source.steps
        self.may = threading.Event()
        self.begun = threading.Event()
        self.sizes: list[int] = []

    def extract(self, images: Sequence[ImageSource], title: str = "") -> Extraction:
        self.begun.set()
        self.may.wait(20)
        self.sizes.append(len(images))
        if b"fatal" in images:
            raise OSError("the disk is gone")
        return self.source.extract(images)


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
    shared = SharedSource(held, network)  # type: ignore[arg-type]
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
    shared = SharedSource(held, network)  # type: ignore[arg-type]
    with ThreadPoolExecutor(4) as pool:
        good = [pool.submit(shared.extract, photos([number])) for number in range(3)]
        bad = pool.submit(shared.extract, [b"fatal"])
        wait_until(lambda: network.waiting == 4)
        held.may.set()
        assert [len(each.result().kept) for each in good] == [1, 1, 1]
        with pytest.raises(OSError, match="disk is gone"):
            bad.result()
    assert network.alive


def test_too_many_callers_are_refused_and_late_ones_given_up(held: Held) -> None:
    network = NetworkThread(16, gather=0, most=2, patience=0.3)
    shared = SharedSource(held, network)  # type: ignore[arg-type]
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(shared.extract, photos([number])) for number in range(2)]
        wait_until(lambda: network.waiting == 2)
        with pytest.raises(BusyError, match="2 others are waiting already"):
            shared.extract(photos([3]))
        for each in asked:
            with pytest.raises(BusyError, match=r"takes longer than 0\.3 s"):
                each.result()
    assert network.waiting == 0
    held.may.set()
    assert len(shared.extract(photos([3])).kept) == 1
    network.close()
    with pytest.raises(LayupError, match="Start the server again"):
        shared.extract(photos([3]))


def test_what_was_not_begun_in_time_is_not_done() -> None:
    waiting: Future[int] = Future()
    with pytest.raises(BusyError, match="It was not begun"):
        awaited(waiting, 0.01, "Counting")
    assert not waiting.set_running_or_notify_cancel()
    begun: Future[int] = Future()
    begun.set_running_or_notify_cancel()
    with pytest.raises(BusyError, match="It may still be done"):
        awaited(begun, 0.01, "Counting")
