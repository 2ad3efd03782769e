"""Photos as people have them: folders, archives, shards and lists, with or without labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from layup.errors import InputError
from layup.images.addresses import located
from layup.images.archive_classes import archive_classes, inside_archive
from layup.images.archives import (
    Listing,
    is_archive,
    list_archive,
    list_fetched,
    split_address,
    split_at_archive,
)
from layup.images.decode import ImageSource
from layup.images.fetched import FetchedImage
from layup.images.folders import METADATA, existing, find_images, folder_parts, visible
from layup.images.labelled import LabelledPhotos
from layup.images.manifests import is_manifest, manifest_parts, manifest_photos
from layup.images.shards import expanded, is_shard, photos_of_shard, shard_photos

TAKEN = (
    "Give a folder with one folder per class, a zip or tar archive of one, WebDataset shards, or a list of "
    "paths and labels (CSV, JSON lines or Parquet)."
)


def labelled_photos(
    source: str | os.PathLike[str], *, label: str | None = None, allow_addresses: bool = False
) -> LabelledPhotos:
    """Photos and their labels: of class folders, an archive of them, WebDataset shards, or a manifest.

    label: the column of the labels in a manifest, if it has an unusual name. Nothing is decoded or unpacked
    here; names and labels are read.
    allow_addresses: follow addresses, of photos in a manifest and of tars, wherever they lead.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     manifest = Path(folder, "list.csv")
    ...     _ = manifest.write_text("path,label\\n/photos/1.jpg,tabby\\n")
    ...     labelled_photos(manifest)
    LabelledPhotos(images=['/photos/1.jpg'], labels=['tabby'], remarks=[])
    """
    return LabelledPhotos.joined(labelled_parts(source, label=label, allow_addresses=allow_addresses))


def labelled_parts(
    source: str | os.PathLike[str], *, label: str | None = None, allow_addresses: bool = False
) -> Iterator[LabelledPhotos]:
    """The same in parts, however many photos there are: only one part is held at a time.

    A part is a class folder, an archive, or some lines of a list. What is wrong with a later part is noticed
    only there.
    """
    for place in _expanded(source, allow_addresses):
        if isinstance(place, FetchedImage):
            yield _labelled_at(place)
        else:
            yield from _parts(place, label, allow_addresses)


def unlabelled_photos(
    source: str | os.PathLike[str], *, allow_addresses: bool = False
) -> Sequence[ImageSource]:
    """The photos of a file, a folder, an archive or a manifest, or at an address; labels are not needed.

    >>> unlabelled_photos("no/such.jpg")
    Traceback (most recent call last):
    layup.errors.InputError: There is no file or folder 'no/such.jpg'.
    """
    return [
        photo
        for place in _expanded(source, allow_addresses)
        for photo in (
            _unlabelled_at(place) if isinstance(place, FetchedImage) else _unlabelled(place, allow_addresses)
        )
    ]


def _expanded(source: str | os.PathLike[str], allow_addresses: bool) -> list[Path | FetchedImage]:
    """The places that are meant, if braces stand for several."""
    place = located(source, allow_addresses)
    if isinstance(place, FetchedImage):
        return [FetchedImage(each) for each in expanded(place.address)]
    path = Path(place)
    try:
        there = path.exists()
    except OSError:  # a name that is too long, say: reading it will report it
        there = True
    return [path] if there else [Path(each) for each in expanded(str(path))]


def _labelled(listing: Listing) -> LabelledPhotos:
    return shard_photos(listing) if is_shard(listing) else archive_classes(listing)


def _labelled_at(place: FetchedImage) -> LabelledPhotos:
    """The photos of a tar at an address, or of a folder in it."""
    found = split_address(place.address)
    if found is None:
        raise InputError(
            f"{place.address!r} must be a plain tar of photos and their labels. Give one, or a list (CSV, "
            "JSON lines or Parquet) of the addresses of photos and their labels."
        )
    return _labelled(inside_archive(list_fetched(found[0]), found[1]))


def _unlabelled_at(place: FetchedImage) -> Sequence[ImageSource]:
    """The photo at an address, or the photos of a tar."""
    found = split_address(place.address)
    return _photos(inside_archive(list_fetched(found[0]), found[1])) if found else [place]


def _photos(listing: Listing) -> Sequence[ImageSource]:
    return photos_of_shard(listing) if is_shard(listing) else listing.in_order()


def _parts(path: Path, label: str | None, allow_addresses: bool) -> Iterable[LabelledPhotos]:
    if found := split_at_archive(path):
        return [_labelled(inside_archive(list_archive(found[0]), found[1]))]
    if path.is_file():
        if is_manifest(path):
            return manifest_parts(path, label, allow_addresses=allow_addresses)
        raise InputError(f"{str(path)!r} is a file, but must hold photos and their labels. {TAKEN}")
    folders, files = visible(existing(path))
    lists = [each for each in files if each.name in METADATA]
    # One folder may be where the listed photos are.
    if lists and len(folders) <= 1:
        return manifest_parts(min(lists), label, allow_addresses=allow_addresses)
    if archives := _archives(folders, files):
        return (part for each in archives for part in _parts(each, label, allow_addresses))
    return folder_parts(path)


def _unlabelled(path: Path, allow_addresses: bool) -> Sequence[ImageSource]:
    if found := split_at_archive(path):
        return _photos(inside_archive(list_archive(found[0]), found[1]))
    if path.is_dir():
        if archives := _archives(*visible(path)):
            return [photo for each in archives for photo in _unlabelled(each, allow_addresses)]
        return [each for each in find_images(path) if each.name not in METADATA]
    if not path.exists():
        raise InputError(f"There is no file or folder {str(path)!r}.")
    return manifest_photos(path, allow_addresses=allow_addresses) if is_manifest(path) else [path]


def _archives(folders: list[Path], files: list[Path]) -> list[Path]:
    """The archives of a folder that holds nothing else."""
    return sorted(files) if not folders and all(map(is_archive, files)) else []
