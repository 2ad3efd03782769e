"""Images and labels as people give them: lists of one label per image, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any
from unicodedata import normalize

from layup.errors import InputError
from layup.formats import has_controls
from layup.images import ImageSource, is_encoded, require_one_label_each


def listed(images: Iterable[ImageSource]) -> Sequence[ImageSource]:
    """The images as a sequence; a single path or image is a common mistake."""
    if is_encoded(images) or _is_picture(images) or not _gives_several(images):
        raise InputError(f"Give a list of images, not one {type(images).__name__}: [image].")
    _require_order(images, "images")
    # What has indices stays as it is: it may make each image only when it is read. A column of a table is
    # different: its numbers in brackets are names of rows.
    by_index = isinstance(images, Sequence) or len(getattr(images, "shape", ())) > 1
    return images if by_index or not hasattr(images, "__iter__") else list(images)  # type: ignore[return-value]


class Chosen(Sequence[ImageSource]):
    """Some of the images, in this order: each is still made only when it is read.

    >>> Chosen(["a.jpg", "b.jpg", "c.jpg"], [2, 0])[1]
    'a.jpg'
    """

    def __init__(self, images: Sequence[ImageSource], indices: Sequence[int]) -> None:
        self.images = images
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        return self.images[self.indices[index]]


def chosen(images: Sequence[ImageSource], indices: Sequence[int]) -> Sequence[ImageSource]:
    """Some of the images: a list of a list, and something as lazy of anything else."""
    if isinstance(images, list | tuple):
        return [images[index] for index in indices]
    return Chosen(images, indices)


def _is_picture(images: object) -> bool:
    """Whether an array is one image, not a batch of grey ones that happens to have such a shape."""
    shape: tuple[int, ...] = getattr(images, "shape", ())
    return len(shape) == 2 or (len(shape) == 3 and shape[0 if hasattr(images, "detach") else 2] in (1, 3, 4))


def _gives_several(values: object) -> bool:
    """Whether something gives values one by one. An array without an axis does not, although it says so."""
    able = hasattr(values, "__iter__") or hasattr(values, "__getitem__")
    return able and getattr(values, "shape", None) != ()


def _require_order(values: object, what: str) -> None:
    if isinstance(values, Mapping | set | frozenset):
        raise InputError(
            f"Give a list of {what}, not a {type(values).__name__}: labels belong to images by their order."
        )


def checked_labels(labels: Iterable[str], images: Sized) -> list[str]:
    """The labels as a list, one per image, in one spelling (NFC), as names of class folders are."""
    _require_order(labels, "labels")
    if isinstance(labels, str) or not _gives_several(labels):
        raise InputError(f"Give a list of labels, one per image, not {labels!r}.")
    listed = list(labels)
    for label in listed:
        if not isinstance(label, str) or not label:
            raise InputError(f"Labels must be strings that are not empty, but one is {label!r}.")
        if has_controls(label):
            raise InputError(f"Labels must not contain control characters, but one is {label!r}. Rename it.")
    require_one_label_each(images, listed)
    return [normalize("NFC", str(label)) for label in listed]
