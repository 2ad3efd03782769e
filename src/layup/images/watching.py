"""Folders that are watched for changes, by looking at them: this works on every file system."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from layup.errors import InputError
from layup.images.folders import find_images

Listing = dict[str, tuple[int, int]]


def listing(photos: str | os.PathLike[str]) -> Listing:
    """The size and the time of change of every file below a folder, or of one file; what is gone has none.

    >>> listing("no/such/folder")
    {}
    """
    try:
        files = find_images(photos) if Path(photos).is_dir() else [Path(photos)]
    except InputError:
        return {}
    found: Listing = {}
    for file in files:
        try:
            state = file.stat()
        except OSError:
            continue
        found[str(file)] = (state.st_size, state.st_mtime_ns)
    return found


def changes(
    photos: str | os.PathLike[str], every: float, sleep: Callable[[float], object] = time.sleep
) -> Iterator[None]:
    """Yields at once, and then whenever files have changed, and stayed the same from one look to the next.

    A photo that is still being copied is waited for. What changes while a change is handled is another one.
    Looks every `every` seconds, without end.
    """
    handled = before = listing(photos)
    yield
    while True:
        sleep(every)
        now = listing(photos)
        if now == before != handled:
            handled = now
            yield
        before = now
