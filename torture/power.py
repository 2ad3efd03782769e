"""The power fails after any step, and the disk has lost what it was not told to keep."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from random import Random

from torture.deeds import CACHE, Rehearsed, enter, rehearse
from torture.disk import Disk, Folder
from torture.faults import tapped
from torture.promise import Promise, Tries, about, mixed

GOING_ON = 20
"""In one of so many tries, the deed is then done again: it takes much longer than to look."""


def _recorded(rehearsal: Rehearsed, folder: Path) -> list[Disk]:
    """The disk after each step of a deed in a folder, the first before any."""
    rehearsal.lay_out(folder)
    files = _files(folder)
    with tapped(folder) as tap:
        rehearsal.deed.act(folder)
    steps = [step for step in tap.steps if CACHE not in Path(step.path).relative_to(folder).parts]
    return [Disk.after(files, steps[:count]) for count in range(len(steps) + 1)]


def _files(folder: Path) -> Folder:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found if CACHE not in path.relative_to(folder).parts}


def _moved(found: Folder, old: Path, new: Path) -> None:
    """Write what was found after a crash into a folder."""
    for path, content in found.items():
        target = new / os.path.relpath(path, old)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _different(disk: Disk) -> Iterator[int]:
    """The numbers of those crashes that leave something else than the ones before."""
    seen = set()
    for number, found in enumerate(disk.crashes()):
        content = blake2b(digest_size=16)
        for path in sorted(found):
            content.update(path.encode() + len(found[path]).to_bytes(8) + found[path])
        if content.digest() not in seen:
            seen.add(content.digest())
            yield number


def tries(rehearsals: Sequence[Rehearsed], folder: Path) -> Tries:
    """One for each crash of each deed after each step; then crashes at random."""
    recorded = []
    for i, rehearsal in enumerate(rehearsals):
        home = folder / f"recording-{i}"
        home.mkdir()
        recorded.append((rehearsal, home, _recorded(rehearsal, home)))
    cases = mixed(
        (which, step, number)
        for which, (_, _, disks) in enumerate(recorded)
        for step, disk in enumerate(disks)
        for number in _different(disk)
    )

    def attempt(index: int, chance: Random, home: Path) -> None:
        if index < len(cases):
            which, step, number = cases[index]
            rehearsal, old, disks = recorded[which]
            found = next(found for i, found in enumerate(disks[step].crashes()) if i == number)
        else:
            rehearsal, old, disks = chance.choice(recorded)
            step = chance.randrange(len(disks))
            found = disks[step].any_crash(chance)
        _moved(found, old, home)
        enter(home)
        returned = step == len(disks) - 1
        moment = "it was done" if returned else f"{step} of its {len(disks) - 1} steps"
        with about(f"'{rehearsal.deed.name}': power failed after {moment}"):
            state = rehearsal.require_old_or_new(home, only=(1,) if returned else (0, 1))
            if chance.randrange(GOING_ON) == 0:
                rehearsal.require_going_on(home, state)

    return Tries(attempt, len(cases))


def prepare(folder: Path) -> Tries:
    """Record what everything does to files."""
    return tries(rehearse(folder), folder)


PROMISE = Promise(
    "power",
    "When the power fails, the old or the new file is there, whole; once `save` has returned, the new one.",
    10_000,
    prepare,
)
