"""A pool of workers: processes of Ray's that do independent tasks, and what fails is tried again.

A worker is a process that is made ready once, with the network loaded, say, and then does one task after
another. If it dies, for lack of memory or with its whole node, if it raises what nobody foresaw, or if its
result is lost on the way, its task is given to another one. So a task must be the same whenever and however
often it is done.
"""

from __future__ import annotations

import os
import platform
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from layup import machine
from layup.errors import LayupError, MismatchError, first_line

TRIES = 4
"""How often a task is tried before it is given up."""

T = TypeVar("T")


@dataclass(frozen=True)
class Shared:
    """A value that travels once to each machine, and only if a worker there asks for it."""

    reference: Any

    def get(self) -> Any:
        """The value, in a worker."""
        import ray

        return ray.get(self.reference)


@dataclass(frozen=True)
class Surroundings:
    """What all workers must have in common with the process that they work for."""

    folder: str
    versions: Mapping[str, str]

    @classmethod
    def here(cls) -> Surroundings:
        """Those of this process."""
        return cls(str(Path.cwd()), machine.versions())

    def enter(self) -> None:
        """Make a worker ready; refuses other versions, whose results may differ."""
        own = machine.versions()
        for name in {*self.versions} | {*own}:
            here, there = own.get(name, "none"), self.versions.get(name, "none")
            if here != there:
                raise MismatchError(
                    f"it has version {here} of {name}, and the process that it works for {there}. Install "
                    "the same versions on all machines."
                )
        import torch

        torch.set_num_threads(1)  # there is one worker per processor
        with suppress(OSError):  # a machine without it has no use for relative paths
            os.chdir(self.folder)


class Process:
    """What runs in a process of Ray's."""

    work: Callable[[Any], Any]

    def begin(
        self, make: tuple[Callable[..., Callable[[Any], Any]], Sequence[Any]], around: Surroundings
    ) -> None:
        """Make it ready; `make` is a function, and what it is given."""
        function, given = make
        try:
            around.enter()
            self.work = function(*given)
        except LayupError as error:
            raise type(error)(
                f"A worker on '{platform.node()}' cannot begin: {error}", about=error.about
            ) from None

    def do(self, message: Any) -> Any:
        """Do a task."""
        return self.work(message)


@dataclass
class _Lost:
    """Instead of a result: the worker died, or failed in a way that nobody foresaw."""

    why: str


class Pool:
    """Workers on a cluster, begun when there is something to do: see `Cluster.pool`.

    ray: the module, connected. size: the most workers at a time. needs: what Ray reserves for each.
    make: with `given`, makes in each worker the function that does a task.
    """

    def __init__(
        self,
        ray: Any,
        size: int,
        needs: Mapping[str, int],
        make: Callable[..., Callable[[Any], Any]],
        given: Sequence[Any],
    ) -> None:
        self.ray, self.size, self.needs = ray, size, dict(needs)
        self._make, self._around = ray.put((make, given)), Surroundings.here()
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, int | None]] = {}
        """By what it will say: a worker, and the number of its task; None while it begins."""
        self._stumbled = 0
        """How many workers could not begin, one after another."""

    def share(self, value: Any) -> Shared:
        """A value for messages: it does not travel with each of them."""
        return Shared(self.ray.put(value))

    def run(
        self, tasks: Sequence[T], message: Callable[[T], Any] = lambda task: task
    ) -> Iterator[tuple[int, Any]]:
        """Do these tasks, in any order; gives the number of each, and its result or a `LayupError`.

        message: what a worker is sent for a task, made when it is its turn.

        What the work itself raises as a `LayupError` is final. All else is tried again, up to four times.
        """
        waiting, failures, left = deque(range(len(tasks))), Counter[int](), len(tasks)
        try:
            while left:
                self._begin_some(len(waiting))
                while waiting and self._idle:
                    number = waiting.popleft()
                    sent, worker = message(tasks[number]), self._idle.pop()
                    self._busy[worker.do.remote(sent)] = worker, number
                done, found = self._next()
                if done is None:
                    continue
                if isinstance(found, _Lost):
                    failures[done] += 1
                    if failures[done] < TRIES:
                        waiting.append(done)
                        continue
                    found = LayupError(f"it failed {TRIES} times. The last time: {found.why}")
                left -= 1
                yield done, found
        finally:
            self._abandon()

    def close(self) -> None:
        """End all workers."""
        for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]:
            self.ray.kill(worker)
        self._idle, self._busy = [], {}

    def _begin_some(self, tasks: int) -> None:
        """Begin workers until there is one for each task that waits, as far as there is room."""
        beginning = sum(number is None for _, number in self._busy.values())
        room = self.size - len(self._busy) - len(self._idle)
        for _ in range(min(room, tasks - beginning - len(self._idle))):
            worker = self.ray.remote(**self.needs)(Process).remote()
            self._busy[worker.begin.remote(self._make, self._around)] = worker, None

    def _next(self) -> tuple[int | None, Any]:
        """Wait for a worker; gives the number of the task that it has done, if it was not just beginning."""
        [ready], _ = self.ray.wait([*self._busy], num_returns=1)
        worker, number = self._busy.pop(ready)
        try:
            found = self.ray.get(ready)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            found = cause if isinstance(cause, LayupError) else _Lost(first_line(cause))
        if isinstance(found, _Lost):
            self.ray.kill(worker)  # it may live, with little memory left, say
        else:
            self._idle.append(worker)
        if number is None:
            self._require_begun(found)
        return number, found

    def _require_begun(self, found: Any) -> None:
        """Refuse to go on if workers cannot begin: all may be lost at once, but not again and again."""
        if isinstance(found, LayupError):
            raise found
        self._stumbled = self._stumbled + 1 if isinstance(found, _Lost) else 0
        if isinstance(found, _Lost) and self._stumbled >= self.size + TRIES - 1:
            raise LayupError(
                f"No worker could begin. The last one: {found.why} See that layup is installed on all "
                "machines."
            )

    def _abandon(self) -> None:
        """End workers whose tasks nobody waits for any more."""
        for ready, (worker, number) in [*self._busy.items()]:
            if number is not None:
                self.ray.kill(worker)
                del self._busy[ready]


def in_order(found: Iterable[tuple[int, T]]) -> Iterator[T]:
    """What came in any order with its number, from 0 on, in the order of the numbers.

    >>> [*in_order([(2, "c"), (0, "a"), (1, "b")])]
    ['a', 'b', 'c']
    """
    waiting: dict[int, T] = {}
    due = 0
    for number, each in found:
        waiting[number] = each
        while due in waiting:
            yield waiting.pop(due)
            due += 1
