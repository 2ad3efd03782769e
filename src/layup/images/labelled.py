"""Photos with their labels, from wherever they came, and what is said about what was left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unicodedata import normalize

from layup.errors import InputError
from layup.formats import printable

if TYPE_CHECKING:
    from layup.images.decode import ImageSource

PARTS = frozenset({"train", "training", "val", "valid", "validation", "test"})
"""Folder names that are parts of a dataset rather than classes, if they contain folders."""

SOME = 3
"""How many names a remark lists."""


@dataclass(frozen=True)
class LabelledPhotos:
    """Photos, the label of each, and sentences about what was left out.

    >>> photos = LabelledPhotos(["a.jpg"], ["tabby"])
    >>> list(photos), photos.remarks
    ([('a.jpg', 'tabby')], [])
    """

    images: Sequence[ImageSource]
    labels: list[str]
    remarks: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[ImageSource, str]]:
        """Each photo with its label."""
        return zip(self.images, self.labels, strict=True)

    @classmethod
    def joined(cls, parts: Iterable[LabelledPhotos]) -> LabelledPhotos:
        """The photos of all parts, in order."""
        images: list[ImageSource] = []
        labels: list[str] = []
        remarks: list[str] = []
        for part in parts:
            images += part.images
            labels += part.labels
            remarks += part.remarks
        return cls(images, labels, remarks)


def label_from(name: str) -> str:
    """The label that the name of a class folder gives.

    >>> label_from("cafe\u0301")
    'café'
    """
    # The same letters for every file system's spelling: a Mac decomposes é.
    return printable(normalize("NFC", name))


def require_one_label_each(images: Sized, labels: Sequence[str]) -> None:
    """Refuse different numbers of images and labels."""
    if len(images) != len(labels):
        raise InputError(
            f"There are {len(images)} images but {len(labels)} labels. Give one label per image."
        )


# Sentences about folders of class folders, wherever they are


def no_classes(where: str, files: int) -> InputError:
    """Why photos without class folders cannot be learned."""
    found = f"only {files} files" if files else "nothing"
    return InputError(
        f"{where!r} has no class folders, {found} directly in it. "
        "Put each class in its own folder: PHOTOS/tabby/1.jpg."
    )


def parts_of_dataset(where: str, parts: Sequence[str]) -> InputError:
    """Why folders of class folders cannot be learned together."""
    return InputError(
        f"{where!r} holds the parts of a dataset ({', '.join(parts)}), not classes. "
        f"Did you mean {f'{where}/{parts[-1]}'!r}?"
    )


def all_empty(where: str, classes: Iterable[str]) -> InputError:
    """Why class folders without photos cannot be learned."""
    return InputError(
        f"The class folders in {where!r} are all empty: {', '.join(classes)}. "
        "Put photos in them: PHOTOS/tabby/1.jpg."
    )


def left_out(where: str, loose: Sequence[str], empty: Sequence[str]) -> list[str]:
    """Sentences about photos beside the class folders, and class folders without photos.

    >>> for remark in left_out("photos", ["1.jpg"], ["beagle", "boxer", "collie", "poodle"]):
    ...     print(remark)
    Left out: 1 photo beside the class folders in 'photos': 1.jpg.
    Without photos: 4 class folders in 'photos': beagle, boxer, collie, …
    """
    remarks = []
    if loose:
        remarks.append(
            f"Left out: {counted(loose, 'photo')} beside the class folders in {where!r}: {some(loose)}"
        )
    if empty:
        remarks.append(f"Without photos: {counted(empty, 'class folder')} in {where!r}: {some(empty)}")
    return remarks


def counted(names: Sequence[object], what: str) -> str:
    """How many there are.

    >>> counted(["a.jpg", "b.jpg"], "photo")
    '2 photos'
    """
    return f"{len(names):,} {what}{'s' if len(names) != 1 else ''}"


def some(names: Sequence[str]) -> str:
    """The first names, and the end of the sentence.

    >>> some(["a", "b"]), some(["a", "b", "c", "d"])
    ('a, b.', 'a, b, c, …')
    """
    first = ", ".join(sorted(names)[:SOME])
    return f"{first}, …" if len(names) > SOME else f"{first}."
