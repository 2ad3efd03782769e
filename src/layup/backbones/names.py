"""Errors for an unknown name among very many."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from layup.errors import UnknownNameError
from layup.registry import unknown_name

LISTED = 20  # names that fit into a message


def unknown_among_many(kind: str, name: str, known: Iterable[str], where: str) -> UnknownNameError:
    """The error for an unknown name: all known names if they are few, else the nearest, and `where` to look.

    >>> layers = [f"layer{number}" * number for number in range(1, 25)]
    >>> print(unknown_among_many("layer", "leyer1", layers, "see `network.named_modules()`"))
    Unknown layer 'leyer1'. Known are 24: see `network.named_modules()`. Did you mean 'layer1'?
    """
    names = list(known)
    if len(names) <= LISTED:
        return unknown_name(kind, name, names)
    near = [repr(guess) for guess in difflib.get_close_matches(name, names, n=3, cutoff=0.8)]
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return UnknownNameError(f"Unknown {kind} {name!r}. Known are {len(names):,}: {where}.{hint}")
