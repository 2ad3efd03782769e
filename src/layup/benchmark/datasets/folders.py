"""Trees of folders: {train,test}/CLASS/IMAGE as most datasets have it, and any folder of your own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from layup import sampling
from layup.benchmark.datasets.dataset import Contents, Part, listed
from layup.benchmark.datasets.source import Layout, Source, lacking
from layup.errors import InputError
from layup.images import PARTS, ImageSource, class_folders, label_of, visible

TRAIN = ("train", "training")
TEST = ("test", "val", "valid", "validation")
"""What people call the test folder, the likeliest first."""

TEST_SHARE = 1 / 5
"""Of the images of each class, for testing where there is no split on disk."""


# Reading


def subfolders(folder: Path) -> list[Path]:
    """The folders directly in a folder, sorted by name, without what is hidden or clutter."""
    return sorted(visible(folder)[0], key=lambda each: each.name)


def part_folders(folder: Path, test: tuple[str, ...] = TEST) -> tuple[Path | None, Path | None]:
    """The folders of training and test images directly in a folder; of test folders the first that exists."""
    by_name = {each.name.lower(): each for each in subfolders(folder)}

    def first(names: tuple[str, ...]) -> Path | None:
        return next((by_name[name] for name in names if name in by_name), None)

    return first(TRAIN), first(test)


def lacks_parts(folder: Path) -> str | None:
    """Which of train and test is not there."""
    train, test = part_folders(folder)
    return lacking([f"folder {name}" for name, part in (("train", train), ("test", test)) if part is None])


def split_on_disk(folder: Path) -> tuple[Path, Path] | None:
    """Train and test folders that hold class folders; a class may be called 'train' as well."""
    train, test = part_folders(folder)
    if train is not None and test is not None and subfolders(train) and subfolders(test):
        return train, test
    return None


def read_parts(folder: Path, _seed: int = 0) -> Contents:
    """FOLDER/{train,test}/CLASS/IMAGE; the classes in the order of their names."""
    train, test = part_folders(folder)
    if train is None or test is None:
        raise InputError(f"The folder {str(folder)!r} has no {lacks_parts(folder)}.")
    first, second = Part(*class_folders(train)), Part(*class_folders(test))
    return Contents(
        _classes(first, second),
        first,
        second,
        layout=f"{{{train.name},{test.name}}}/CLASS",
        remarks=(*_empty_classes(train, first), *_empty_classes(test, second)),
    )


def read_any(folder: Path, seed: int = 0) -> Contents:
    """FOLDER/{train,test}/CLASS/IMAGE if it is like that, else FOLDER/CLASS/IMAGE, split by the seed."""
    if lack := _lacks_classes(folder):
        raise InputError(f"The folder {str(folder)!r} has no {lack}.")
    if split_on_disk(folder):
        return read_parts(folder)
    images, labels = class_folders(folder)
    train, test = split(images, labels, seed)
    return Contents(
        _classes(train, test),
        train,
        test,
        layout=f"CLASS, split with seed {seed}",
        remarks=tuple(_empty_classes(folder, Part(images, labels))),
    )


def split(images: Sequence[ImageSource], labels: list[str], seed: int) -> tuple[Part, Part]:
    """Four fifths of each class for training, the rest for testing; a single image is for training.

    A class is split by the seed and its own name, so that other classes do not matter. Costs a shuffle.

    >>> train, test = split([Path(f"{i}.jpg") for i in range(11)], ["tabby"] * 10 + ["lynx"], seed=0)
    >>> len(train), len(test), test.labels
    (9, 2, ['tabby', 'tabby'])
    """
    if seed < 0:
        raise InputError(f"A seed is a whole number ≥ 0, and {seed} is not.")

    def generator(label: str) -> np.random.Generator:
        return np.random.default_rng([seed, *label.encode("utf-8", "surrogateescape")])

    halves = sampling.split(labels, TEST_SHARE, generator)
    whole = Part(images, labels)
    train, test = (whole.at(half.tolist()) for half in halves)
    return train, test


def read_domains(folder: Path, seed: int = 0) -> Contents:
    """FOLDER/DOMAIN/{train,test}/CLASS/IMAGE, or FOLDER/DOMAIN/CLASS/IMAGE; the domains sorted by name."""
    named = [(label_of(each), read_any(each, seed)) for each in subfolders(folder)]
    train = _united([(domain, contents.train) for domain, contents in named])
    test = _united([(domain, contents.test) for domain, contents in named])
    patterns = sorted({contents.layout for _, contents in named})
    return Contents(
        _classes(train, test),
        train,
        test,
        domains=tuple(sorted({domain for domain, _ in named})),
        layout=f"DOMAIN/{' and '.join(patterns)}",
        remarks=tuple(remark for _, contents in named for remark in contents.remarks),
    )


def _united(named: list[tuple[str, Part]]) -> Part:
    """The parts of several domains as one."""
    return Part(
        [image for _, part in named for image in part.images],
        [label for _, part in named for label in part.labels],
        [domain for domain, part in named for _ in part.labels],
    )


def _empty_classes(folder: Path, part: Part) -> list[str]:
    empty = {label_of(each) for each in subfolders(folder)} - set(part.labels)
    return [f"Class folders of {str(folder)!r} that are empty: {listed(sorted(empty))}."] if empty else []


def _classes(*parts: Part) -> tuple[str, ...]:
    return tuple(sorted({label for part in parts for label in part.labels}))


# Layouts


def tree(*folders: str) -> Layout:
    """The layout of most datasets, in a folder of one of these names.

    >>> tree("cub").texts
    ('cub/{train,test}/CLASS/IMAGE',)
    """
    return Layout(folders, "{train,test}/CLASS/IMAGE", lacks_parts, read_parts)


def _lacks_classes(folder: Path) -> str | None:
    if not (inside := subfolders(folder)):
        return "class folders"
    if split_on_disk(folder):
        return None
    if {each.name.lower() for each in inside} <= PARTS and any(map(subfolders, inside)):
        # These are not classes, even if one of them is empty.
        return "class folders in both a folder train and a folder test"
    if all(map(split_on_disk, inside)):
        return f"class folders: its folders are domains, so use domains:{folder}"
    return None


def _lacks_domains(folder: Path) -> str | None:
    if not (inside := subfolders(folder)):
        return "domain folders"
    if split_on_disk(folder):
        return f"domain folders: its folders are train and test, so use folder:{folder}"
    if not any(map(subfolders, inside)):
        return f"domain folders: its folders are classes, so use folder:{folder}"
    return None


def folder(path: str) -> Source:
    """Your own photos, a folder for each class."""
    return Source(
        name=f"folder:{path}",
        title="a folder of your own",
        settings=("cil", "ocl"),
        ways=(
            Layout((), f"{path}/{{train,test}}/CLASS/IMAGE", _lacks_classes, read_any),
            Layout((), f"{path}/CLASS/IMAGE", _lacks_classes, read_any),
        ),
        root=Path(path).expanduser(),
    )


def domains(path: str) -> Source:
    """Your own photos, a folder for each domain and class."""
    return Source(
        name=f"domains:{path}",
        title="a folder of your own",
        settings=("dil",),
        ways=(
            Layout((), f"{path}/DOMAIN/{{train,test}}/CLASS/IMAGE", _lacks_domains, read_domains),
            Layout((), f"{path}/DOMAIN/CLASS/IMAGE", _lacks_domains, read_domains),
        ),
        root=Path(path).expanduser(),
    )
