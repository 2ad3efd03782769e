"""Threads in which requests are answered: each kind of work has its own, so that none starves another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from layup.serving.refusals import RequestError

Given = ParamSpec("Given")
Found = TypeVar("Found")


class Lane:
    """So many requests of a kind are answered at the same time, so many wait; more are told to come again."""

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self.most = threads + waiting
        self.inside = 0

    async def run(self, work: Callable[Given, Found], /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        """What the work returns; called on the event loop."""
        if self.inside >= self.most:
            raise RequestError(
                503,
                "busy",
                f"{self.inside} requests of this kind are being answered, or wait. Send this again later.",
                {"Retry-After": "1"},
            )
        self.inside += 1
        future = asyncio.get_running_loop().run_in_executor(self.pool, lambda: work(*args, **kwargs))
        future.add_done_callback(self._left)
        return await asyncio.shield(future)

    def _left(self, _: object) -> None:
        """Also when the client has gone: what was accepted is finished."""
        self.inside -= 1

    def close(self) -> None:
        """Wait for what was accepted."""
        self.pool.shutdown(wait=True)
