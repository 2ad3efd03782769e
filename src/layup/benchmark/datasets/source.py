"""The facts of a dataset: what it is, how it lies on disk, how large it is, where to get it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from layup.benchmark.datasets.dataset import Contents, Dataset, listed
from layup.errors import InputError
from layup.registry import Registry, unknown_name

Counts: TypeAlias = tuple[int | None, int]
"""Training and test images; None if the number is not known."""

PAPER = "the paper's Table 6"
ZIP = "Zhou et al.'s zip, inferred from logs"
ZIPS = (
    "linked from https://github.com/zhoudw-zdw/RevisitingCIL and https://github.com/sun-hailong/LAMDA-PILOT"
)
DATA_VARIABLE = "LAYUP_DATA"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Layout:
    """One way in which a dataset lies on disk: how to recognise it, and how to read it without its images."""

    folders: tuple[str, ...]
    """Where its own folder is, below the folder of all data; the folder of all data may be it as well."""
    pattern: str
    """What is in that folder, for people: {train,test}/CLASS/IMAGE."""
    lacks: Callable[[Path], str | None]
    """What a folder lacks to be laid out like this, after 'it has no …'; None if nothing."""
    read: Callable[[Path, int], Contents]
    """The contents of such a folder; the number is the seed of a split, if there is no split on disk."""
    by_domain: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    """Known-good numbers of training and test images of each domain, by their source."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What is shown to people, a line for each name of the folder."""
        return tuple(f"{folder}/{self.pattern}" for folder in self.folders) or (self.pattern,)


@dataclass(frozen=True)
class Found:
    """A folder on disk that is laid out as expected."""

    folder: Path
    layout: Layout
    name: str
    """The folder as people would call it: below the folder of all data."""

    def read(self, seed: int = 0) -> Contents:
        """All that is in it. Costs the listing of its folders; no image is opened."""
        contents = self.layout.read(self.folder, seed)
        return replace(contents, layout=f"{self.name}/{contents.layout}")


@dataclass(frozen=True)
class Source:
    """What is known about a dataset before it is read.

    >>> source_of("cub200").counts["the standard split"]
    (5994, 5794)
    """

    name: str
    title: str
    settings: tuple[str, ...]
    """The settings it is for: cil (new classes), ocl (new classes, one look), dil (new domains)."""
    classes: int | None = None
    tasks: int = 10
    counts: Mapping[str, Counts] = field(default_factory=dict)
    """Known-good sizes, by their source; the first is what `layup datasets` shows."""
    ways: tuple[Layout, ...] = ()
    where: str = ""
    """Where to get it."""
    shuffled: bool = True
    first: int | None = None
    build: Callable[[], Contents] | None = None
    """Makes it on the spot: such a dataset is always there."""
    download: Callable[[Path], None] | None = None
    """Fetches it into the folder of all data, if that is possible."""
    root: Path | None = None
    """Where it is, if its name says so, as that of folder:PATH does."""

    @property
    def layouts(self) -> tuple[str, ...]:
        """Every folder layout that is recognised, for people."""
        return tuple(text for way in self.ways for text in way.texts)

    def locate(self, data: Path, *, by_name: bool = False) -> Found | None:
        """Its folder under `data`, or `data` itself if that is it, and its layout; None if it is not there.

        With `by_name`, `data` itself counts only if it is called like the dataset: many are laid out alike.
        """
        for way, folder, name in self._candidates(self.root or data, by_name):
            if folder.is_dir() and way.lacks(folder) is None:
                return Found(folder, way, name)
        return None

    def require(self, data: Path) -> Found:
        """Its folder, or the error that says what was expected, what was found, and where to get it."""
        found = self.locate(data)
        if found is None:
            raise InputError(self._missing(self.root or data))
        return found

    def load(self, data: Path, *, seed: int = 0, order: Sequence[str] | None = None) -> Dataset:
        """The dataset under `data`, its domains in the given order. Costs the listing of its folders."""
        contents = self.read(None if self.build else self.require(data), seed)
        if not self.fits(contents):
            # Many datasets are laid out alike, and then only the numbers tell that this is another one.
            logger.warning(
                "This is not %s as it is known: run `layup datasets check %s`, or use folder:PATH for your "
                "own data.",
                self.title,
                self.name,
            )
        domains = contents.domains if order is None else _in_order(self.name, contents.domains, order)
        return Dataset(
            self.name,
            contents.classes,
            contents.train,
            contents.test,
            domains,
            contents.layout,
            tasks=len(domains) or min(self.tasks, len(contents.classes)),
            shuffled=self.shuffled,
            first=self.first,
        )

    def fits(self, contents: Contents) -> bool:
        """Whether the numbers of classes and images are known-good ones."""
        if not self.counts:
            return True
        return len(contents.classes) == self.classes and bool(self.matching(contents))

    def matching(self, contents: Contents) -> list[str]:
        """Whose known-good sizes these are."""
        train, test = len(contents.train), len(contents.test)
        return [who for who, known in self.counts.items() if known[0] in (None, train) and known[1] == test]

    def read(self, found: Found | None, seed: int = 0) -> Contents:
        """All that is in a folder that was found; a built-in dataset is made on the spot."""
        if found is not None:
            return found.read(seed)
        assert self.build is not None, "a dataset that is not built in must be found first"
        return self.build()

    def _candidates(self, data: Path, by_name: bool) -> Iterator[tuple[Layout, Path, str]]:
        for way in self.ways:
            for folder in way.folders:
                yield way, data / folder, folder
        # Last, or a train and a test folder next to the dataset's own would be taken for it.
        own_name = data.absolute().name
        for way in self.ways:
            if not by_name or own_name in {Path(folder).name for folder in way.folders}:
                yield way, data, own_name

    def _missing(self, data: Path) -> str:
        if not data.is_dir():
            seen = f"was not found. There is no folder {str(data)!r}."
        else:
            near = {
                f"{str(folder)!r} is there, but it has no {lack}."
                for way, folder, _ in self._candidates(data, by_name=self.root is None)
                if folder.is_dir() and (lack := way.lacks(folder))
            }
            seen = f"was not found. There is nothing of it in {str(data)!r}."
            if near:
                seen = f"is not laid out as it should be. {' '.join(sorted(near))}"
        wanted = "".join(f"\n  {text if self.root else data / text}" for text in self.layouts)
        get = f"\n{self.where}" if self.where else ""
        return f"The dataset {self.name!r} ({self.title}) {seen}\nExpected:{wanted}{get}"


def _require_source(name: str, facts: Callable[[], object]) -> None:
    source = facts()
    if not isinstance(source, Source):
        raise TypeError("it gives no Source")
    if source.name != name:
        raise ValueError(f"its Source is called {source.name!r}")


DATASETS: Registry[Source] = Registry("dataset", "layup.datasets", _require_source)
"""Name → the function that gives the facts of that dataset."""

PREFIXES: Registry[Source] = Registry("prefix of a dataset")
"""Prefix → the function that takes the rest of the name, such as that of folder:PATH."""


def source_of(name: str) -> Source:
    """The facts of a dataset by its name; nothing is read.

    >>> source_of("digits").title, source_of("folder:photos").root
    ('Handwritten digits', PosixPath('photos'))
    """
    prefix, colon, rest = name.partition(":")
    if colon and prefix in PREFIXES:
        if not rest:
            raise InputError(f"{name!r} names no folder. Write {prefix}:PATH.")
        return PREFIXES[prefix](rest)
    if name not in DATASETS:
        raise unknown_name("dataset", name, [*DATASETS, *(f"{prefix}:PATH" for prefix in PREFIXES)])
    return DATASETS[name]()


def data_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """The folder of all data: the one given, that of the variable LAYUP_DATA, or ./data."""
    return Path(given or os.environ.get(DATA_VARIABLE) or "data").expanduser()


def lacking(missing: Sequence[str], most: int = 4) -> str | None:
    """What a layout lacks, in the words that follow 'it has no'; None if nothing.

    >>> lacking(["folder train", "folder test"])
    'folder train and no folder test'
    """
    rest = len(missing) - most
    return (" and no ".join(missing[:most]) + (f", nor {rest:,} more" if rest > 0 else "")) or None


def load_dataset(
    name: str,
    data: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    order: Sequence[str] | None = None,
    download: bool = False,
) -> Dataset:
    """A dataset by name: one of `DATASETS`, folder:PATH or domains:PATH.

    `seed` splits a folder that has no train and test folders, and has no effect on others; `order` puts the
    domains in another order. With `download`, what is not there is fetched, if that is possible. Costs the
    listing of its folders: labels come from names and lists, and no image is opened.

    >>> digits = load_dataset("digits")
    >>> len(digits.train), len(digits.test), digits.classes[:3]
    (1078, 719, ('0', '1', '2'))
    """
    source = source_of(name)
    folder = data_folder(data)
    if download and source.download and source.locate(folder) is None:
        source.download(folder)
    return source.load(folder, seed=seed, order=order)


def _in_order(name: str, domains: tuple[str, ...], order: Sequence[str]) -> tuple[str, ...]:
    if not domains:
        raise InputError(f"The dataset {name!r} has no domains to be put in an order. Leave the order out.")
    for domain in order:
        if domain not in domains:
            raise unknown_name("domain", domain, domains)
    if missing := [domain for domain in domains if domain not in order]:
        raise InputError(f"The order leaves out: {listed(missing)}. Name each of the domains once.")
    if len(order) > len(domains):
        raise InputError(f"The order {','.join(order)!r} names a domain twice. Name each of them once.")
    return tuple(order)
