"""Datasets of the library `datasets` (Hugging Face): a table with a column of images, and one of labels.

The library is not imported: who has such a dataset has imported it. Photos are taken as they are encoded in
the table, so that they are known by the contents of their files, as those of a folder are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from layup.errors import BadImageError, InputError
from layup.formats import brief
from layup.images.addresses import is_address
from layup.images.decode import ImageSource, StoredImage
from layup.images.labelled import LabelledPhotos
from layup.images.manifests import LABELS
from layup.images.stream import Waiting
from layup.progress import progress_bar
from layup.registry import unknown_name

TABLE = "datasets.arrow_dataset.Dataset"
STREAM = "datasets.iterable_dataset.IterableDataset"
SPLITS = ("datasets.dataset_dict.DatasetDict", "datasets.dataset_dict.IterableDatasetDict")
ROWS = 1000
"""How many rows are looked at together."""


def full_names(value: object) -> set[str]:
    """The names of a value's classes with their modules.

    >>> "builtins.list" in full_names([])
    True
    """
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__}


def is_table(value: object) -> bool:
    """Whether this is a dataset of the library, a stream of it, or several splits.

    >>> is_table({"train": []})
    False
    """
    return not full_names(value).isdisjoint((TABLE, STREAM, *SPLITS))


@dataclass(frozen=True, eq=False)
class RowImage(StoredImage):
    """A photo whose contents are in a table."""

    rows: Any
    column: str
    index: int

    def __str__(self) -> str:
        return f"row {self.index:,} of the dataset"

    def contents(self) -> bytes:
        """What its file would hold."""
        value = self.rows[self.index][self.column]
        contents, path = (value.get("bytes"), value.get("path")) if value else (None, None)
        if contents:
            return bytes(contents)
        if path and is_address(path):
            raise BadImageError(
                f"Cannot use {str(self)!r}: it has only the address {brief(path)!r}. Nothing is fetched: "
                "download the photos first."
            )
        raise BadImageError(f"Cannot use {str(self)!r}: it has no image.")

    def location(self) -> tuple[str, str]:
        """No file that could tell whether the row has changed, and its name."""
        return "", str(self)


def table_photos(dataset: Any, image: str | None = None, label: str | None = None) -> LabelledPhotos:
    """The photos of a dataset with their labels; of a stream, after one pass over it.

    image, label: the names of the columns, if there are several that could be meant.
    """
    columns = _Columns.of(dataset, "train", image, label, labelled=True)
    assert columns.label is not None
    images, values = columns.read()
    names = columns.names
    return LabelledPhotos(images, [_label(row, value, names) for row, value in enumerate(values)])


def table_images(dataset: Any, image: str | None = None) -> Sequence[ImageSource]:
    """The photos alone."""
    return _Columns.of(dataset, "test", image, None, labelled=False).read()[0]


@dataclass(frozen=True)
class _Columns:
    """Which columns of a dataset are meant."""

    dataset: Any
    image: str
    label: str | None

    @classmethod
    def of(
        cls, dataset: Any, likely: str, image: str | None, label: str | None, *, labelled: bool
    ) -> _Columns:
        names = full_names(dataset)
        if not names.isdisjoint(SPLITS):
            raise _several_splits(dataset, likely)
        if (getattr(dataset, "format", None) or {}).get("type") == "custom":
            raise InputError(
                "The dataset has a transform (set_transform), and photos are taken as they are stored, and "
                "prepared as the network needs them. Take it off: dataset.with_format(None)."
            )
        features = dataset.features
        if features is None:
            raise InputError(
                "The stream does not say what its columns are, as after `map`. Tell it: "
                "dataset.cast(features), or map(…, features=features)."
            )
        image = _image_column(features, image)
        return cls(dataset, image, _label_column(features, label) if labelled else None)

    @property
    def names(self) -> Sequence[str] | None:
        """The names of the classes, if labels are numbers of them."""
        feature: Any = None if self.label is None else self.dataset.features[self.label]
        return feature.names if _kind(feature) == "ClassLabel" else None

    def read(self) -> tuple[list[ImageSource], list[Any]]:
        """The images, and the values of their labels."""
        wanted = [self.image, *([] if self.label is None else [self.label])]
        # Also in a table that gives arrays, or hides some of its columns.
        plain = self.dataset.with_format(None).select_columns(wanted)
        encoded = replace(self.dataset.features[self.image], decode=False)
        rows = plain.cast_column(self.image, encoded)
        if STREAM in full_names(self.dataset):
            return self._streamed(rows)
        images = [*self._images(rows)]
        return images, [] if self.label is None else list(rows[self.label][:])

    def _images(self, rows: Any) -> Iterator[ImageSource]:
        """The path of each photo that is in a file of its own, and the row of each other."""
        index = 0
        for part in rows.with_format("arrow").iter(batch_size=ROWS):
            for chunk in part.column(self.image).chunks:
                paths, inside = chunk.field("path").to_pylist(), chunk.field("bytes").is_valid().to_pylist()
                for path, has_contents in zip(paths, inside, strict=True):
                    in_file = path and not has_contents and not is_address(path)
                    yield path if in_file else RowImage(rows, self.image, index)
                    index += 1

    def _streamed(self, rows: Any) -> tuple[list[ImageSource], list[Any]]:
        images: list[ImageSource] = []
        labels: list[Any] = []
        waiting = Waiting()
        with progress_bar(None, "photos") as bar:
            task = bar.add_task("Reading the stream", total=None, note="")
            for index, row in enumerate(rows):
                value = row[self.image] or {}
                contents, path = value.get("bytes"), value.get("path")
                if contents:
                    images.append(waiting.put(bytes(contents), f"row {index:,} of the stream"))
                elif path and not is_address(path):
                    images.append(path)
                else:
                    images.append(RowImage({index: row}, self.image, index))
                labels += [] if self.label is None else [row[self.label]]
                bar.advance(task)
        return images, labels


def _several_splits(splits: Mapping[str, object], likely: str) -> InputError:
    kind, names = type(splits).__name__, [*splits]
    guess = next((name for name in (likely, "train", *names) if name in splits), None)
    if guess is None:
        return InputError(f"This {kind} has no splits. Give a dataset.")
    return InputError(
        f"This {kind} has the splits {', '.join(names)}, and is not one dataset. Did you mean "
        f"dataset[{guess!r}]?"
    )


def _kind(feature: object) -> str:
    return type(feature).__name__


def _image_column(features: Mapping[str, Any], wanted: str | None) -> str:
    able = [name for name, feature in features.items() if _kind(feature) == "Image"]
    if wanted is not None:
        if wanted not in features:
            raise unknown_name("column", wanted, features)
        if wanted not in able:
            raise InputError(
                f"The column {wanted!r} holds {_kind(features[wanted])}, not images. Make it one of images: "
                f"dataset.cast_column({wanted!r}, datasets.Image())."
            )
        return wanted
    if not able:
        raise InputError(
            f"The dataset has no column of images, only {brief(', '.join(features))}. Make one of paths or "
            "contents of files: dataset.cast_column(name, datasets.Image())."
        )
    if len(able) > 1:
        raise InputError(
            f"The dataset has several columns of images: {brief(', '.join(able))}. Say which is meant: "
            f"image={able[0]!r}."
        )
    return able[0]


def _label_column(features: Mapping[str, Any], wanted: str | None) -> str:
    classes = [name for name, feature in features.items() if _kind(feature) == "ClassLabel"]
    values = [name for name, feature in features.items() if _is_label(feature)]
    if wanted is not None:
        if wanted not in features:
            raise unknown_name("column", wanted, features)
        if wanted not in (*classes, *values):
            raise InputError(
                f"The column {wanted!r} holds {_kind(features[wanted])}, not labels. Labels are "
                "a ClassLabel, strings or whole numbers."
            )
        return wanted
    if len(classes) == 1:
        return classes[0]
    usual = [name for name in LABELS if name in (classes or values)]
    if usual:
        return usual[0]
    if not (able := classes or values):
        raise InputError(
            "The dataset has no column of labels (a ClassLabel, strings or whole numbers). Its columns are: "
            f"{brief(', '.join(features))}. Add one."
        )
    raise InputError(
        f"Which column has the labels? It could be {brief(' or '.join(able))}. Say so: label={able[0]!r}.",
        about="label",
    )


def _is_label(feature: Any) -> bool:
    if _kind(feature) != "Value":
        return False
    return "string" in feature.dtype or feature.dtype.lstrip("u").startswith("int")


def _label(row: int, value: Any, names: Sequence[str] | None) -> str:
    """The label that a row has."""
    if value is None or value == "" or (names is not None and value < 0):
        raise InputError(
            f"Row {row:,} of the dataset has no label ({value!r}). Leave such rows out: dataset.filter(…)."
        )
    return str(value) if names is None else names[value]
