"""Lists of photos and labels: CSV files, JSON lines and Parquet files, read line by line."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NoReturn

from layup.errors import InputError
from layup.formats import brief, has_controls
from layup.images import parquet
from layup.images.addresses import is_address
from layup.images.labelled import LabelledPhotos, label_from

ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", parquet.ENDING)
"""How the names of manifests end (lower case)."""

PATHS = ("path", "file", "file_name", "filename", "file_path", "filepath", "image", "image_path")
"""Names of the column of paths, the surest first."""

LABELS = ("label", "class", "class_name", "category")
"""Names of the column of labels."""

DELIMITERS = (",", ";", "\t")

LONGEST_LINE = 1 << 20
"""Bytes: one line is held at a time."""

PART = 10_000
"""How many photos are held at a time."""


def is_manifest(path: Path) -> bool:
    """Whether a file's name is that of a list of photos.

    >>> is_manifest(Path("labels.CSV")), is_manifest(Path("1.jpg"))
    (True, False)
    """
    return path.name.lower().endswith(ENDINGS)


def manifest_parts(path: Path, label: str | None = None) -> Iterator[LabelledPhotos]:
    """The photos that a manifest lists, and the label of each, in parts: only one of them is held.

    label: the name of the column of labels, if it has an unusual one. Relative paths begin at the manifest.
    Nothing is opened. A million lines take a few seconds.
    """
    checked: dict[str, str] = {}  # a million labels, but few different ones
    entries = _entries(path, label, labelled=True)
    while part := list(islice(entries, PART)):
        for line, _, text in part:
            if text not in checked:
                checked[text] = _checked(path, line, text)
        yield LabelledPhotos([file for _, file, _ in part], [checked[text] for _, _, text in part])


def _checked(path: Path, line: int, label: str) -> str:
    if not label:
        _refuse(path, line, "the label is empty. Give every photo one")
    if has_controls(label):
        _refuse(path, line, f"the label {label!r} has control characters. Rename it")
    return label_from(label)


def manifest_photos(path: Path) -> list[str]:
    """The photos that a manifest lists, with or without labels."""
    return [file for _, file, _ in _entries(path, None, labelled=False)]


def manifest_text(
    images: Sequence[object], labels: Sequence[str], more: Mapping[str, Sequence[object]] | None = None
) -> str:
    """The lines of a manifest (CSV) of photos that are files: what `manifest_parts` reads.

    more: further columns, which are for people. Paths are absolute, so that the list may be anywhere.

    >>> print(manifest_text(["/photos/1.jpg"], ["tabby"], {"was": ["beagle"]}), end="")
    path,label,was
    /photos/1.jpg,tabby,beagle
    """
    columns = {"label": labels, **(more or {})}
    paths = [_listable(image) for image in images]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", *columns])
    writer.writerows(zip(paths, *columns.values(), strict=True))
    return text.getvalue()


def _listable(image: object) -> str:
    """The path of a file as a list can have it; it has no way to write names with odd characters."""
    if not isinstance(image, str | os.PathLike):
        raise InputError(f"{str(image)!r} cannot be listed: it is not a file of its own. Unpack the archive.")
    path = os.fspath(image)
    if isinstance(path, bytes) or has_controls(path) or path != path.strip():
        raise InputError(f"{brief(repr(path))} cannot be listed: its name has odd characters. Rename it.")
    return os.path.abspath(path)  # noqa: PTH100 (a million of them)


def _entries(path: Path, label: str | None, labelled: bool) -> Iterator[tuple[int, str, str]]:
    """The number of each line, the path and the label in it."""
    empty = True
    folder = "" if path.parent == Path() else str(path.parent)
    if parquet.is_parquet(path):
        reader = _parquet_entries
    else:
        reader = _csv_entries if path.name.lower().endswith((".csv", ".tsv")) else _json_entries
    for line, file, text in reader(path, (label,) if label else LABELS, labelled):
        if not file:
            _refuse(path, line, "the path is empty. Give the path of a photo")
        if is_address(file):
            _refuse(
                path, line, f"{brief(file)!r} is an address. Nothing is fetched: download the photos first"
            )
        empty = False
        yield line, _located(folder, file), text
    if empty:
        raise InputError(f"{str(path)!r} lists no photos.")


def _located(folder: str, file: str) -> str:
    """Where a file of a manifest is."""
    found = os.path.join(folder, file)  # noqa: PTH118 (a million of them)
    if "\\" in file and not os.path.lexists(found):  # written by Windows
        return _located(folder, file.replace("\\", "/"))
    return found


def _refuse(path: Path, line: int, reason: str) -> NoReturn:
    """line: its number, or 0 for what is wrong with all of them."""
    kind = "row" if parquet.is_parquet(path) else "line"
    raise InputError(f"{str(path)!r}{f', {kind} {line:,}' if line else ''}: {reason}.")


# CSV


def _csv_entries(path: Path, labels: Iterable[str], labelled: bool) -> Iterator[tuple[int, str, str]]:
    lines = _lines(path)
    first = next(lines, "")
    delimiter = max(DELIMITERS, key=lambda each: sum(name in PATHS for name in _names(first, each)))
    names = _names(first, delimiter)
    file_at = _column(path, 1, names, PATHS, "paths")
    label_at = _column(path, 1, names, labels, "labels") if labelled else file_at
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if not row:
                continue
            line = reader.line_num + 1
            if len(row) != len(names):
                _refuse(path, line, f"it has {len(row)} values, but the first line has {len(names)}")
            yield line, row[file_at].strip(), row[label_at].strip()
    except csv.Error as error:
        _refuse(path, reader.line_num + 1, f"this is not CSV ({error})")


def _names(line: str, delimiter: str) -> list[str]:
    """The names of the columns, in one spelling.

    >>> _names('"File Name";Label', ";")
    ['file_name', 'label']
    """
    try:
        row = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []
    return [_spelled(name) for name in row]


@lru_cache(1000)
def _spelled(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _column(path: Path, line: int, names: list[str], wanted: Iterable[str], what: str) -> int:
    for name in wanted:
        if _spelled(name) in names:
            return names.index(_spelled(name))
    have = brief(", ".join(names))
    _refuse(path, line, f"no name for the {what}, such as {next(iter(wanted))!r}, is among {have!r}. Add it")


# JSON lines


def _json_entries(path: Path, labels: Iterable[str], labelled: bool) -> Iterator[tuple[int, str, str]]:
    for line, text in enumerate(_lines(path), 1):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            _refuse(path, line, f"this is not JSON ({brief(str(error))})")
        if not isinstance(value, dict):
            _refuse(path, line, 'this is not an object such as {"path": "1.jpg", "label": "tabby"}')
        row = {_spelled(key): each for key, each in value.items()}
        names = list(row)
        file = names[_column(path, line, names, PATHS, "paths")]
        label = names[_column(path, line, names, labels, "labels")] if labelled else file
        yield line, _text(path, line, file, row[file]), _text(path, line, label, row[label])


def _text(path: Path, line: int, name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        _refuse(path, line, f"{name!r} is {brief(repr(value))}, but must be text")
    return str(value).strip()


# Parquet


def _parquet_entries(path: Path, labels: Iterable[str], labelled: bool) -> Iterator[tuple[int, str, str]]:
    with parquet.opened(path) as table:
        written = table.schema_arrow.names
        names = [_spelled(name) for name in written]
        file = written[_column(path, 0, names, PATHS, "paths")]
        label = written[_column(path, 0, names, labels, "labels")] if labelled else file
        for row, values in enumerate(parquet.rows_of(table, [file, label]), 1):
            yield row, _text(path, row, file, values[0]), _text(path, row, label, values[1])


# Lines


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text in UTF-8, with or without a mark at its beginning."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    _refuse(path, number, f"it is longer than {LONGEST_LINE:,} bytes")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        _refuse(path, number, "this is not UTF-8. Save the list as UTF-8")
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read ({error.strerror or error}).") from error
