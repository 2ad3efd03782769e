"""Exports of Label Studio: JSON, JSON-MIN and CSV, with one choice per photo."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from layup.errors import InputError
from layup.images.addresses import is_address
from layup.images.folders import has_photo_name
from layup.images.manifests import DELIMITERS, LABELS, PATHS, lines_of, names_in, spelled
from layup.images.tasks import Task, column_of, refuse, text_of

STUDIO = frozenset({"annotation_id", "annotator", "lead_time"})
"""Columns by which a table of Label Studio's is recognised."""
OF_STUDIO = STUDIO | {"id", "created_at", "updated_at", "agreement", "project", "comments", "sentiment_id"}
"""Columns that hold neither photos nor labels."""
UPLOAD, LOCAL = "/data/upload/", "/data/local-files/"


def annotated_tasks(path: Path, tasks: Sequence[Mapping[str, Any]], folder: Path) -> Iterator[Task]:
    """Tasks with the annotations of each."""
    for number, each in enumerate(tasks):
        data, annotations = each.get("data"), each.get("annotations", [])
        if not isinstance(data, dict) or not isinstance(annotations, list):
            refuse(path, number, "it is no task of Label Studio's, with data and a list of annotations")
        file = data[column_of(path, _able_to_be_photos(data), None, PATHS, "value that could be a photo")]
        task = Task(number, _place(file, folder))
        for annotation in annotations:
            if isinstance(annotation, dict) and not annotation.get("was_cancelled"):
                result = annotation.get("result")
                chosen = [
                    choice
                    for part in (result if isinstance(result, list) else [])
                    if isinstance(part, dict) and part.get("type") == "choices"
                    for choice in _choices(part.get("value"))
                ]
                changed = str(annotation.get("updated_at", ""))
                if len(chosen) == 1:
                    task.answers.append((annotation.get("ground_truth") is True, changed, chosen[0]))
        yield task


def _able_to_be_photos(row: Mapping[str, Any]) -> list[str]:
    texts = [name for name, value in row.items() if isinstance(value, str) and name not in OF_STUDIO]
    return [
        name
        for name in texts
        if row[name].startswith((UPLOAD, LOCAL)) or is_address(row[name]) or has_photo_name(row[name])
    ]


def table_tasks(
    path: Path, rows: Sequence[Mapping[str, Any]], label: str | None, folder: Path, labelled: bool
) -> Iterator[Task]:
    """Rows, one per annotation; those of a photo have the same number."""
    if not rows:
        raise InputError(f"{str(path)!r} lists no photos.")
    photo = column_of(path, _able_to_be_photos(rows[0]), None, PATHS, "column of photos")
    others = [name for name in dict.fromkeys(name for row in rows for name in row) if name != photo]
    able = [name for name in others if spelled(name) not in OF_STUDIO]
    answer = column_of(path, able, label, ("choice", *LABELS), "column of labels") if labelled else None
    tasks: dict[object, Task] = {}
    for number, row in enumerate(rows):
        file = text_of(path, number, f"{photo!r}", row.get(photo))
        task = tasks.setdefault(str(row.get("id", number)), Task(number, _place(file, folder)))
        chosen = _choices(None if answer is None else row.get(answer))
        if len(chosen) == 1:
            task.answers.append((False, str(row.get("updated_at", "")), chosen[0]))
    return iter(tasks.values())


def _choices(value: Any) -> list[str]:
    """The classes that were chosen: one text, or several in an object, which in CSV is a text itself."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
    if isinstance(value, dict):
        value = value.get("choices")
    found = value if isinstance(value, list) else [value]
    return [each for each in found if isinstance(each, str) and each]


def _place(file: str, folder: Path) -> str:
    """Where a photo is that Label Studio calls so: uploaded, in a folder of the server, or anywhere."""
    if file.startswith(LOCAL):
        inside = parse_qs(urlsplit(file).query).get("d", [""])[0]
        return str(folder / inside.lstrip("/"))
    if file.startswith(UPLOAD):
        inside = file.removeprefix(UPLOAD)
        places = [folder / inside, folder / "upload" / inside, folder / Path(inside).name]
        return str(next((place for place in places if place.is_file()), places[0]))
    return file if is_address(file) else str(folder / file)


def is_studio(names: Sequence[str]) -> bool:
    """Whether a table with these columns is one of Label Studio's."""
    return {*map(spelled, names)} >= STUDIO


def head_of(path: Path) -> tuple[str, list[str]]:
    """The delimiter of a table, and the names of its columns."""
    first = next(lines_of(path), "")
    return max(((each, names_in(first, each)) for each in DELIMITERS), key=lambda found: len(found[1]))


def csv_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a table, by the names of its columns."""
    delimiter, names = head_of(path)
    lines = lines_of(path)
    next(lines)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    rows: list[dict[str, Any]] = []
    try:
        for row in reader:
            if row and len(row) != len(names):
                refuse(path, len(rows), f"it has {len(row)} values, but the first line has {len(names)}")
            rows += [dict(zip(names, row, strict=True))] if row else []
    except csv.Error as error:
        raise InputError(
            f"{str(path)!r}, line {reader.line_num + 1:,}: this is not CSV ({error})."
        ) from error
    return rows
