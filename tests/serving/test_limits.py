"""How much may be asked."""

from __future__ import annotations

import pytest

from layup.serving import RequestLimits
from layup.serving.limits import Rate, Room
from layup.serving.refusals import RequestError
from servers import client, files, photo


class Clock:
    """A time that tests set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_fills_again():
    clock = Clock()
    rate = Rate(2.0, 3, clock)
    assert [rate.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]
    clock.now = 0.5
    assert [rate.wait("a") for _ in range(2)] == [0, 0.5]
    clock.now = 1000
    assert [rate.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]  # never more than the burst


def test_clients_do_not_take_from_each_other():
    rate = Rate(1.0, 1, Clock())
    assert [rate.wait(name) for name in "abab"] == [0, 0, 1, 1]


def test_not_every_client_is_remembered_for_ever():
    rate = Rate(1.0, 1, Clock())
    for number in range(Rate.CLIENTS + 10):
        rate.wait(str(number))
    assert len(rate.buckets) == Rate.CLIENTS
    assert rate.wait("0") == 0
    assert rate.wait(str(Rate.CLIENTS)) == 1


def test_who_asks_too_often_is_told_when_to_come_again():
    with client(limits=RequestLimits(rate=0.25, burst=2)) as asking:
        answers = [asking.get("/v2/health/live") for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 429]
    assert answers[2].headers["retry-after"] == "4"
    assert answers[2].json()["error"]["code"] == "too-many-requests"


def test_room_is_given_back():
    room = Room(10)
    with room.share() as first:
        first(6)
        with room.share() as second, pytest.raises(RequestError) as refused:
            second(5)
        assert refused.value.status == 503
        first(4)
        assert room.taken == 10
    assert room.taken == 0


def test_uploads_that_do_not_fit_together_are_told_to_come_again():
    with client(limits=RequestLimits(held=500)) as asking:
        answer = asking.post("/teach", files=files(photo(0) + bytes(1000)), data={"label": "a"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
        assert answer.headers["retry-after"]
        assert asking.app.state.service.room.taken == 0
