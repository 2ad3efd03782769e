"""Clients of a server that send the next request when the last one was answered: a closed loop.

All of them are in one thread and read no more of an answer than they must: they share the machine with the
server, and what they take is taken from it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

BOUNDARY = "a-boundary-that-no-photo-holds"
BEGIN = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="images"; filename="photo.jpg"\r\n'
    "Content-Type: image/jpeg\r\n\r\n"
).encode()
END = f"\r\n--{BOUNDARY}--\r\n".encode()
BUSY = 503
PAUSE = 0.5
"""Seconds before a client that was refused comes again."""

fresh = count()


class AnswerError(Exception):
    """A server answered what nobody expected of it."""


@dataclass
class Seen:
    """What clients saw in so many seconds: how long each answer took, and how many requests were refused.

    answered: requests in all, also those before and after that time.
    """

    clients: int
    seconds: float
    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    answered: int = 0

    @property
    def per_second(self) -> float:
        """Answers per second.

        >>> Seen(2, 2.0, [0.1, 0.1, 0.2]).per_second
        1.5
        """
        return len(self.latencies) / self.seconds

    def percentile(self, percent: float) -> float:
        """The seconds within which so many percent of the answers came.

        >>> Seen(1, 1.0, [0.1, 0.2, 0.3]).percentile(50)
        0.2
        """
        return float(np.percentile(self.latencies, percent)) if self.latencies else float("nan")


def request(path: str, port: int, photo: bytes) -> bytes:
    """A photo as a form. A number after its end, which JPEG allows, makes it one that nobody has seen."""
    body = BEGIN + photo + next(fresh).to_bytes(8, "big") + END
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status and the body of the next answer on a connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines if line)
    body = await reader.readexactly(int(headers["content-length"]))
    return int(status.split()[1]), body


def load(path: str, port: int, photos: Sequence[bytes], clients: int, seconds: float, warm: float) -> Seen:
    """Let so many clients send photos for so long, after a while that does not count."""
    return asyncio.run(_load(path, port, photos, clients, seconds, warm))


async def _load(
    path: str, port: int, photos: Sequence[bytes], clients: int, seconds: float, warm: float
) -> Seen:
    seen = Seen(clients, seconds)
    begin = time.perf_counter() + warm
    loops = (_client(path, port, photos[first::clients] or photos, begin, seen) for first in range(clients))
    await asyncio.gather(*loops)
    return seen


async def _client(path: str, port: int, photos: Sequence[bytes], begin: float, seen: Seen) -> None:
    """One client. Only answers that come within the time count, whenever they were asked for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    end = begin + seen.seconds
    try:
        for turn in count():
            asked = time.perf_counter()
            if asked >= end:
                return
            writer.write(request(path, port, photos[turn % len(photos)]))
            status, body = await answer(reader)
            now = time.perf_counter()
            seen.answered += status == 200
            if status not in (200, BUSY):
                raise AnswerError(f"{path} was answered with {status}: {body[:500]!r}")
            if begin <= now < end and status == BUSY:
                seen.refused += 1
            elif begin <= now < end:
                seen.latencies.append(now - asked)
            if status == BUSY:
                await asyncio.sleep(PAUSE)
    finally:
        writer.close()
