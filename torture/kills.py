"""The process is killed at every step that it takes on files, and at random moments."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

from torture.deeds import Rehearsed, rehearse
from torture.faults import Step, tapped
from torture.promise import Promise, Tries, about, mixed

LONGEST = 0.6
"""Seconds after which, at the latest, a process is killed at a random moment."""


def _die_at(number: int, now: int, _step: Step) -> None:
    if now == number:
        os.kill(os.getpid(), signal.SIGKILL)


def killed_at_step(rehearsal: Rehearsed, folder: Path, number: int) -> None:
    """Do it in a process of its own, which dies just before its n-th step."""

    def child() -> None:
        with tapped(folder, partial(_die_at, number)):
            rehearsal.deed.act(folder)

    os.waitpid(_forked(child), 0)


def _killed_after(rehearsal: Rehearsed, folder: Path, seconds: float) -> None:
    child = _forked(lambda: rehearsal.deed.act(folder))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def tries(rehearsals: Sequence[Rehearsed]) -> Tries:
    """One for each step of each deed, and the end; then random moments."""
    cases = mixed((each, number) for each in rehearsals for number in range(len(each.steps) + 1))

    def attempt(index: int, chance: Random, folder: Path) -> None:
        rehearsal, number = cases[index] if index < len(cases) else (chance.choice(rehearsals), -1)
        rehearsal.lay_out(folder)
        if number >= 0:
            steps = [*rehearsal.steps, "the end"]
            moment = f"step {number + 1} of {len(steps)}, {steps[number]}"
            killed_at_step(rehearsal, folder, number)
        else:
            seconds = chance.uniform(0, LONGEST) * chance.random()
            moment = f"{seconds:.3f} s"
            _killed_after(rehearsal, folder, seconds)
        with about(f"'{rehearsal.deed.name}' was killed at {moment}"):
            state = rehearsal.require_old_or_new(folder)
            rehearsal.require_going_on(folder, state)

    return Tries(attempt, len(cases))


def prepare(folder: Path) -> Tries:
    """Learn how everything should go, to know it from what it must not be."""
    return tries(rehearse(folder))


PROMISE = Promise(
    "kills",
    "Whenever a process is killed, the old or the new file is there, whole; the next command works.",
    2000,
    prepare,
)
