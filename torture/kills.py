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
from torture.promise import Promise, Tries, about, mixed, require

LONGEST = 0.6
"""Seconds after which, at the latest, a process is killed at a random moment."""


def _die_at(number: int, now: int, _step: Step) -> None:
    if now == number:
        os.kill(os.getpid(), signal.SIGKILL)


def killed_at_step(rehearsal: Rehearsed, folder: Path, number: int) -> bool:
    """Do it in a separate process, which dies just before its n-th step; whether it was done before."""

    def child() -> None:
        with tapped(folder, partial(_die_at, number)):
            rehearsal.deed.act(folder)

    done = _was_done(os.waitpid(_forked(child), 0)[1])
    require(done == (number >= len(rehearsal.steps)), "the process was not killed where it should be", done)
    return done


def _killed_after(rehearsal: Rehearsed, folder: Path, seconds: float) -> bool:
    """Do it in a separate process, which is killed after so long; whether it was done before."""
    child = _forked(lambda: rehearsal.deed.act(folder))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return _was_done(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return _was_done(os.waitpid(child, 0)[1])


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def _was_done(status: int) -> bool:
    """Whether a process came to its end, or was killed; no other way to end is right."""
    code = os.waitstatus_to_exitcode(status)
    require(code in (0, -signal.SIGKILL), "the process failed by itself", code)
    return code == 0


def tries(rehearsals: Sequence[Rehearsed]) -> Tries:
    """One for each step of each deed, and the end; then random moments."""
    cases = mixed((each, number) for each in rehearsals for number in range(len(each.steps) + 1))

    def attempt(index: int, chance: Random, folder: Path) -> None:
        rehearsal, number = cases[index] if index < len(cases) else (chance.choice(rehearsals), -1)
        rehearsal.lay_out(folder)
        seconds = chance.uniform(0, LONGEST) * chance.random()
        steps = [*rehearsal.steps, "the end"]
        moment = f"step {number + 1} of {len(steps)}, {steps[number]}" if number >= 0 else f"{seconds:.3f} s"
        with about(f"'{rehearsal.deed.name}' was killed at {moment}"):
            if number >= 0:
                done = killed_at_step(rehearsal, folder, number)
            else:
                done = _killed_after(rehearsal, folder, seconds)
            state = rehearsal.require_old_or_new(folder, only=(1,) if done else (0, 1))
            rehearsal.require_going_on(folder, state)

    return Tries(attempt, len(cases))


def prepare(folder: Path) -> Tries:
    """Record how everything should go."""
    return tries(rehearse(folder))


PROMISE = Promise(
    "kills",
    "Whenever a process is killed, the old or the new file is there, whole; the next command works.",
    2000,
    prepare,
)
