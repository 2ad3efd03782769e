"""Whether there is anything to do, told without a network: PyTorch is not imported, which takes seconds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from layup.features import Reading, digests_of
from layup.images import ImageSource
from layup.model.file import ModelFile, read_model
from layup.model.plan import plan


def all_known(
    path: str | os.PathLike[str], images: Sequence[ImageSource], labels: Sequence[str], reading: Reading
) -> ModelFile | None:
    """The model in a file, if it knows exactly these images, each under its label and once; else None."""
    found = read_model(path)
    photos = found.photos
    if (
        photos is None
        or photos.unreadable
        or "leftover" in found.header
        or photos.counts != dict(Counter(labels))
    ):
        return None
    if photos.counts != dict(zip(found.header["labels"], found.header["counts"], strict=True)):
        return None
    work = plan(photos, digests_of(images, reading), labels, exact=True)
    return found if work.known == len(images) == len(photos) else None
