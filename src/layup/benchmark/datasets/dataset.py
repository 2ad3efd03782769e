"""A dataset: which images are for training and for testing, with what label, and of which domain."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from unicodedata import normalize

import numpy as np

from layup.errors import InputError
from layup.images import ImageSource, chosen, image_digest, require_one_label_each
from layup.sampling import sample, split


@dataclass(frozen=True)
class Part:
    """Images with their labels, and the domain of each where there are domains.

    Files stay paths: nothing is opened here.

    >>> len(Part(["tabby/1.jpg", "tabby/2.jpg"], ["tabby", "tabby"]))
    2
    """

    images: Sequence[ImageSource]
    labels: Sequence[str]
    domains: Sequence[str] | None = None

    def __post_init__(self) -> None:
        require_one_label_each(self.images, self.labels)
        if self.domains is not None and len(self.domains) != len(self.images):
            raise InputError(
                f"There are {len(self.images)} images but {len(self.domains)} domains. Give one for each."
            )

    def __len__(self) -> int:
        return len(self.images)

    def sampled(self, classes: Iterable[str], images: int, seed: int) -> Part:
        """At most so many images of each of these classes, and of each domain of it, in their own order."""
        groups = zip(self.labels, self.domains or [""] * len(self), strict=True)
        wanted = set(classes)
        chosen = sample(groups, images, seed).tolist()
        return self.at([index for index in chosen if self.labels[index] in wanted])

    def within(self, domains: Iterable[str]) -> Part:
        """The images of these domains."""
        wanted = set(domains)
        return self.at([index for index, domain in enumerate(self.domains or ()) if domain in wanted])

    def at(self, indices: Sequence[int]) -> Part:
        """The images at these indices."""
        domains = None if self.domains is None else [self.domains[i] for i in indices]
        return Part(chosen(self.images, indices), [self.labels[i] for i in indices], domains)


@dataclass(frozen=True)
class Contents:
    """What was read of a dataset, whether or not it can be learned."""

    classes: tuple[str, ...]
    train: Part
    test: Part
    domains: tuple[str, ...] = ()
    layout: str = ""
    remarks: tuple[str, ...] = ()
    """What is odd but does no harm, such as an empty class folder: `check_dataset` reports it."""

    def faults(self) -> Iterator[str]:
        """A sentence for each reason why this cannot be learned. Costs one pass over the lists.

        >>> empty = Part([], [])
        >>> next(Contents(("tabby",), empty, empty).faults())
        'There are no training images of: tabby.'
        """
        trained = set(self.train.labels)
        if twice := _several(self.classes):
            yield f"These classes are named more than once: {listed(twice)}."
        if unknown := {*trained, *self.test.labels} - set(self.classes):
            yield f"These labels are not among the classes: {listed(sorted(unknown))}."
        if untaught := [label for label in self.classes if label not in trained]:
            yield f"There are no training images of: {listed(untaught)}."
        if both := {*_paths(self.train)} & {*_paths(self.test)}:
            yield f"These files are both for training and for testing: {listed(sorted(both))}."
        yield from self._faults_of_domains()

    def _faults_of_domains(self) -> Iterator[str]:
        if twice := _several(self.domains):
            yield f"These domains are named more than once: {listed(twice)}."
        for part in (self.train, self.test):
            if (part.domains is None) == bool(self.domains) and len(part):
                yield "Either every image has a domain, and the domains are listed, or there are none at all."
                return
        trained = set(self.train.domains or ())
        if unknown := {*trained, *(self.test.domains or ())} - set(self.domains):
            yield f"These domains of images are not among the domains: {listed(sorted(unknown))}."
        if untaught := [domain for domain in self.domains if domain not in trained]:
            yield f"There are no training images of the domains: {listed(untaught)}."


@dataclass(frozen=True)
class Dataset:
    """Training and test images of some classes, ready to be divided into tasks.

    Raises `InputError` if it cannot be learned: a label that is not a class, a class without training images.

    >>> photos = Part(["t/1.jpg", "b/1.jpg"], ["tabby", "beagle"])
    >>> Dataset("pets", ("beagle", "tabby"), photos, Part([], [])).classes
    ('beagle', 'tabby')
    """

    name: str
    classes: tuple[str, ...]
    """In the order of their index: it is this order that a seed permutes."""
    train: Part
    test: Part
    domains: tuple[str, ...] = ()
    """In the order in which they are learned; empty if the dataset has no domains."""
    layout: str = ""
    """Which of the known layouts was found, such as 'imagenetr/{train,test}/CLASS'."""
    tasks: int = 10
    """The usual number of tasks."""
    shuffled: bool = True
    """Whether a seed permutes the classes before they are divided into tasks."""
    first: int | None = None
    """Classes in the first task, if it is not as large as the others."""

    def __post_init__(self) -> None:
        contents = Contents(self.classes, self.train, self.test, self.domains)
        if fault := next(contents.faults(), None):
            raise InputError(f"The dataset {self.name!r} cannot be used. {fault}")

    def held_out(self, share: float, seed: int = 0) -> Dataset:
        """The training images alone: a share of every class (and domain of it) stands for the test images.

        Choices that are made with it, such as a learning rate, have not seen the test images.

        >>> photos = Part(["1.jpg", "2.jpg", "3.jpg"], ["tabby"] * 3)
        >>> whole = Dataset("pets", ("tabby",), photos, Part(["test.jpg"], ["tabby"]))
        >>> whole.held_out(1 / 3).test.images
        ['3.jpg']
        """
        if not 0 < share < 1:
            raise InputError(f"A held-out share of {share!r} is impossible. Use a number between 0 and 1.")
        groups = list(zip(self.train.labels, self.train.domains or [""] * len(self.train), strict=True))
        rng = np.random.default_rng(seed)
        training, held_out = (
            self.train.at(indices.tolist()) for indices in split(groups, share, lambda _: rng)
        )
        return replace(
            self,
            train=training,
            test=held_out,
            layout=f"{self.layout}; {share:g} of the training images held out, by seed {seed}",
        )

    def sampled(self, classes: int, images: int, seed: int = 0) -> Dataset:
        """A small part of it: so many classes, and so many images of each, for training and for testing.

        Where there are domains, so many per class and domain. A smaller class is taken whole.

        >>> photos = Part(["t/1.jpg", "t/2.jpg", "b/1.jpg"], ["tabby", "tabby", "beagle"])
        >>> small = Dataset("pets", ("beagle", "tabby"), photos, Part([], [])).sampled(2, 1)
        >>> small.classes, small.train.labels
        (('beagle', 'tabby'), ['tabby', 'beagle'])
        """
        if classes < 1 or images < 1:
            raise InputError(f"A sample of {classes} classes × {images} images is impossible. Use 1 or more.")
        chosen = np.sort(np.random.default_rng(seed).permutation(len(self.classes))[:classes])
        names = tuple(self.classes[index] for index in chosen)
        train, test = (part.sampled(names, images, seed) for part in (self.train, self.test))
        # A domain may lack all of these classes.
        domains = tuple(domain for domain in self.domains if domain in set(train.domains or ()))
        return replace(
            self,
            classes=names,
            train=train,
            test=test.within(domains) if domains else test,
            domains=domains,
            layout=f"{self.layout}; {len(names)} classes, up to {images} images each, by seed {seed}",
            tasks=len(domains) or min(self.tasks, len(names)),
        )

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits of all that decides the data, the same wherever its folder is moved.

        They cover the classes with their order, the domains without it, and of each image the label, the
        domain, and what it is: of a file the path below the dataset's folder and the size, of anything else
        the pixels. Costs a look at each file's size; no file is opened. A file replaced by one of equal size
        is not noticed.

        >>> import numpy as np
        >>> photos = Part([np.zeros((2, 2), np.uint8)], ["black"])
        >>> Dataset("greys", ("black",), photos, Part([], [])).fingerprint
        '59d717658541c617d1deaeb91dc33ac5'
        """
        root = _common_folder([*_paths(self.train), *_paths(self.test)])
        digest = hashlib.blake2b(digest_size=16)
        for names in (self.classes, sorted(self.domains)):
            _add(digest, str(len(names)), *names)
        for part in (self.train, self.test):
            _add(digest, str(len(part)))
            for image, label, domain in zip(
                part.images, part.labels, part.domains or [""] * len(part), strict=True
            ):
                if isinstance(image, str | os.PathLike):
                    _add(digest, "file", self._relative(image, root), str(self._size(image)), label, domain)
                else:
                    _add(digest, "pixels", image_digest(image).hex(), label, domain)
        return digest.hexdigest()

    def _relative(self, image: str | os.PathLike[str], root: str) -> str:
        path = Path(image).absolute().as_posix()[len(root) :]
        return normalize("NFC", path.lstrip("/"))  # a Mac takes é apart

    def _size(self, image: str | os.PathLike[str]) -> int:
        try:
            return Path(image).stat().st_size
        except OSError as error:
            raise InputError(
                f"{os.fspath(image)!r} of the dataset {self.name!r} cannot be read ({error.strerror})."
            ) from error


def listed(names: Sequence[object], most: int = 5) -> str:
    """Names in a sentence, but never hundreds of them.

    >>> listed(["art", "toy"]), listed(range(7), most=2)
    ('art, toy', '0, 1 and 5 more')
    """
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def _several(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1}) if len({*names}) < len(names) else []


def _paths(part: Part) -> Iterator[str]:
    """The files among the images, as text. What is made when it is read is in no file."""
    if not isinstance(part.images, list | tuple):
        return iter(())
    return (os.fspath(image) for image in part.images if isinstance(image, str | os.PathLike))


def _common_folder(paths: Iterable[str]) -> str:
    """The deepest folder that holds all files."""
    folders = {Path(path).absolute().parent.as_posix() for path in paths}
    return os.path.commonpath(folders) if folders else ""


def _add(digest: hashlib.blake2b, *texts: str) -> None:
    for text in texts:
        raw = text.encode("utf-8", "surrogateescape")
        digest.update(b"%d:" % len(raw) + raw)  # with its length, or 'a', 'bc' would be 'ab', 'c'
