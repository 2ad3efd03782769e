"""Addresses on the network. They are only followed if the user allows it, and with few protocols."""

from __future__ import annotations

import os
import re
from pathlib import Path

from layup.errors import InputError
from layup.formats import brief
from layup.images.fetched import PROTOCOLS, FetchedImage, require_package

ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.IGNORECASE)


def is_address(text: str) -> bool:
    """Whether a text is an address, not a path; also as a `Path` writes it, with one slash.

    >>> is_address("https://host/1.jpg"), is_address("s3:/bucket/photos"), is_address("C:/1.jpg")
    (True, True, False)
    """
    return ADDRESS.match(text) is not None


def at_address(text: str, allowed: bool) -> str | FetchedImage:
    """What is at an address, if addresses are allowed: something to fetch, or the path of a file.

    >>> at_address("file:///photos/1.jpg", allowed=True)
    '/photos/1.jpg'
    >>> at_address("hf://datasets/cat", allowed=False)
    Traceback (most recent call last):
    layup.errors.InputError: 'hf://datasets/cat' is an address. Nothing is fetched: download the photos first.
    """
    whole = ADDRESS.sub(lambda found: f"{found[1].lower()}://", text, count=1)
    protocol, _, rest = whole.partition("://")
    if not allowed:
        raise InputError(
            f"{brief(whole)!r} is an address. Nothing is fetched: download the photos first.",
            about="allow_addresses",
        )
    if protocol == "file":
        return f"/{rest}"
    if protocol not in PROTOCOLS:
        raise InputError(
            f"{brief(whole)!r} is an address of {protocol!r}, which is not fetched. Use one of "
            f"{', '.join(['file', *PROTOCOLS])}; or download the photos first."
        )
    require_package(protocol)
    return FetchedImage(whole)


def located(source: str | os.PathLike[str], allowed: bool) -> str | FetchedImage:
    """The path that is meant, or what is at the address: of a local file that looks like one, the path."""
    text = os.fspath(source)
    return at_address(text, allowed) if is_address(text) and not _exists(text) else text


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # a name that is too long, say
        return False
