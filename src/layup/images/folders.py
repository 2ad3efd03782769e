"""Photos in folders: which files are images, and the class of each."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from pathlib import Path

from layup.errors import InputError
from layup.formats import has_controls
from layup.images.labelled import (
    PARTS,
    LabelledPhotos,
    all_empty,
    label_from,
    left_out,
    no_classes,
    parts_of_dataset,
)

CLUTTER = frozenset({"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx", "@eadir"})
"""What operating systems leave among photos (lower case)."""

PHOTO_ENDINGS = (
    *(".jpg", ".jpeg", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".avif", ".heic", ".heif", ".hif", ".ppm", ".pgm", ".ico"),
)
"""How the names of photos end (lower case)."""

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
"""Files that list the photos of a folder with their labels, as Hugging Face's ImageFolder reads them."""


def find_images(folder: str | os.PathLike[str]) -> list[Path]:
    """All files below a folder that are meant as images, sorted by name.

    Hidden files and folders are skipped, and so is the clutter of systems (Thumbs.db, desktop.ini …). Every
    other file is listed, with any suffix, so that a stray notes.txt is reported as bad when it is opened, not
    silently skipped; so is a folder that cannot be read. Nothing is opened here.

    Links are followed, but no folder is read twice, and a link to a folder that contains the link itself is
    skipped.

    >>> find_images("no/such/folder")
    Traceback (most recent call last):
    layup.errors.InputError: There is no folder 'no/such/folder'.
    """
    return _sorted_below(existing(folder))


def class_folders(folder: str | os.PathLike[str]) -> tuple[list[Path], list[str]]:
    """`PHOTOS/class/**`: the files, and the class of each, which is the name of its first-level folder.

    Both lists are sorted by class, then name. A class folder without files is left out, and files next to the
    class folders are ignored. A class folder that cannot be used (a broken link, no permission, a name with
    control characters or not in UTF-8) is listed itself, so that it is reported when it is opened.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as photos:
    ...     (Path(photos) / "tabby").mkdir()
    ...     (Path(photos) / "tabby" / "1.jpg").touch()
    ...     paths, labels = class_folders(photos)
    >>> [path.name for path in paths], labels
    (['1.jpg'], ['tabby'])
    """
    paths: list[Path] = []
    labels: list[str] = []
    for files, names, _ in _classes(existing(folder)):
        paths += files
        labels += names
    return paths, labels


def folder_parts(folder: Path) -> Iterator[LabelledPhotos]:
    """The same, class by class: only one is held. At the end remarks about what was left out."""
    return (LabelledPhotos(*part) for part in _classes(existing(folder)))


def _classes(photos: Path) -> Iterator[tuple[list[Path], list[str], list[str]]]:
    """The files of a class folder, their labels, and at the end remarks."""
    inside, loose = visible(photos)
    location = _real(photos)
    classes = sorted(each for each in inside if not _leads_up(_real(each), [location]))
    if not classes:
        raise no_classes(str(photos), len(loose))
    if {each.name.lower() for each in classes} <= PARTS and all(map(_is_dataset, classes)):
        raise parts_of_dataset(str(photos), [each.name for each in classes])
    broken = {each for each in loose if each.is_symlink() and not each.exists()}
    empty = []
    for each in sorted([*classes, *broken]):
        if files := _of_class(each):
            yield files, [label_of(each)] * len(files), []
        else:
            empty.append(each.name)
    if len(empty) == len(classes) + len(broken):
        raise all_empty(str(photos), empty)
    names = [each.name for each in loose if each not in broken]
    remarks = left_out(str(photos), [name for name in names if has_photo_name(name)], empty)
    if lists := sorted(set(names) & set(METADATA)):
        remarks.append(
            f"{str(photos / lists[0])!r} is not used, only class folders. Give it itself to use it."
        )
    yield [], [], remarks


def _is_dataset(folder: Path) -> bool:
    """Whether a folder has class folders, or a list of its photos."""
    folders, files = visible(folder)
    return bool(folders) or any(each.name in METADATA for each in files)


def has_photo_name(name: str) -> bool:
    """Whether a file's name is that of a photo.

    >>> has_photo_name("1.JPG"), has_photo_name("readme.txt")
    (True, False)
    """
    return name.lower().endswith(PHOTO_ENDINGS)


def label_of(folder: Path) -> str:
    """The label of a class folder.

    >>> label_of(Path("photos/cafe\u0301"))
    'café'
    """
    return label_from(folder.name)


def existing(folder: str | os.PathLike[str]) -> Path:
    """The folder, which has to be one that can be read."""
    path = Path(folder)
    try:
        if path.is_dir():
            with os.scandir(path):
                return path
        if path.exists():
            raise InputError(f"{str(path)!r} is a file, but must be a folder of photos.")
    except OSError as error:
        raise _closed(path, error) from error
    siblings = [each.name for each in visible(path.parent)[0]] if path.parent.is_dir() else []
    guess = difflib.get_close_matches(path.name, siblings, n=1)
    hint = f" Did you mean {str(path.parent / guess[0])!r}?" if guess else ""
    raise InputError(f"There is no folder {str(path)!r}.{hint}")


def visible(folder: Path) -> tuple[list[Path], list[Path]]:
    """The folders and the files directly in a folder, in no order, without hidden ones and clutter."""
    folders: list[Path] = []
    files: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not is_clutter(entry.name):
                    (folders if _is_folder(entry) else files).append(folder / entry.name)
    except OSError as error:
        raise _closed(folder, error) from error
    return folders, files


def is_clutter(name: str) -> bool:
    """Whether a file or folder of this name is not meant for people: hidden, or left there by a system.

    >>> is_clutter("__MACOSX"), is_clutter(".git"), is_clutter("tabby")
    (True, True, False)
    """
    return name.startswith(".") or name.lower() in CLUTTER


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in circles: opening it will report it
        return False


def _closed(folder: Path, error: OSError) -> InputError:
    return InputError(f"The folder {str(folder)!r} cannot be read ({error.strerror or error}).")


def _of_class(folder: Path) -> list[Path]:
    """The files of a class folder, or the folder itself if it cannot be used."""
    if has_controls(folder.name) or not folder.is_dir():
        return [folder]
    return _sorted_below(folder)


def _sorted_below(folder: Path) -> list[Path]:
    return sorted(_files_below(folder), key=lambda path: path.parts)


def _files_below(folder: Path) -> Iterator[Path]:
    """All files below a folder, and the folders that cannot be read.

    Each folder is read once: by its own name, if it is below, or else by the first link to it.
    """
    read: set[Path] = set()
    links = [(folder, _real(folder), frozenset({_real(folder.parent)}))]
    while links:
        waiting = [heappop(links)]
        while waiting:
            here, location, above = waiting.pop()  # `above`: where the links that led here are
            if location in read:
                continue
            read.add(location)
            try:
                folders, files = visible(here)
            except InputError:
                yield here
                continue
            yield from files
            for each in folders:
                if not _is_link(each):
                    waiting.append((each, location / each.name, above))
                    continue
                target, around = _real(each), above | {location}
                if not _leads_up(target, around):
                    heappush(links, (each, target, around))


def _real(path: Path) -> Path:
    """Where a path leads, without links."""
    return Path(os.path.realpath(path))


def _leads_up(target: Path, locations: Iterable[Path]) -> bool:
    """Whether a link at one of these locations leads to a folder that contains the link.

    >>> [_leads_up(Path(target), [Path("/photos/tabby")]) for target in ("/photos", "/photos/beagle")]
    [True, False]
    """
    return any(location.is_relative_to(target) for location in locations)


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:  # such as a name that is too long: opening it will report it
        return False
