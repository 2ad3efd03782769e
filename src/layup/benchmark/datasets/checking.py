"""Is what lies on disk the dataset that it should be?"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from layup.benchmark.datasets.dataset import Contents, Part, listed
from layup.benchmark.datasets.source import Counts, Source, data_folder, source_of
from layup.errors import InputError
from layup.features import survey


@dataclass(frozen=True)
class Report:
    """What was found of a dataset, and all that is wrong with it."""

    name: str
    folder: Path | None
    """None for a dataset that is made on the spot."""
    layout: str
    classes: int
    train: int
    test: int
    domains: dict[str, tuple[int, int]]
    """Training and test images by domain."""
    matches: str | None
    """The source of the known-good sizes that these are; None if they are unknown."""
    known: dict[str, Counts]
    """All known-good sizes, by their source."""
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Nothing is wrong with it."""
        return not self.problems

    def to_dict(self) -> dict[str, object]:
        """The report as plain JSON values."""
        return {
            **asdict(self),
            "folder": None if self.folder is None else str(self.folder),
            "domains": {domain: list(sizes) for domain, sizes in self.domains.items()},
            "problems": list(self.problems),
            "ok": self.ok,
        }


def check_dataset(
    name: str, data: str | os.PathLike[str] | None = None, *, progress: bool | None = None
) -> Report:
    """Compare a dataset on disk with what is known about it, and open each of its images once.

    A dataset that is not there at all is an `InputError`, which says what was expected and where to get it.
    Costs the decoding of every image.

    >>> report = check_dataset("digits")
    >>> report.ok, report.matches
    (True, "scikit-learn's")
    """
    source = source_of(name)
    found = None if source.build else source.require(data_folder(data))
    try:
        contents = source.read(found)
    except InputError as error:  # it is there, but so wrong that it cannot even be listed
        folder = None if found is None else found.folder
        layout = "" if found is None else found.name
        return Report(name, folder, layout, 0, 0, 0, {}, None, dict(source.counts), (str(error),))
    sizes = len(contents.train), len(contents.test)
    domains = _by_domain(contents)
    by_domain = {} if found is None else found.layout.by_domain
    matches = source.matching(contents)
    matches += [who for who, known in by_domain.items() if domains == known]
    problems = [
        *contents.faults(),
        *contents.remarks,
        *_off(source, contents, bool(matches)),
        *_off_by_domain(domains, by_domain),
        *_unreadable([*contents.train.images, *contents.test.images], progress),
    ]
    return Report(
        name,
        None if found is None else found.folder,
        contents.layout,
        len(contents.classes),
        *sizes,
        domains,
        " and ".join(matches) or None,
        dict(source.counts),
        tuple(problems),
    )


def _off(source: Source, contents: Contents, matched: bool) -> Iterator[str]:
    """A sentence for each number that is not what it should be."""
    if source.classes is not None and len(contents.classes) != source.classes:
        yield f"There are {len(contents.classes):,} classes, but {source.title} has {source.classes:,}."
    if source.counts:
        untested = set(contents.classes) - set(contents.test.labels)
        if untested:
            yield f"There are no test images of: {listed(sorted(untested))}."
        if not matched:
            known = "; ".join(f"{_sizes(*counts)} ({who})" for who, counts in source.counts.items())
            have = _sizes(len(contents.train), len(contents.test))
            yield f"There are {have}, and none of the known-good numbers are these: {known}."


def _off_by_domain(
    domains: Mapping[str, tuple[int, int]], known: Mapping[str, Mapping[str, tuple[int, int]]]
) -> Iterator[str]:
    for domain, sizes in domains.items():
        if sizes[1] == 0:
            yield f"There are no test images of the domain {domain!r}."
        if known and all(sizes != counts[domain] for counts in known.values()):
            wanted = "; ".join(f"{_sizes(*counts[domain])} ({who})" for who, counts in known.items())
            yield f"The domain {domain!r} has {_sizes(*sizes)}, but should have {wanted}."


def _sizes(train: int | None, test: int) -> str:
    """Sizes in words.

    >>> _sizes(9430, 2358), _sizes(None, 5353)
    ('9,430 training and 2,358 test images', '5,353 test images')
    """
    return f"{test:,} test images" if train is None else f"{train:,} training and {test:,} test images"


def _by_domain(contents: Contents) -> dict[str, tuple[int, int]]:
    def counted(part: Part) -> Counter[str]:
        return Counter(part.domains or ())

    train, test = counted(contents.train), counted(contents.test)
    return {domain: (train[domain], test[domain]) for domain in contents.domains}


def _unreadable(images: Sequence[object], progress: bool | None) -> Iterator[str]:
    """A sentence for each file that is not a usable image."""
    files = [Path(image) for image in images if isinstance(image, str | os.PathLike)]
    return (bad.reason for bad in survey(files, progress=progress).bad)
