"""Exports of labelling tools as lists: of FiftyOne and of Label Studio. A file is read whole, and checked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from layup.errors import InputError
from layup.formats import has_controls
from layup.images.addresses import at_address, is_address
from layup.images.fetched import FetchedImage
from layup.images.fiftyone import labels_tasks, samples_tasks
from layup.images.folders import existing
from layup.images.label_studio import annotated_tasks, csv_rows, head_of, is_studio, table_tasks
from layup.images.labelled import LabelledPhotos, counted, label_from
from layup.images.members import with_members
from layup.images.tasks import Task, read_json, refuse

ENDING = ".json"


def is_export(path: Path) -> bool:
    """Whether a file is meant as an export: any JSON file, or a table with the columns of Label Studio's."""
    name = path.name.lower()
    if name.endswith(ENDING):
        return True
    return name.endswith((".csv", ".tsv")) and is_studio(head_of(path)[1])


def export_photos(
    path: Path,
    label: str | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    allow_addresses: bool = False,
) -> LabelledPhotos:
    """The photos of an export with their labels. What has no label is left out, and remarked.

    label: the field with the labels, if there are several.
    root: the folder of the photos, if they are not where the export says, seen from its own folder.
    """
    tasks = [*_tasks(path, label, root, labelled=True)]
    told = [(task, task.label) for task in tasks]
    known = [(task, _checked(path, task, text)) for task, text in told if text is not None]
    if not known:
        raise InputError(f"No photo in {str(path)!r} has one label. Label some, and export them again.")
    without = [task.file for task, text in told if text is None]
    remarks = (
        [f"Left out: {counted(without, 'photo')} without one label in {str(path)!r}."] if without else []
    )
    places = with_members([_located(path, task, allow_addresses) for task, _ in known])
    return LabelledPhotos(places, [text for _, text in known], remarks)


def export_images(
    path: Path, *, root: str | os.PathLike[str] | None = None, allow_addresses: bool = False
) -> Sequence[Any]:
    """The photos of an export, with or without labels."""
    tasks = [*_tasks(path, None, root, labelled=False)]
    if not tasks:
        raise InputError(f"{str(path)!r} lists no photos.")
    return with_members([_located(path, task, allow_addresses) for task in tasks])


def _tasks(
    path: Path, label: str | None, root: str | os.PathLike[str] | None, *, labelled: bool
) -> Iterator[Task]:
    folder = path.parent if root is None else existing(root)
    if not path.name.lower().endswith(ENDING):
        return table_tasks(path, csv_rows(path), label, folder, labelled)
    value = read_json(path)
    if isinstance(value, dict) and isinstance(value.get("labels"), dict):
        return labels_tasks(path, value, folder if root else path.parent / "data")
    if isinstance(value, dict) and isinstance(value.get("samples"), list):
        return samples_tasks(path, value["samples"], label, folder, labelled)
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        if "data" in value[0]:
            return annotated_tasks(path, value, folder)
        if is_studio(list(value[0])):
            return table_tasks(path, value, label, folder, labelled)
    raise InputError(
        f"{str(path)!r} is no export that is known. Known are: labels.json and samples.json of FiftyOne, and "
        "JSON, JSON-MIN and CSV of Label Studio. Other lists are CSV, JSON lines or Parquet."
    )


def _checked(path: Path, task: Task, label: str) -> str:
    if has_controls(label):
        refuse(path, task.number, f"the label {label!r} has control characters. Rename it")
    return label_from(label)


def _located(path: Path, task: Task, allow_addresses: bool) -> str | FetchedImage:
    if not is_address(task.file):
        return task.file
    try:
        return at_address(task.file, allow_addresses)
    except InputError as error:
        raise InputError(f"{str(path)!r}, item {task.number:,}: {error}", about=error.about) from error
