"""How much one request, one client and all of them together may ask for."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from layup.formats import size_of
from layup.serving.refusals import RequestError


@dataclass(frozen=True)
class RequestLimits:
    """What a server takes: sizes in bytes, times in seconds.

    body: of one request. image: of one photo in it. images: photos in one request. field: of a text field.
    pixels: of one photo, decoded. held: of all requests that are being received or answered.
    upload: for how long one request may take to arrive. header: for how long its header may.
    rate, burst: requests of one client per second, and how many may come together.
    threads, waiting: for each kind of work, how many requests are answered at the same time, and how many
        wait for that; more are told to come again.
    """

    body: int = 256_000_000
    image: int = 64_000_000
    images: int = 256
    field: int = 100_000
    pixels: int = 64_000_000
    held: int = 1_000_000_000
    upload: float = 120
    header: float = 15
    rate: float = 1000
    burst: int = 2000
    threads: int = 32
    waiting: int = 256


class Room:
    """Counts the bytes of all requests that are being received or answered, and refuses more than fit.

    Belongs to one event loop, so that it needs no lock.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken = 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """What one request takes, in as many parts as it arrives in; given back at the end."""
        mine = 0

        def take(count: int) -> None:
            nonlocal mine
            if self.taken + count > self.size:
                raise RequestError(
                    503,
                    "busy",
                    f"The server holds {size_of(self.size)} of uploads already, which is all that it may. "
                    "Send this again later.",
                    {"Retry-After": "2"},
                )
            self.taken += count
            mine += count

        try:
            yield take
        finally:
            self.taken -= mine


class Rate:
    """A token bucket for each client: so many requests per second, and a burst of more.

    >>> rate = Rate(1.0, 2, clock=lambda: 0.0)
    >>> rate.wait("a"), rate.wait("a"), rate.wait("a"), rate.wait("b")
    (0.0, 0.0, 1.0, 0.0)
    """

    CLIENTS = 10_000
    """How many clients are remembered; the one that was not seen for longest is forgotten."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self.clock = rate, burst, clock
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Count a request of a client: 0, or for how many seconds it has to wait first."""
        now = self.clock()
        tokens, seen = self.buckets.pop(client, (float(self.burst), now))
        tokens = min(self.burst, tokens + (now - seen) * self.rate)
        allowed = tokens >= 1
        self.buckets[client] = (tokens - allowed, now)
        if len(self.buckets) > self.CLIENTS:
            self.buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self.rate
