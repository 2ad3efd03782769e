"""Images and labels as people give them: lists of one label per image, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, TypeAlias
from unicodedata import normalize

from layup.errors import InputError
from layup.formats import has_controls
from layup.images.decode import ImageSource, is_encoded
from layup.images.labelled import require_one_label_each
from layup.images.photos import is_dataset, labelled_photos, unlabelled_photos
from layup.images.tables import is_table

Images: TypeAlias = Iterable[ImageSource] | Any
"""Images in any iterable; or a dataset of Hugging Face's, or one of (image, target) pairs by index."""


def given(
    images: Images, labels: Iterable[str] | None, image: str | None = None, label: str | None = None
) -> tuple[Sequence[ImageSource], list[str]]:
    """Images with their labels: two lists, or a dataset that has both.

    image, label: the columns of a dataset, if several could be meant.

    >>> given([("1.jpg", "tabby")], None)
    (['1.jpg'], ['tabby'])
    """
    if labels is None:
        images = _again(images)
        if not is_dataset(images):
            raise InputError(
                "Give the labels too, one per image: (images, labels). Or give a dataset that has both: "
                "one of Hugging Face's, or of (image, label) pairs; or, of a folder, an archive or a list, "
                "labelled_photos(path)."
            )
        found = labelled_photos(images, image=image, label=label)
        return found.images, checked_labels(found.labels, found.images)
    if image is not None or label is not None:
        raise InputError(
            "`image` and `label` name the columns of a dataset. Leave them out, or the list of labels."
        )
    images = listed(images) if is_table(images) else _in_order(images)  # whose first is not read for nothing
    return images, checked_labels(labels, images)


def _again(values: Any) -> Any:
    """What can be read more than once: an iterator gives its values only once."""
    return list(values) if isinstance(values, Iterator) else values


def listed(images: Images) -> Sequence[ImageSource]:
    """The images as a sequence, also those of a dataset; a single path or image is a common mistake."""
    return unlabelled_photos(images) if is_dataset(images) else _in_order(images)


def _in_order(images: Images) -> Sequence[ImageSource]:
    if hasattr(images, "columns"):
        raise InputError(
            f"Give one column of images, not a whole {type(images).__name__}: table['image']. In a "
            "ColumnTransformer, name the column without brackets."
        )
    if is_encoded(images) or _is_picture(images) or not _gives_several(images):
        raise InputError(f"Give a list of images, not one {type(images).__name__}: [image].")
    _require_order(images, "images")
    # What has indices stays as it is: it may make each image only when it is read. A column of a table is
    # different: its numbers in brackets are names of rows.
    by_index = isinstance(images, Sequence) or len(getattr(images, "shape", ())) > 1
    return images if by_index or not hasattr(images, "__iter__") else list(images)  # type: ignore[return-value]


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
        if not isinstance(label, str) or not label.strip():
            raise InputError(f"Labels must be strings that are not empty or blank, but one is {label!r}.")
        if has_controls(label):
            raise InputError(f"Labels must not contain control characters, but one is {label!r}. Rename it.")
    require_one_label_each(images, listed)
    return [normalize("NFC", str(label)) for label in listed]
