"""S-DomainNet: of each class and domain of DomainNet the first ten training images, and all test images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from layup.benchmark.datasets.dataset import Contents, Part
from layup.benchmark.datasets.source import PAPER, Layout, Source, lacking
from layup.errors import InputError

DOMAINS = ("real", "quickdraw", "painting", "sketch", "infograph", "clipart")
MOST = 10
"""Training images per class and domain."""


class Entry(NamedTuple):
    """A line of a list: `real/aircraft_carrier/real_001_000001.jpg 0`."""

    number: int
    name: str
    label: str
    relative: str


def _lacks(folder: Path) -> str | None:
    missing = [f"folder {domain}" for domain in DOMAINS if not (folder / domain).is_dir()]
    lists = [f"{domain}_{part}.txt" for domain in DOMAINS for part in ("train", "test")]
    missing += [f"list {name}" for name in lists if not (folder / name).is_file()]
    return lacking(missing)


def _entries(file: Path) -> list[Entry]:
    """The lines of a list, sorted by class number, then name."""
    entries = []
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        if not line.strip():
            continue
        path, _, index = line.strip().rpartition(" ")
        parts = path.split("/")  # there are 600,000 lines: a Path of each would take seconds
        if len(parts) < 3 or not index.isdecimal():
            raise InputError(
                f"Line {number} of '{file}' must be DOMAIN/CLASS/IMAGE and the number of the class, "
                f"and is {line!r}."
            )
        entries.append(Entry(int(index), parts[-1], parts[-2], path))
    return sorted(entries)


def first_of_each(entries: Iterable[Entry]) -> list[Entry]:
    """The first ten of each class, of entries that are sorted by the names of the files."""
    kept: defaultdict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        if len(kept[entry.number]) < MOST:
            kept[entry.number].append(entry)
    return [entry for group in kept.values() for entry in group]


def _classes(entries: Iterable[Entry], folder: Path) -> tuple[str, ...]:
    """In the order of the lists' own numbers, which the order of folders on a disk may not be."""
    numbered: dict[int, str] = {}
    for entry in entries:
        if numbered.setdefault(entry.number, entry.label) != entry.label:
            raise InputError(
                f"The lists in '{folder}' give two classes the number {entry.number}: "
                f"{numbered[entry.number]} and {entry.label}."
            )
    return tuple(numbered[number] for number in sorted(numbered))


def _read(folder: Path, _seed: int = 0) -> Contents:
    lists = {
        part: [(domain, _entries(folder / f"{domain}_{part}.txt")) for domain in DOMAINS]
        for part in ("train", "test")
    }
    every = (entry for part in lists.values() for _, entries in part for entry in entries)
    classes = _classes(every, folder)
    small = [(domain, first_of_each(entries)) for domain, entries in lists["train"]]
    train, test = (
        Part(
            [folder / entry.relative for _, entries in part for entry in entries],
            [entry.label for _, entries in part for entry in entries],
            [domain for domain, entries in part for _ in entries],
        )
        for part in (small, lists["test"])
    )
    return Contents(classes, train, test, DOMAINS, "DOMAIN/CLASS, split by DOMAIN_{train,test}.txt")


def s_domainnet() -> Source:
    """S-DomainNet: photos, drawings, paintings … of the same classes."""
    return Source(
        name="s-domainnet",
        title="S-DomainNet",
        settings=("dil",),
        classes=345,
        tasks=len(DOMAINS),
        counts={PAPER: (20624, 176743)},
        ways=(
            Layout(
                ("domainnet", "DomainNet"),
                f"DOMAIN/CLASS/IMAGE and DOMAIN_{{train,test}}.txt, where DOMAIN is {', '.join(DOMAINS)}",
                _lacks,
                _read,
            ),
        ),
        where="Get the zips and lists of all six domains from http://ai.bu.edu/M3SDA/; "
        "those of clipart and painting are the 'cleaned' ones (groundtruth/).",
    )
