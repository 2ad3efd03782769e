"""Photos in folders: which files are images, and the class of each."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from unicodedata import normalize

from layup.errors import InputError
from layup.formats import has_controls, printable
from layup.images.decode import ImageSource

CLUTTER = frozenset({"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx", "@eadir"})
"""What operating systems leave among photos (lower case)."""

PARTS = frozenset({"train", "training", "val", "valid", "validation", "test"})
"""Folder names that are parts of a dataset rather than classes, if they contain folders."""


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
    return _sorted_below(_existing(folder))


def class_folders(folder: str | os.PathLike[str]) -> tuple[list[Path], list[str]]:
    """PHOTOS/class/**: the files, and the class of each, which is the name of its first-level folder.

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
    photos = _existing(folder)
    inside, loose = visible(photos)
    location = _real(photos)
    classes = [each for each in inside if not _leads_up(_real(each), [location])]
    if not classes:
        found = f"only {len(loose)} files" if loose else "nothing"
        raise InputError(
            f"{str(photos)!r} has no class folders, {found} directly in it. "
            "Put each class in its own folder: PHOTOS/tabby/1.jpg."
        )
    classes.sort()
    if {each.name.lower() for each in classes} <= PARTS and all(visible(each)[0] for each in classes):
        raise InputError(
            f"{str(photos)!r} holds the parts of a dataset ({', '.join(each.name for each in classes)}), not "
            f"classes. Did you mean {str(classes[-1])!r}?"
        )
    classes += [each for each in loose if each.is_symlink() and not each.exists()]
    labelled = [(path, label_of(each)) for each in sorted(classes) for path in _of_class(each)]
    if not labelled:
        names = ", ".join(each.name for each in classes)
        raise InputError(
            f"The class folders in {str(photos)!r} are all empty: {names}. "
            "Put photos in them: PHOTOS/tabby/1.jpg."
        )
    return [path for path, _ in labelled], [label for _, label in labelled]


def label_of(folder: Path) -> str:
    """The label of a class folder.

    >>> label_of(Path("photos/cafe\u0301"))
    'café'
    """
    # The same letters for every file system's spelling: a Mac decomposes é.
    return printable(normalize("NFC", folder.name))


def require_one_label_each(images: Sequence[ImageSource], labels: Sequence[str]) -> None:
    """Refuse different numbers of images and labels."""
    if len(images) != len(labels):
        raise InputError(
            f"There are {len(images)} images but {len(labels)} labels. Give one label per image."
        )


def _existing(folder: str | os.PathLike[str]) -> Path:
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
                if not entry.name.startswith(".") and entry.name.lower() not in CLUTTER:
                    (folders if _is_folder(entry) else files).append(folder / entry.name)
    except OSError as error:
        raise _closed(folder, error) from error
    return folders, files


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
