"""Addresses on the network, which are never followed."""

from __future__ import annotations

import re
from pathlib import Path

from layup.errors import InputError

ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.IGNORECASE)


def is_address(text: str) -> bool:
    """Whether a text is an address, not a path; also as a `Path` writes it, with one slash.

    >>> is_address("https://host/1.jpg"), is_address("s3:/bucket/photos"), is_address("C:/1.jpg")
    (True, True, False)
    """
    return ADDRESS.match(text) is not None


def require_local(source: str | Path) -> None:
    """Refuse addresses.

    >>> require_local("hf://datasets/cat")
    Traceback (most recent call last):
    layup.errors.InputError: 'hf://datasets/cat' is an address. Nothing is fetched: download the photos first.
    """
    text = str(source)
    if is_address(text) and not Path(text).exists():
        whole = ADDRESS.sub(r"\1://", text, count=1)
        raise InputError(f"{whole!r} is an address. Nothing is fetched: download the photos first.")
