"""Many clients of one server: what they find, and that it would be found if it were broken."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from layup import ImageModel, load
from layup.serving import Hosts, LiveModel, RequestLimits, Service, Tokens, create_app
from servers import running
from torture import clients, samples
from torture.callers import Caller, Change
from torture.clients import Moment, Soak, leaked, require_all, require_flat
from torture.live_server import Taken, new_model
from torture.promise import BrokenError

LIMITS = RequestLimits(rate=1e6, burst=10**6)


@contextmanager
def served(folder: Path) -> Iterator[tuple[LiveModel, int]]:
    """A server in this process, and its port."""
    with LiveModel.open(folder / "m.layup", new=lambda: new_model(folder)) as live:
        app = create_app(Service.of(live, Hosts.of("127.0.0.1"), Tokens(), LIMITS, None))
        with running(app, LIMITS) as url:
            yield live, urlsplit(url).port or 0


def called(port: int, requests: int = 60) -> list[Change]:
    """What is acknowledged to a client that sends so many requests, or up to ten times, if all are lessons.

    How many of them are changes depends on how fast the server is.
    """
    caller = Caller(port, Random(3))
    while caller.asked < requests or (
        caller.asked < 10 * requests and all(change.action == "learn" for change in caller.changes)
    ):
        caller.run(time.monotonic() + 0.1, time.monotonic() + 0.15)
    return caller.changes


@pytest.fixture(scope="module")
def acknowledged(tmp_path_factory) -> tuple[list[Change], Path]:
    folder = tmp_path_factory.mktemp("served")
    with served(folder) as (_, port):
        changes = called(port)
    return changes, folder


def plain_and(acknowledged: tuple[list[Change], Path], tmp_path: Path) -> tuple[ImageModel, ImageModel]:
    return load(acknowledged[1] / "m.layup", backbone=samples.tiny()), new_model(tmp_path)


def test_what_a_client_was_told_is_in_the_model(acknowledged, tmp_path: Path) -> None:
    changes, _ = acknowledged
    assert {"learn"} < {change.action for change in changes}
    require_all(changes, *plain_and(acknowledged, tmp_path))


def without_the_end(changes: list[Change]) -> list[Change]:
    """As if the last change that made a difference, and all after it, had not been acknowledged."""
    before = [{}, *(change.counts for change in changes)]
    return changes[: max(i for i, change in enumerate(changes) if change.counts != before[i])]


def without_the_first(changes: list[Change]) -> list[Change]:
    return changes[1:]


def told_wrong(changes: list[Change]) -> list[Change]:
    return [replace(changes[0], counts={"class a": 9}), *changes[1:]]


@pytest.mark.parametrize(
    ("broken", "way"),
    [
        (without_the_end, "the sums are not those"),
        (without_the_first, "changes were lost"),
        (told_wrong, "the counts are not those"),
    ],
)
def test_what_was_lost_is_found(
    acknowledged, tmp_path: Path, broken: Callable[[list[Change]], list[Change]], way: str
) -> None:
    with pytest.raises(BrokenError, match=way):
        require_all(broken(acknowledged[0]), *plain_and(acknowledged, tmp_path))


def test_a_failure_of_the_server_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("nobody foresaw this")

    with served(tmp_path) as (live, port):
        monkeypatch.setattr(live, "predict", fail)
        with pytest.raises(BrokenError, match="was answered with 500"):
            called(port)


def moments(of: Callable[[int], Taken]) -> list[Moment]:
    return [Moment(100 * number, of(number)) for number in range(50)]


def test_memory_that_grows_by_a_thousand_bytes_per_request_is_found() -> None:
    chance = Random(0)
    flat = moments(lambda _: Taken(300_000_000 + chance.randrange(400_000), 90))
    require_flat(flat)
    growing = [replace(each, taken=Taken(each.taken.memory + 1200 * each.requests, 90)) for each in flat]
    assert leaked(growing) == pytest.approx(leaked(flat) + 1200, abs=0.2)
    with pytest.raises(BrokenError, match="memory grows with requests"):
        require_flat(growing)


def test_threads_that_grow_are_found() -> None:
    with pytest.raises(BrokenError, match="more threads"):
        require_flat(moments(lambda number: Taken(300_000_000, 90 + number)))


@pytest.mark.slow
def test_a_server_with_a_few_clients_for_a_few_seconds(tmp_path: Path) -> None:
    found = clients.tried(tmp_path, clients=8, seconds=6, chance=Random(1))
    assert isinstance(found, Soak)
    assert found.changes
    assert found.answers["predict", 200] > 20
    assert found.moments[-1].taken.threads > 8
