"""Photos as people have them: folders, archives, shards and lists, with or without labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

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
from layup.images.exports import export_images, export_photos, is_export
from layup.images.fetched import FetchedImage
from layup.images.fiftyone import NAMES
from layup.images.folders import METADATA, existing, find_images, folder_parts, visible
from layup.images.labelled import LabelledPhotos
from layup.images.manifests import is_manifest, manifest_parts, manifest_photos
from layup.images.pairs import is_pairs, pair_images, pair_photos
from layup.images.shards import expanded, is_shard, photos_of_shard, shard_photos
from layup.images.tables import is_table, table_images, table_photos

Source: TypeAlias = str | os.PathLike[str] | LabelledPhotos | Any
"""Where photos are: a path, or a dataset."""

TAKEN = (
    "Give a folder with one folder per class, a zip or tar archive of one, WebDataset shards, or a list of "
    "paths and labels (CSV, JSON lines or Parquet, or an export of FiftyOne or Label Studio)."
)


def is_dataset(source: object) -> bool:
    """Whether this is a dataset of another library, or photos with their labels, as Python has them.

    >>> is_dataset([("1.jpg", "tabby")]), is_dataset(LabelledPhotos([], [])), is_dataset(["1.jpg"])
    (True, True, False)
    """
    return isinstance(source, LabelledPhotos) or is_table(source) or is_pairs(source)


def labelled_photos(
    source: Source,
    *,
    image: str | None = None,
    label: str | None = None,
    root: str | os.PathLike[str] | None = None,
    allow_addresses: bool = False,
) -> LabelledPhotos:
    """Photos and their labels: of class folders, an archive of them, WebDataset shards, a list, or a dataset.

    A dataset is one of Hugging Face's `datasets`, or gives (image, target) pairs by index, as torchvision's.
    image, label: the columns of a dataset, if several could be meant; label also that of a list, if it has
    an unusual name. Nothing is unpacked here; names and labels are read.
    root: the folder of the photos that an export of FiftyOne or Label Studio lists, if they are elsewhere.
    allow_addresses: follow addresses, of photos in a manifest and of tars, wherever they lead.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     manifest = Path(folder, "list.csv")
    ...     _ = manifest.write_text("path,label\\n/photos/1.jpg,tabby\\n")
    ...     labelled_photos(manifest)
    LabelledPhotos(images=['/photos/1.jpg'], labels=['tabby'], remarks=[])
    """
    if isinstance(source, str | os.PathLike):
        parts = labelled_parts(source, label=label, root=root, allow_addresses=allow_addresses)
        return LabelledPhotos.joined(parts)
    if isinstance(source, LabelledPhotos):
        return source
    return table_photos(source, image, label) if is_table(source) else pair_photos(source)


def labelled_parts(
    source: str | os.PathLike[str],
    *,
    label: str | None = None,
    root: str | os.PathLike[str] | None = None,
    allow_addresses: bool = False,
) -> Iterator[LabelledPhotos]:
    """The same in parts, however many photos there are: only one part is held at a time.

    A part is a class folder, an archive, or some lines of a list. What is wrong with a later part is noticed
    only there.
    """
    for place in _expanded(source, allow_addresses):
        if isinstance(place, FetchedImage):
            yield _labelled_at(place)
        else:
            yield from _parts(place, label, root, allow_addresses)


def unlabelled_photos(
    source: Source,
    *,
    image: str | None = None,
    root: str | os.PathLike[str] | None = None,
    allow_addresses: bool = False,
) -> Sequence[ImageSource]:
    """The photos of a file, a folder, an archive, a manifest or a dataset, or at an address.

    Labels are not needed. image, root: as in `labelled_photos`.

    >>> unlabelled_photos("no/such.jpg")
    Traceback (most recent call last):
    layup.errors.InputError: There is no file or folder 'no/such.jpg'.
    """
    if isinstance(source, LabelledPhotos):
        return source.images
    if not isinstance(source, str | os.PathLike):
        return table_images(source, image) if is_table(source) else pair_images(source)
    return [
        photo
        for place in _expanded(source, allow_addresses)
        for photo in (
            _unlabelled_at(place)
            if isinstance(place, FetchedImage)
            else _unlabelled(place, root, allow_addresses)
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


def _parts(
    path: Path, label: str | None, root: str | os.PathLike[str] | None, allow_addresses: bool
) -> Iterable[LabelledPhotos]:
    if found := split_at_archive(path):
        return [_labelled(inside_archive(list_archive(found[0]), found[1]))]
    if path.is_file():
        if is_export(path):
            return [export_photos(path, label, root=root, allow_addresses=allow_addresses)]
        if is_manifest(path):
            return manifest_parts(path, label, allow_addresses=allow_addresses)
        raise InputError(f"{str(path)!r} is a file, but must hold photos and their labels. {TAKEN}")
    folders, files = visible(existing(path))
    lists = [each for each in files if each.name in (*METADATA, *NAMES)]
    # One folder may be where the listed photos are.
    if lists and len(folders) <= 1:
        return _parts(min(lists), label, root, allow_addresses)
    if archives := _archives(folders, files):
        return (part for each in archives for part in _parts(each, label, root, allow_addresses))
    return folder_parts(path)


def _unlabelled(
    path: Path, root: str | os.PathLike[str] | None, allow_addresses: bool
) -> Sequence[ImageSource]:
    if found := split_at_archive(path):
        return _photos(inside_archive(list_archive(found[0]), found[1]))
    if path.is_dir():
        if archives := _archives(*visible(path)):
            return [photo for each in archives for photo in _unlabelled(each, root, allow_addresses)]
        return [each for each in find_images(path) if each.name not in (*METADATA, *NAMES)]
    if not path.exists():
        raise InputError(f"There is no file or folder {str(path)!r}.")
    if is_export(path):
        return export_images(path, root=root, allow_addresses=allow_addresses)
    return manifest_photos(path, allow_addresses=allow_addresses) if is_manifest(path) else [path]


def _archives(folders: list[Path], files: list[Path]) -> list[Path]:
    """The archives of a folder that holds nothing else."""
    return sorted(files) if not folders and all(map(is_archive, files)) else []
