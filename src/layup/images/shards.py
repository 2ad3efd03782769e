"""WebDataset shards: tar archives that hold 0001.jpg and its label in 0001.cls, 0001.txt or 0001.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice

from layup.errors import BadImageError, InputError
from layup.formats import has_controls
from layup.images.archives import ArchiveMember, Listing, Unusable
from layup.images.folders import PHOTO_ENDINGS
from layup.images.labelled import LabelledPhotos, counted, label_from, some

LABEL_ENDINGS = ("cls", "txt", "json")
"""The files that hold a label, the surest first."""

LABEL_KEYS = ("label", "class", "class_name", "category")
"""Where a label is in JSON."""

LONGEST_LABEL_FILE = 1 << 20

MOST_NAMES = 100_000
"""How many names a pattern may stand for."""

BRACES = re.compile(r"\{(\d+\.\.\d+|[^{}]*,[^{}]*)\}")


def is_shard(listing: Listing) -> bool:
    """Whether the labels of an archive's photos are in files of their own."""
    ends = {_split(each.name)[1] for each in listing.members}
    if "cls" in ends:
        return True
    flat = all("/" not in listing.relative(each.name) for each in listing.members)
    return flat and not ends.isdisjoint(LABEL_ENDINGS)


def shard_photos(listing: Listing) -> LabelledPhotos:
    """The photos of a shard in its order, which is the fastest to read, with their labels.

    Costs one read of every label.
    """
    beside = {each.name: each for each in listing.members if _split(each.name)[1] in LABEL_ENDINGS}
    images: list[ArchiveMember] = []
    labels: list[str] = []
    without = []
    for each in photos_of_shard(listing):
        key = _split(each.name)[0]
        label = None
        for file in filter(None, (beside.get(f"{key}.{ending}") for ending in LABEL_ENDINGS)):
            try:
                label = label or _label(file)
            except BadImageError:
                # It is not a photo without a label: a model that knows it must not take it for gone. A list
                # has this file in its place, which nobody can learn with this label.
                reason = f"it should have the label of {each.name!r}, and cannot be read"
                each, label = Unusable(each.archive, file.name, reason), "unknown"
        if label is None:
            without.append(each.name)
        else:
            images.append(each)
            labels.append(label)
    if not images:
        raise InputError(
            f"No photo in {str(listing)!r} has a label. Beside 1.jpg, put the label into 1.cls, 1.txt, or "
            "the key 'label' of 1.json."
        )
    remarks = [f"Left out: {counted(without, 'photo')} without a label in {str(listing)!r}: {some(without)}"]
    return LabelledPhotos(images, labels, remarks if without else [])


def photos_of_shard(listing: Listing) -> list[ArchiveMember]:
    """The photos, without what belongs to them: 1.jpg, but neither 1.seg.png nor 1.json."""
    return [each for each in listing.members if f".{_split(each.name)[1]}" in PHOTO_ENDINGS]


def _split(name: str) -> tuple[str, str]:
    """What the files of a photo have in common, and the ending: all from the first dot on.

    >>> _split("a.b/1.seg.PNG")
    ('a.b/1', 'seg.png')
    """
    folder, slash, file = name.rpartition("/")
    stem, _, ending = file.partition(".")
    return f"{folder}{slash}{stem}", ending.lower()


def _label(file: ArchiveMember) -> str | None:
    """The label in a file, if there is one; a `BadImageError` if the file cannot be read."""
    content = file.contents()[:LONGEST_LABEL_FILE]
    try:
        text = content.decode("utf-8-sig").strip()
        if file.name.lower().endswith(".json"):
            text = _text_in(json.loads(text))
    except (ValueError, RecursionError):
        return None
    return label_from(text) if text and not has_controls(text) else None


def _text_in(value: object) -> str:
    found = next((value[key] for key in LABEL_KEYS if key in value), "") if isinstance(value, dict) else value
    return str(found).strip() if isinstance(found, str | int) and not isinstance(found, bool) else ""


def expanded(pattern: str) -> list[str]:
    """The names that a pattern in braces stands for.

    >>> expanded("train-{008..010}.tar")
    ['train-008.tar', 'train-009.tar', 'train-010.tar']
    >>> expanded("{a,b}{1}.tar")
    ['a{1}.tar', 'b{1}.tar']
    """
    names = list(islice(_expanded(pattern), MOST_NAMES + 1))
    if not names:
        raise InputError(f"{pattern!r} stands for no names: write the smaller number first.")
    if len(names) > MOST_NAMES:
        raise InputError(f"{pattern!r} stands for more than {MOST_NAMES:,} names.")
    return names


def _expanded(pattern: str) -> Iterator[str]:
    found = BRACES.search(pattern)
    if found is None:
        yield pattern
        return
    before, after = pattern[: found.start()], pattern[found.end() :]
    for choice in _choices(found[1]):
        yield from (f"{before}{choice}{rest}" for rest in _expanded(after))


def _choices(text: str) -> Iterator[str]:
    span = re.fullmatch(r"(\d{1,9})\.\.(\d{1,9})", text)
    if span is None:
        yield from text.split(",")
        return
    for number in range(int(span[1]), int(span[2]) + 1):
        yield f"{number:0{len(span[1])}}"
