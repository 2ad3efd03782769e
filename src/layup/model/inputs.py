"""Images and labels as people give them: lists of one label per image, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from unicodedata import normalize

from layup.errors import InputError
from layup.formats import has_controls
from layup.images import ImageSource, is_encoded, require_one_label_each


def listed(images: Iterable[ImageSource]) -> Sequence[ImageSource]:
    """The images as a sequence; a lone path or picture is a common slip."""
    if is_encoded(images) or _is_picture(images) or not _gives_several(images):
        raise InputError(f"Give a list of images, not one {type(images).__name__}: [image].")
    _require_order(images, "images")
    # What is asked for by its place stays as it is: it may make images only when it is asked for them. Not so
    # a column of a table, whose numbers in brackets are names of rows.
    by_index = isinstance(images, Sequence) or len(getattr(images, "shape", ())) > 1
    return images if by_index or not hasattr(images, "__iter__") else list(images)  # type: ignore[return-value]


def _is_picture(images: object) -> bool:
    """Whether an array is one picture, and no batch of grey ones that happens to be so wide, or so many."""
    shape: tuple[int, ...] = getattr(images, "shape", ())
    return len(shape) == 2 or (len(shape) == 3 and shape[0 if hasattr(images, "detach") else 2] in (1, 3, 4))


def _gives_several(values: object) -> bool:
    """Whether something gives values one by one. An array without an axis does not, whatever it says."""
    able = hasattr(values, "__iter__") or hasattr(values, "__getitem__")
    return able and getattr(values, "shape", None) != ()


def _require_order(values: object, what: str) -> None:
    if isinstance(values, Mapping | set | frozenset):
        raise InputError(
            f"Give a list of {what}, no {type(values).__name__}: it is by their order that labels belong to "
            "images."
        )


def checked_labels(labels: Iterable[str], images: Sequence[ImageSource]) -> list[str]:
    """The labels as a list, one for each image: of one spelling, as names of class folders are."""
    _require_order(labels, "labels")
    if isinstance(labels, str) or not _gives_several(labels):
        raise InputError(f"Give a list of labels, one for each image, not {labels!r}.")
    listed = list(labels)
    for label in listed:
        if not isinstance(label, str) or not label:
            raise InputError(f"Labels are texts that are not empty, but one is {label!r}. Use str(label).")
        if has_controls(label):
            raise InputError(f"Labels are texts without control characters, but one is {label!r}. Rename it.")
    require_one_label_each(images, listed)
    return [normalize("NFC", str(label)) for label in listed]
