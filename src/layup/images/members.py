"""Paths that lead into archives, as lists have them: shards/000.tar/0001.jpg."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from layup.images.archives import (
    ENDINGS,
    Archive,
    ArchiveMember,
    Unusable,
    list_archive,
    list_fetched,
    split_address,
    split_at_archive,
)
from layup.images.fetched import FetchedImage

INTO_ARCHIVE = re.compile(rf"(?:{'|'.join(map(re.escape, ENDINGS))})/", re.IGNORECASE)

Place: TypeAlias = str | FetchedImage | ArchiveMember
"""Where a list says that a photo is: in a file, at an address, or in an archive."""


def with_members(places: Sequence[str | FetchedImage]) -> list[Place]:
    """The same, but for paths that lead into an archive, its members.

    Costs one pass over the headers of each of these archives. A member that is not there cannot be used.

    >>> with_members(["photos/1.jpg", "no.tar/1.jpg"])
    ['photos/1.jpg', 'no.tar/1.jpg']
    """
    found: list[Place] = [*places]
    wanted: dict[str, dict[int, str]] = {}
    fetched = set()
    for index, place in enumerate(places):
        if INTO_ARCHIVE.search(str(place)) and (split := _split(place)):
            wanted.setdefault(split[0], {})[index] = split[1]
            fetched.update([split[0]] if isinstance(place, FetchedImage) else [])
    for archive, names in wanted.items():
        listing = list_fetched(archive) if archive in fetched else list_archive(Path(archive))
        members = {each.name: each for each in listing.members}
        for index, name in names.items():
            found[index] = members.get(name) or _absent(archive, name)
    return found


def _split(place: str | FetchedImage) -> tuple[str, str] | None:
    """The archive, and the name in it."""
    if isinstance(place, FetchedImage):
        return split_address(place.address)
    found = split_at_archive(Path(place))
    return found and (str(found[0]), found[1])


def _absent(archive: str, name: str) -> Unusable:
    return Unusable(Archive(archive, 0, 0), name, "the archive has no such file")
