"""Which files of photos this machine sees, so that nothing is taken for missing that is only elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterable

from layup.errors import InputError
from layup.images.decode import ImageSource, StoredImage


def missing_files(images: Iterable[ImageSource]) -> frozenset[str]:
    """The files of images, and the archives that images are in, that are not there.

    >>> missing_files(["no/such.jpg", b"contents"])
    frozenset({'no/such.jpg'})
    """
    files = {
        os.fsdecode(each.location()[0] if isinstance(each, StoredImage) else each)
        for each in images
        if isinstance(each, str | os.PathLike | StoredImage)
    }
    return frozenset(file for file in files if not os.path.exists(file))  # noqa: PTH110 (a name may be too long)


def require_gone(files: frozenset[str], machine: str) -> None:
    """Refuse files that another machine does not see, but this one does."""
    if here := files - missing_files(files):
        raise InputError(
            f"'{machine}' does not see {len(here):,} of the photos' files, such as '{min(here)}'. All "
            "machines must see them under the same paths: put them on shared storage, or copy them to each."
        )
