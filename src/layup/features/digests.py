"""The digests of many images, without decoding them: of files that have not changed, without reading them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from layup.features.cache import FeatureCache, FileState, NoCache
from layup.features.reader import in_batches, read_ahead, usable
from layup.features.reading import Reading, cache_of
from layup.images import ImageSource, StoredImage, image_digest
from layup.progress import progress_bar

TOGETHER = 256
"""Images per step: each asks the cache once."""

Stored: TypeAlias = str | os.PathLike[str] | StoredImage
"""An image in a file, or in an archive."""


def digests_of(images: Sequence[ImageSource], reading: Reading) -> list[bytes | None]:
    """The digest of every image, and None for what cannot be read.

    >>> import numpy as np
    >>> one, none = digests_of([np.zeros((8, 8), np.uint8), "no-such-file.jpg"], {"cache": False})
    >>> len(one), none
    (32, None)
    """
    found: list[bytes | None] = []
    batches = in_batches(range(len(images)), TOGETHER)
    digester = _Digester(images, cache_of(reading))
    with progress_bar(reading.get("progress")) as bar:
        task = bar.add_task("Looking for new photos", total=len(images), note="")
        for part in read_ahead(images, digester, batches, reading.get("workers")):
            found += part
            bar.advance(task, len(part))
    return found


@dataclass(frozen=True)
class _Digester:
    """Runs in the reading processes."""

    images: Sequence[ImageSource]
    cache: FeatureCache | NoCache

    def __call__(self, indices: list[int]) -> list[bytes | None]:
        stored: dict[int, Stored] = {}

        def digest_unless_stored(index: int) -> bytes | None:
            # Each image is asked for once, and only what is stored in files is held: others may be large.
            image = self.images[index]
            if isinstance(image, str | os.PathLike | StoredImage):
                stored[index] = image
                return None
            return image_digest(image)

        found: dict[int, bytes | None]
        found, _ = usable(indices, digest_unless_stored)
        folders: dict[str, str] = {}
        states = {index: _state(image, folders) for index, image in stored.items()}
        kept = self.cache.file_digests([state for state in states.values() if state is not None])
        found |= {index: kept.get(state.path) for index, state in states.items() if state is not None}
        read, _ = usable([i for i in stored if found[i] is None], lambda i: image_digest(stored[i]))
        self.cache.keep_file_digests(
            {state: digest for i, digest in read.items() if (state := states[i]) is not None}
        )
        return [read.get(index, found.get(index)) for index in indices]


def _state(image: Stored, folders: dict[str, str]) -> FileState | None:
    """What tells whether a file has changed, or the archive that an image is in."""
    if not isinstance(image, StoredImage):
        return FileState.of(image, folders)
    file, name = image.location()
    state = FileState.of(file, folders)
    # No other file can have this path.
    return None if state is None else replace(state, path=state.path + b"/" + os.fsencode(name))
