"""A disk that loses what was not synced: which folders may be found after the power fails.

What is simulated, after every step of a program:

- **Data.** What was written to a file since its last fsync may be lost as a whole; may have arrived up to any
  block; may be of full length with any block, or all of it, full of zeros; or may be there.
- **Names.** Creating, renaming and removing are atomic, but none is sure before an fsync of the folder. Of
  those that are not: on an *ordered* disk (a journal) any number of the first ones happened; on an
  *unordered* one, any of them did and any others did not.
- An fsync of a file makes its data sure, not its name. Nothing that was synced is ever lost.

Not simulated: disks that lie about fsync, that tear a rename in two, or whose blocks rot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from torture.faults import Step

BLOCK = 4096
Folder = dict[str, bytes]
"""The files below a folder: path → contents."""


@dataclass
class _File:
    """What is sure of a file, and what was done to it since: (offset, data), or (length, None) for a cut."""

    sure: bytes
    since: list[tuple[int, bytes | None]] = field(default_factory=list)

    def after(self, count: int | None = None) -> bytes:
        """The contents if just so many of the changes have arrived."""
        content = bytearray(self.sure)
        for offset, data in self.since[:count]:
            if data is None:
                content[offset:] = bytes(max(0, offset - len(content)))
            else:
                content[len(content) : offset] = bytes(max(0, offset - len(content)))
                content[offset : offset + len(data)] = data
        return bytes(content)

    def variants(self) -> Iterator[bytes]:
        """All that may be found of it; first what was sure, and then what should be there."""
        whole = self.after()
        yield self.sure
        if self.since:
            yield whole
            yield bytes(len(whole))
        for count in range(1, len(self.since)):
            yield self.after(count)
        if self.since:
            for start in range(0, len(whole), BLOCK):
                yield whole[:start]
                yield whole[:start] + bytes(len(whole[start : start + BLOCK])) + whole[start + BLOCK :]

    def any_variant(self, chance: Random) -> bytes:
        """Some blocks arrived and others did not, and the length may be any."""
        if not self.since:
            return self.sure
        whole = self.after(chance.randint(0, len(self.since)))
        blocks = [whole[start : start + BLOCK] for start in range(0, len(whole), BLOCK)]
        holed = b"".join(bytes(len(block)) if chance.random() < 0.3 else block for block in blocks)
        return holed[: chance.choice([len(holed), chance.randint(0, len(holed))])]


@dataclass(frozen=True)
class _Naming:
    """A change of names: what is put where (a file's number), and what is gone."""

    folder: str
    put: tuple[tuple[str, int], ...]
    gone: tuple[str, ...]


class Disk:
    """Files and names, those that are sure and those that are not yet."""

    def __init__(self, files: Folder) -> None:
        self.files = [_File(content) for content in files.values()]
        self.sure = {path: number for number, path in enumerate(files)}
        self.names = dict(self.sure)
        self.since: list[_Naming] = []
        self.handles: dict[int, int] = {}

    @classmethod
    def after(cls, files: Folder, steps: Sequence[Step]) -> Disk:
        """A disk with these files on which a program took these steps."""
        disk = cls(files)
        for step in steps:
            disk.take(step)
        return disk

    def take(self, step: Step) -> None:
        """Do what a program did."""
        if step.call == "open":
            self._open(step)
        elif step.call == "write":
            self._changed(step, step.offset, step.data)
        elif step.call == "truncate":
            self._changed(step, step.offset, None)
        elif step.call == "fsync":
            self._sync(step)
        elif step.call == "rename" and step.path in self.names:
            self._name(step.to, self.names[step.path], (step.path,))
        elif step.call == "unlink" and step.path in self.names:
            self._name(step.path, None, (step.path,))

    def _open(self, step: Step) -> None:
        if os.path.isdir(step.path):
            return
        if step.path not in self.names:
            self.files.append(_File(b""))
            self._name(step.path, len(self.files) - 1, ())
        self.handles[step.handle] = self.names[step.path]
        if step.truncates:
            self._changed(step, 0, None)

    def _changed(self, step: Step, offset: int, data: bytes | None) -> None:
        file = self.handles.get(step.handle, self.names.get(step.path, -1))
        self.files[file].since.append((offset, data))

    def _sync(self, step: Step) -> None:
        if step.handle in self.handles:
            file = self.files[self.handles[step.handle]]
            file.sure, file.since = file.after(), []
        else:
            done = [naming for naming in self.since if naming.folder == step.path]
            self.sure = _named(self.sure, done)
            self.since = [naming for naming in self.since if naming.folder != step.path]

    def _name(self, path: str, file: int | None, gone: tuple[str, ...]) -> None:
        naming = _Naming(os.path.dirname(path), () if file is None else ((path, file),), gone)
        self.since.append(naming)
        self.names = _named(self.names, [naming])

    def crashes(self) -> Iterator[Folder]:
        """All that may be found: names in every way, and of one file after the other each variant."""
        for names in self._namings():
            unsure = [file for file in sorted(set(names.values())) if self.files[file].since]
            for complete in (False, True):
                yield self._found(
                    names, {file: self.files[file].after() for file in unsure} if complete else {}
                )
            for file in unsure:
                for content in self.files[file].variants():
                    yield self._found(names, {file: content})

    def any_crash(self, chance: Random) -> Folder:
        """One that may be found, of all at random: also with several files half written."""
        names = _named(self.sure, [naming for naming in self.since if chance.random() < 0.5])
        return self._found(names, {file: self.files[file].any_variant(chance) for file in names.values()})

    def _namings(self) -> Iterator[dict[str, int]]:
        """Names after any of the changes; on an ordered disk the first ones, which are among them."""
        for count in range(len(self.since) + 1):
            for happened in combinations(self.since, count):
                yield _named(self.sure, happened)

    def _found(self, names: dict[str, int], contents: dict[int, bytes]) -> Folder:
        return {path: contents.get(file, self.files[file].sure) for path, file in names.items()}


def _named(names: dict[str, int], namings: Sequence[_Naming]) -> dict[str, int]:
    new = dict(names)
    for naming in namings:
        for path in naming.gone:
            new.pop(path, None)
        new.update(naming.put)
    return new
