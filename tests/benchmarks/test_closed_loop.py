"""Clients that ask again when they were answered, and the passes that they are compared with."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from benchmarks.bare import TOGETHER, BarePass
from benchmarks.closed_loop import BEGIN, END, AnswerError, Seen, load, request
from layup.backbones import load_backbone


@contextmanager
def answering(*statuses: int) -> Iterator[tuple[int, list[bytes]]]:
    """A server that answers with these statuses in turn: its port, and the bodies that it was sent."""
    bodies: list[bytes] = []
    ended, begun = threading.Event(), threading.Event()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")
            )
            bodies.append(await reader.readexactly(length))
            status = statuses[(len(bodies) - 1) % len(statuses)]
            writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: 2\r\n\r\nok".encode())

    async def serve() -> None:
        server = await asyncio.start_server(quiet(one), sock=bound)
        begun.set()
        while not ended.is_set():
            await asyncio.sleep(0.01)
        server.close()

    def quiet(work):
        async def answered(*streams) -> None:
            try:
                await work(*streams)
            except asyncio.IncompleteReadError:
                streams[1].close()

        return answered

    with socket.create_server(("127.0.0.1", 0)) as bound:
        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        begun.wait(10)
        try:
            yield bound.getsockname()[1], bodies
        finally:
            ended.set()
            thread.join()


def test_every_request_is_a_photo_that_nobody_has_seen():
    with answering(200) as (port, bodies):
        seen = load("/predict", port, [b"a", b"b"], clients=3, seconds=0.2, warm=0.05)
    assert len(bodies) == len(set(bodies)) == seen.answered > len(seen.latencies) > 3
    assert all(body.startswith(BEGIN) and body.endswith(END) for body in bodies)
    assert seen.refused == 0


def test_who_is_refused_comes_again():
    with answering(200, 503) as (port, _):
        seen = load("/predict", port, [b"a"], clients=2, seconds=1.2, warm=0)
    assert seen.refused >= 2
    assert seen.latencies


def test_what_nobody_expected_is_an_error():
    with answering(422) as (port, _), pytest.raises(AnswerError, match="answered with 422"):
        load("/predict", port, [b"a"], clients=1, seconds=0.2, warm=0)


def test_percentiles_and_rates():
    seen = Seen(1, 4.0, [0.1] * 98 + [1.0, 2.0])
    assert (seen.per_second, seen.percentile(50)) == (25, 0.1)
    assert 1 < seen.percentile(99.5) < 2
    assert request("/x", 80, b"photo").startswith(b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:80\r\n")


def test_who_waits_for_a_bare_pass_passes_together():
    backbone = load_backbone("vit-nano")
    bare, sizes = BarePass(backbone), []
    bare.network.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))

    async def ask(images) -> list[int]:
        return await asyncio.gather(*(bare.one(each) for each in images))

    asyncio.run(ask([None] * (TOGETHER + 5)))
    assert sizes == [TOGETHER, 5]
    photos = torch.rand(3, 3, *backbone.preprocessing.size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = backbone.network(photos).argmax(1).tolist()
    assert asyncio.run(ask(photos)) == expected
    with pytest.raises(ValueError, match="unpack"):
        asyncio.run(ask([torch.zeros(1)]))
    assert bare.for_seconds(0.01) > 0
