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
from layup.images.addresses import at_address, is_address
from layup.images.archives import ArchiveMember
from layup.images.decode import described
from layup.images.fetched import FetchedImage
from layup.images.labelled import LabelledPhotos, label_from
from layup.images.members import Place, with_members

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


def manifest_parts(
    path: Path, label: str | None = None, *, allow_addresses: bool = False
) -> Iterator[LabelledPhotos]:
    """The photos that a manifest lists, and the label of each, in parts: only one of them is held.

    label: the name of the column of labels, if it has an unusual one. Relative paths begin at the manifest.
    Only archives that paths lead into are opened. A million lines take a few seconds.
    """
    checked: dict[str, str] = {}  # a million labels, but few different ones
    entries = _entries(path, label, True, allow_addresses)
    while part := list(islice(entries, PART)):
        for line, _, text in part:
            if text not in checked:
                checked[text] = _checked(path, line, text)
        places = with_members([file for _, file, _ in part])
        yield LabelledPhotos(places, [checked[text] for _, _, text in part])


def _checked(path: Path, line: int, label: str) -> str:
    if not label:
        _refuse(path, line, "the label is empty. Give every photo one")
    if has_controls(label):
        _refuse(path, line, f"the label {label!r} has control characters. Rename it")
    return label_from(label)


def manifest_photos(path: Path, *, allow_addresses: bool = False) -> list[Place]:
    """The photos that a manifest lists, with or without labels."""
    return with_members([file for _, file, _ in _entries(path, None, False, allow_addresses)])


def manifest_text(
    images: Sequence[object], labels: Sequence[str], more: Mapping[str, Sequence[object]] | None = None
) -> str:
    """The lines of a manifest (CSV) of photos in files, in archives or at addresses, for `manifest_parts`.

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
    """A photo as a list can have it, which has no way to write names with odd characters."""
    member = isinstance(image, ArchiveMember)
    if not member and not isinstance(image, str | os.PathLike | FetchedImage):
        raise InputError(f"{described(image)} cannot be listed: it is not in a file. Save it.")
    path = os.fspath(image) if isinstance(image, str | os.PathLike) else str(image)
    odd = isinstance(path, bytes) or has_controls(path) or path != path.strip()
    if odd or (member and "\\" in path):
        raise InputError(f"{brief(repr(path))} cannot be listed: its name has odd characters. Rename it.")
    if isinstance(image, FetchedImage) or (isinstance(image, ArchiveMember) and image.archive.fetched):
        return path
    return os.path.abspath(path)  # noqa: PTH100 (a million of them)


def _entries(
    path: Path, label: str | None, labelled: bool, allow_addresses: bool
) -> Iterator[tuple[int, str | FetchedImage, str]]:
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
        empty = False
        yield line, _located(path, line, folder, file, allow_addresses), text
    if empty:
        raise InputError(f"{str(path)!r} lists no photos.")


def _located(path: Path, line: int, folder: str, file: str, allow_addresses: bool) -> str | FetchedImage:
    """Where a photo of a manifest is."""
    if is_address(file):
        try:
            return at_address(file, allow_addresses)
        except InputError as error:
            raise InputError(f"{_line(path, line)}: {error}", about=error.about) from error
    found = os.path.join(folder, file)  # noqa: PTH118 (a million of them)
    if "\\" in file and not os.path.lexists(found):  # written by Windows
        return os.path.join(folder, file.replace("\\", "/"))  # noqa: PTH118
    return found


def _refuse(path: Path, line: int, reason: str) -> NoReturn:
    raise InputError(f"{_line(path, line)}: {reason}.")


def _line(path: Path, line: int) -> str:
    """How an error names a line by its number: 0 for what is wrong with all of them."""
    kind = "row" if parquet.is_parquet(path) else "line"
    return f"{str(path)!r}{f', {kind} {line:,}' if line else ''}"


# CSV


def _csv_entries(path: Path, labels: Iterable[str], labelled: bool) -> Iterator[tuple[int, str, str]]:
    lines = lines_of(path)
    first = next(lines, "")
    delimiter = max(DELIMITERS, key=lambda each: sum(name in PATHS for name in names_in(first, each)))
    names = names_in(first, delimiter)
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


def names_in(line: str, delimiter: str) -> list[str]:
    """The names of the columns, in one spelling.

    >>> names_in('"File Name";Label', ";")
    ['file_name', 'label']
    """
    try:
        row = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []
    return [spelled(name) for name in row]


@lru_cache(1000)
def spelled(name: str) -> str:
    """The name of a column in one spelling.

    >>> spelled(" File-Name ")
    'file_name'
    """
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _column(path: Path, line: int, names: list[str], wanted: Iterable[str], what: str) -> int:
    for name in wanted:
        if spelled(name) in names:
            return names.index(spelled(name))
    have = brief(", ".join(names))
    _refuse(path, line, f"no name for the {what}, such as {next(iter(wanted))!r}, is among {have!r}. Add it")


# JSON lines


def _json_entries(path: Path, labels: Iterable[str], labelled: bool) -> Iterator[tuple[int, str, str]]:
    for line, text in enumerate(lines_of(path), 1):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            _refuse(path, line, f"this is not JSON ({brief(str(error))})")
        if not isinstance(value, dict):
            _refuse(path, line, 'this is not an object such as {"path": "1.jpg", "label": "tabby"}')
        row = {spelled(key): each for key, each in value.items()}
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
        names = [spelled(name) for name in written]
        file = written[_column(path, 0, names, PATHS, "paths")]
        label = written[_column(path, 0, names, labels, "labels")] if labelled else file
        for row, values in enumerate(parquet.rows_of(table, [file, label]), 1):
            yield row, _text(path, row, file, values[0]), _text(path, row, label, values[1])


# Lines


def lines_of(path: Path) -> Iterator[str]:
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
