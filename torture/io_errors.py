"""Every step on files fails, with every error that a system has: once, or from then on."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

from layup.errors import LayupError
from torture.deeds import Rehearsed, rehearse
from torture.faults import Step, tapped
from torture.promise import Promise, Tries, about, mixed, require, require_sentence

ERRORS = (
    *("EIO", "ENOSPC", "EACCES", "EROFS", "EDQUOT", "EMFILE", "EPERM", "EBUSY", "ESTALE", "ENOLCK", "EINVAL"),
    "EINTR",
)


class Fault:
    """What makes a step fail: the n-th alone, or all from it on. It remembers whether it ever did."""

    def __init__(self, number: int, lasting: bool, code: int) -> None:
        self.number, self.lasting, self.code = number, lasting, code
        self.raised = False

    def __call__(self, now: int, step: Step) -> None:
        """A step is about to be taken."""
        if now == self.number or (self.lasting and now > self.number):
            self.raised = True
            raise OSError(self.code, os.strerror(self.code), step.path)


def tries(rehearsals: Sequence[Rehearsed]) -> Tries:
    """One for each step of each deed, each error, and each way to last."""
    cases = mixed(
        (each, number, error, lasting)
        for each in rehearsals
        for number in range(len(each.steps))
        for error in ERRORS
        for lasting in (False, True)
        if not (lasting and error == "EINTR")  # a call is interrupted, but not every time
    )

    def attempt(index: int, chance: Random, folder: Path) -> None:
        case = cases[index] if index < len(cases) else chance.choice(cases)
        rehearsal, number, error, lasting = case
        rehearsal.lay_out(folder)
        where = f"step {number + 1} of {len(rehearsal.steps)}, {rehearsal.steps[number]}"
        with about(f"'{rehearsal.deed.name}': {error} {'from' if lasting else 'at'} {where}"):
            allowed: tuple[int, ...] = (0, 1)
            fault = Fault(number, lasting, getattr(errno, error))
            try:
                with tapped(folder, fault):
                    rehearsal.deed.act(folder)
                allowed = (1,)  # it said that it was done
            except LayupError as refusal:
                require_sentence(refusal)
            require(fault.raised, "the step that should fail was never taken")
            state = rehearsal.require_old_or_new(folder, only=allowed)
            rehearsal.require_going_on(folder, state)

    return Tries(attempt, len(cases))


def prepare(folder: Path) -> Tries:
    """Learn which steps there are."""
    return tries(rehearse(folder))


PROMISE = Promise(
    "errors",
    "Whatever the disk refuses, the error is a sentence, nothing is lost, and doing it again works.",
    0,
    prepare,
)
