"""Datasets that Python has: those of Hugging Face, of torchvision, or any pairs of images and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from layup.benchmark.datasets.dataset import Dataset, Part
from layup.benchmark.datasets.folders import TEST, TRAIN, split
from layup.errors import InputError
from layup.formats import brief
from layup.images import is_dataset, labelled_photos

PREFIX = "given"
TASKS = 10


def dataset_from(data: Any, name: str | None = None, *, seed: int = 0) -> Dataset:
    """A dataset to run methods on, from what `ImageModel.learn` takes as one.

    data: a pair (train, test) of datasets; several splits by name, of which those called train and test (or
        validation) are taken; or one dataset, of which the seed holds a fifth of each class out for testing.
        To name columns, give `labelled_photos(dataset, label=…)` instead of a dataset.
    name: what records call it, after "given:"; by default as the data call themselves. The records also
        have a fingerprint of all images and labels, so that runs on other data are not taken for the same.

    >>> from PIL import Image
    >>> greys = [(Image.new("L", (8, 8), 20 * i), "dark" if i < 5 else "light") for i in range(10)]
    >>> dataset = dataset_from(greys, "greys")
    >>> dataset.name, dataset.classes, len(dataset.train), len(dataset.test)
    ('given:greys', ('dark', 'light'), 8, 2)
    """
    if isinstance(data, Dataset):
        return data
    train, test = _parts(data)
    layout = "train and test"
    if test is None:
        whole = labelled_photos(train)
        first, second = split(whole.images, whole.labels, seed)
        layout = f"split with seed {seed}"
    else:
        found = labelled_photos(train), labelled_photos(test)
        first, second = (Part(photos.images, photos.labels) for photos in found)
    classes = tuple(sorted({*first.labels, *second.labels}))
    name = f"{PREFIX}:{_checked(name or _own_name(train))}"
    how = f"given in Python, {layout}"
    return Dataset(name, classes, first, second, layout=how, tasks=min(TASKS, len(classes)))


def _parts(data: Any) -> tuple[Any, Any]:
    """The data for training, and those for testing, if there are any."""
    if isinstance(data, Mapping):
        train, test = _first(TRAIN, data), _first(TEST, data)
        if train is None or test is None:
            lack = " and ".join(
                what for what, part in (("for training", train), ("for testing", test)) if part is None
            )
            raise InputError(
                f"These splits have none {lack}: {brief(', '.join(map(str, data)))}. "
                "Give a pair of datasets: (splits[…], splits[…])."
            )
        return data[train], data[test]
    if isinstance(data, tuple | list) and len(data) == 2 and all(map(is_dataset, data)):
        return data[0], data[1]
    if not is_dataset(data):
        raise InputError(
            f"This {type(data).__name__} is no dataset. Give the name of one; or a dataset of Hugging "
            "Face's or torchvision's, or a pair of them: (train, test)."
        )
    return data, None


def _first(names: Iterable[str], splits: Mapping[str, Any]) -> str | None:
    return next((name for name in names if name in splits), None)


def _own_name(train: Any) -> str:
    """What data call themselves."""
    info = getattr(train, "info", None)
    return getattr(info, "dataset_name", None) or type(train).__name__.lower()


def _checked(name: str) -> str:
    if not name or any(not (letter.isalnum() or letter in "-_.") for letter in name) or name.startswith("."):
        raise InputError(
            f"A dataset cannot be called {name!r}. Use letters, digits, '-', '_' and '.', such as 'my-birds'."
        )
    return name
