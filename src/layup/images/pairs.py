"""Datasets of (image, target) pairs by index, as torchvision's are; PyTorch is not imported.

What such a dataset gives is what is learned. If it lists its files, and gives them as they are, the files are
taken: then a photo is known by the contents of its file, as those of a folder are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from layup.errors import BadImageError, InputError, first_line
from layup.formats import brief
from layup.images.decode import ImageSource, StoredImage, image_digest, is_encoded, open_image
from layup.images.labelled import LabelledPhotos
from layup.images.selection import chosen
from layup.images.tables import full_names
from layup.progress import progress_bar

ANY = "torch.utils.data.dataset.Dataset"
SUBSET = "torch.utils.data.dataset.Subset"
SEVERAL = "torch.utils.data.dataset.ConcatDataset"
LOADER = "torch.utils.data.dataloader.DataLoader"

TARGETS = ("targets", "labels", "_labels")
"""Where datasets of torchvision keep their targets, so that no image has to be read for them."""
FILES = ("samples", "_samples", "_image_files", "_images")
"""Where they list their files. None of this is believed before it was compared with what they give."""
COMPARED = 8
"""How many pairs are compared, from the first to the last."""


@dataclass(frozen=True)
class BadItem(StoredImage):
    """What stands for an item of a dataset that cannot be read."""

    index: int
    reason: str

    def __str__(self) -> str:
        return f"item {self.index:,} of the dataset"

    def contents(self) -> bytes:
        """Why there are none."""
        raise BadImageError(f"Cannot use {str(self)!r}: it cannot be read ({self.reason}).")

    def location(self) -> tuple[str, str]:
        """No file, and its name."""
        return "", str(self)


class PairImages(Sequence[ImageSource]):
    """The images of a dataset of pairs, each made when it is read."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        try:
            return self.dataset[int(index)][0]
        except Exception as error:  # whatever a dataset raises for a damaged file
            return BadItem(int(index), brief(first_line(error)).rstrip("."))


def is_pairs(value: object) -> bool:
    """Whether this gives pairs by index: no image is a pair. Reads the first.

    >>> is_pairs([("1.jpg", "tabby")]), is_pairs(["1.jpg"])
    (True, False)
    """
    if not full_names(value).isdisjoint((SUBSET, SEVERAL, LOADER)):
        return True
    able = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    # The number in brackets after a column of a table may be the name of a row.
    if not able or is_encoded(value) or isinstance(value, Mapping) or hasattr(value, "shape"):
        return False
    return ANY in full_names(value) or (len(value) > 0 and _is_pair(value[0]))  # type: ignore[arg-type, index]


def pair_photos(dataset: Any) -> LabelledPhotos:
    """The images of a dataset of pairs, and the names of their targets.

    Targets are names, or numbers of `dataset.classes`; where there are no such names, the numbers are.

    >>> pair_photos([("1.jpg", "tabby"), ("2.jpg", "beagle")])
    LabelledPhotos(images=['1.jpg', '2.jpg'], labels=['tabby', 'beagle'], remarks=[])
    """
    names = full_names(dataset)
    if SUBSET in names:
        whole, indices = pair_photos(dataset.dataset), [int(index) for index in dataset.indices]
        return LabelledPhotos(chosen(whole.images, indices), [whole.labels[index] for index in indices])
    if SEVERAL in names:
        parts = [pair_photos(part) for part in dataset.datasets]
        if all(isinstance(part.images, list) for part in parts):
            return LabelledPhotos.joined(parts)
        return LabelledPhotos(PairImages(dataset), [label for part in parts for label in part.labels])
    return LabelledPhotos(pair_images(dataset), _labels(dataset))


def pair_images(dataset: Any) -> Sequence[ImageSource]:
    """The images alone."""
    if full_names(dataset) & {SUBSET, SEVERAL}:
        return pair_photos(dataset).images
    if LOADER in full_names(dataset):
        raise InputError("A DataLoader gives batches of tensors. Give its dataset: loader.dataset.")
    if not len(dataset):
        raise InputError("Give a dataset of (image, target) pairs, not an empty one.")
    some = _some(dataset)
    for index, item in some.items():
        if not _is_pair(item):
            raise InputError(
                f"Give a dataset of (image, target) pairs: item {index:,} of this one is {_described(item)}."
            )
    if isinstance(dataset, list | tuple):
        return [image for image, _ in dataset]
    files = _files(dataset, some)
    if files is None:
        _require_steady(dataset, some)
        return PairImages(dataset)
    return files


def _is_pair(item: object) -> bool:
    return isinstance(item, tuple | list) and len(item) == 2


def _described(item: object) -> str:
    kind = type(item).__name__
    return f"a {kind} of {len(item)}" if isinstance(item, tuple | list) else f"a {kind}"


def _some(dataset: Any) -> dict[int, Any]:
    """Some items by their index, from the first to the last. Those that cannot be read are left out."""
    last, items = len(dataset) - 1, {}
    for index in sorted({number * last // (COMPARED - 1) for number in range(COMPARED)}):
        with suppress(Exception):  # whatever a dataset raises for a damaged file
            items[index] = dataset[index]
    return items or {0: _item(dataset, 0)}


def _item(dataset: Any, index: int) -> Any:
    try:
        return dataset[index]
    except Exception as error:
        reason = brief(first_line(error)).rstrip(".")
        raise InputError(f"Item {index:,} of the dataset cannot be read ({reason}).") from error


def _files(dataset: Any, some: Mapping[int, Any]) -> list[ImageSource] | None:
    """The files of a dataset that gives them as they are; None if it does not, or has none."""
    for name in FILES:
        listed = getattr(dataset, name, None)
        if isinstance(listed, list) and len(listed) == len(dataset):
            paths: list[Any] = [each[0] if isinstance(each, tuple) else each for each in listed]
            if all(isinstance(path, str | os.PathLike) for path in paths) and _gives(dataset, some, paths):
                return paths
    return None


def _gives(dataset: Any, some: Mapping[int, Any], paths: Sequence[Any]) -> bool:
    """Whether a dataset gives the pictures in these files, unchanged."""
    if any(getattr(dataset, name, None) is not None for name in ("transform", "transforms")):
        return False
    try:
        return all(_pixels(item[0]) == _pixels(paths[index]) for index, item in some.items())
    except BadImageError:
        return False


def _pixels(image: Any) -> bytes:
    return image_digest(open_image(image))


def _require_steady(dataset: Any, some: Mapping[int, Any]) -> None:
    """Refuse a dataset whose pictures are prepared for another network, or differ from time to time."""
    for index, item in some.items():
        try:
            first, again = image_digest(item[0]), image_digest(_item(dataset, index)[0])
        except BadImageError as error:
            if getattr(dataset, "transform", None) is None:
                continue  # a bad image among good ones, which is said when it is read
            raise InputError(
                f"The transform of the dataset makes what is no picture. {error} Photos are prepared as the "
                "network needs them: make the dataset with transform=None."
            ) from error
        if first != again:
            raise InputError(
                f"Item {index:,} of the dataset is another picture each time that it is read: its "
                "transform is random. A photo is known by its picture. Make the dataset with transform=None."
            )


def _labels(dataset: Any) -> list[str]:
    names = getattr(dataset, "classes", None)
    if isinstance(names, Mapping) or not isinstance(names, Iterable) or isinstance(names, str):
        names = None
    names = None if names is None else [_joined(name) for name in names]
    return [_label(index, target, names) for index, target in enumerate(_targets(dataset))]


def _joined(name: object) -> str:
    """The name of a class, which may have several."""
    return ", ".join(map(str, name)) if isinstance(name, tuple | list) else str(name)


def _targets(dataset: Any) -> Sequence[Any]:
    if isinstance(dataset, list | tuple):
        return [target for _, target in dataset]
    for name in TARGETS:
        listed: Any = getattr(dataset, name, None)
        if isinstance(listed, Sequence) or hasattr(listed, "shape"):
            targets = [_plain(target) for target in listed]
            if len(targets) == len(dataset) and _gives_targets(dataset, targets):
                return targets
    found = []
    with progress_bar(None, "items") as bar:
        task = bar.add_task("Reading labels", total=len(dataset), note="")
        for index in range(len(dataset)):
            found.append(_item(dataset, index)[1])
            bar.advance(task)
    return found


def _gives_targets(dataset: Any, targets: Sequence[Any]) -> bool:
    """Whether these are what a dataset gives, and not other numbers or names."""
    pairs = [(targets[index], _plain(item[1])) for index, item in _some(dataset).items()]
    return all(isinstance(one, int | str) and type(one) is type(two) and one == two for one, two in pairs)


def _plain(target: Any) -> Any:
    """A number of NumPy's or PyTorch's as one of Python's."""
    return target.item() if hasattr(target, "item") and getattr(target, "shape", None) == () else target


def _label(index: int, target: Any, names: Sequence[str] | None) -> str:
    value = _plain(target)
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(
            f"The target of item {index:,} of the dataset is {brief(repr(value))}. A model learns one "
            "class of each photo: targets must be names, or numbers of dataset.classes."
        )
    if value < 0 or (names is not None and value >= len(names)):
        raise InputError(
            f"The target of item {index:,} of the dataset is {value}, which is none of its classes"
            f"{'' if names is None else f' (0 to {len(names) - 1})'}. Leave such items out."
        )
    return str(value) if names is None else names[value]
