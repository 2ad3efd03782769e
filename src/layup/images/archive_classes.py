"""The class folders of an archive: what `class_folders` is for a folder."""

from __future__ import annotations

from layup.errors import InputError
from layup.formats import has_controls
from layup.images.archives import ArchiveMember, Listing, Unusable
from layup.images.folders import has_photo_name
from layup.images.labelled import (
    PARTS,
    LabelledPhotos,
    all_empty,
    label_from,
    left_out,
    no_classes,
    parts_of_dataset,
)


def archive_classes(listing: Listing) -> LabelledPhotos:
    """The members of class folders in the order of `class_folders`, and the label of each.

    One folder around all class folders is stepped into: photos.zip/photos/tabby/1.jpg is a tabby.
    """
    here = _stepped_into(listing)
    found: dict[str, list[ArchiveMember]] = {}
    loose = []
    for folder in here.folders:
        found.setdefault(here.relative(folder).partition("/")[0], [])
    for each in here.members:
        first, inside, _ = here.relative(each.name).partition("/")
        if inside:
            found.setdefault(first, []).append(each)
        else:
            loose.append(first)
    if not found:
        raise no_classes(str(here), len(loose))
    if {name.lower() for name in found} <= PARTS and _all_have_folders(here):
        raise parts_of_dataset(str(here), sorted(found))
    if not any(found.values()):
        raise all_empty(str(here), sorted(found))
    labelled = [
        (_of_class(each, name), label_from(name))
        for name in sorted(found)
        for each in sorted(found[name], key=lambda member: member.name.split("/"))
    ]
    remarks = left_out(
        str(here),
        [name for name in loose if has_photo_name(name)],
        [name for name, members in found.items() if not members],
    )
    return LabelledPhotos([each for each, _ in labelled], [label for _, label in labelled], remarks)


def _stepped_into(listing: Listing) -> Listing:
    """The only folder, if it has folders itself."""
    tops = {listing.relative(each.name).split("/")[0] for each in listing.members}
    deep = any(listing.relative(each.name).count("/") > 1 for each in listing.members)
    return listing.within(tops.pop()) if len(tops) == 1 and deep else listing


def _all_have_folders(listing: Listing) -> bool:
    """Whether every folder here contains folders with photos."""
    names = [listing.relative(each.name).split("/") for each in listing.members]
    return {parts[0] for parts in names if len(parts) > 1} == {parts[0] for parts in names if len(parts) > 2}


def _of_class(member: ArchiveMember, folder: str) -> ArchiveMember:
    """The member, unless the name of its class folder cannot be a label."""
    if not has_controls(folder):
        return member
    problem = "its folder's name has control characters, or bytes that are not UTF-8, and cannot be a label"
    return Unusable(member.archive, member.name, problem)


def inside_archive(listing: Listing, path: str) -> Listing:
    """Only one folder of an archive, or one file; all of it if there is no path."""
    if not path:
        return listing
    for each in listing.members:
        if each.name == path:
            return Listing(listing.path, path, [each], [])
    found = listing.within(path)
    if not found.members:
        raise InputError(
            f"{listing.path!r} has no photos in {path!r}. Names in it begin: {_beginning(listing)}."
        )
    return found


def _beginning(listing: Listing) -> str:
    """The first folders and files of an archive."""
    names = sorted({each.name.split("/")[0] for each in listing.members})
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
