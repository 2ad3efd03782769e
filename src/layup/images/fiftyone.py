"""Exports of FiftyOne: `labels.json` of an image classification dataset, and samples from `to_json`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from layup.errors import InputError
from layup.formats import brief
from layup.images.addresses import is_address
from layup.images.folders import find_images
from layup.images.manifests import LABELS
from layup.images.tasks import Task, column_of, read_json, refuse, text_of

NAMES = ("labels.json", "samples.json")
"""What FiftyOne calls its lists, beside the folder of photos."""


def labels_tasks(path: Path, value: Mapping[str, Any], data: Path) -> Iterator[Task]:
    """Names without endings, and the class of each, by name or by number."""
    classes, files = value.get("classes"), _named_files(path, data)
    if not (
        classes is None or (isinstance(classes, list) and all(isinstance(each, str) for each in classes))
    ):
        raise InputError(f"{str(path)!r}: 'classes' is {brief(repr(classes))}, but must be a list of names.")
    for number, (name, target) in enumerate(value["labels"].items()):
        whole = os.path.isabs(name) or is_address(name)  # noqa: PTH117
        file = name if whole else files.get(name, str(data / name))
        yield Task(number, file, [(False, "", each) for each in _target(path, number, target, classes)])


def _named_files(path: Path, data: Path) -> dict[str, str]:
    """The photos below a folder, or in the list beside the labels, by their names without endings."""
    listed = path.parent / "data.json"
    if not data.is_dir() and listed.is_file():
        value = read_json(listed)
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise InputError(f'{str(listed)!r} must name a file for each photo: {{"1": "/photos/1.jpg"}}.')
        return {os.path.splitext(name)[0]: str(path.parent / file) for name, file in value.items()}  # noqa: PTH122
    found = find_images(data) if data.is_dir() else []
    return {each.relative_to(data).with_suffix("").as_posix(): str(each) for each in found}


def _target(path: Path, number: int, target: Any, classes: Sequence[str] | None) -> list[str]:
    """The class that is meant, in a list; none of several classes, or of no class."""
    value = target.get("label") if isinstance(target, dict) else target
    if value is None or isinstance(value, list):
        return []
    if isinstance(value, int) and not isinstance(value, bool):
        if classes is None:
            return [str(value)]
        if not 0 <= value < len(classes):
            refuse(path, number, f"its class is {value}, but there are {len(classes)} classes, from 0 on")
        return [classes[value]]
    return [text_of(path, number, "its class", value)]


def samples_tasks(
    path: Path, samples: Sequence[Any], label: str | None, folder: Path, labelled: bool
) -> Iterator[Task]:
    """Samples with a path, and fields that are classifications."""
    wanted = _field(path, samples, label) if labelled else None
    for number, sample in enumerate(samples):
        if not isinstance(sample, dict):
            refuse(path, number, f"it is {brief(repr(sample))}, but must be a sample")
        file = text_of(path, number, "'filepath'", sample.get("filepath"))
        found = None if wanted is None else sample.get(wanted)
        task = Task(number, file if is_address(file) else str(folder / file))
        if isinstance(found, dict) and found.get("label") is not None:
            task.answers.append(
                (False, "", text_of(path, number, f"the label of {wanted!r}", found["label"]))
            )
        yield task


def _field(path: Path, samples: Sequence[Any], label: str | None) -> str:
    """The field with the labels."""
    found = {
        name: None
        for sample in samples
        if isinstance(sample, dict)
        for name, value in sample.items()
        if isinstance(value, dict) and value.get("_cls") == "Classification"
    }
    return column_of(path, [*found], label, ("ground_truth", *LABELS), "field of classifications")
