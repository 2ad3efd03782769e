"""The packages that somebody gets with layup, from the metadata of those that are installed here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NAME = "layup-cl"
FOR_CONTRIBUTORS = frozenset({"dev", "docs", "release"})
"""Extras that nobody needs who only uses layup."""
UNKNOWN = "not stated"
LICENCE = "License :: "


@dataclass(frozen=True)
class Part:
    """A package, why it is there, and what it needs itself.

    extras: of layup, that bring it; empty if it always comes.
    """

    name: str
    version: str
    licence: str
    extras: frozenset[str]
    needs: tuple[str, ...] = field(default=(), compare=False)


def parts(root: str = NAME) -> list[Part]:
    """All packages that a user of layup can get on this machine, by name, with layup itself first."""
    metadata = distribution(root)
    extras = sorted({*(metadata.metadata.get_all("Provides-Extra") or ())} - FOR_CONTRIBUTORS)
    always = _closure(root, "")
    by_extra = {extra: _closure(root, extra) for extra in extras}
    names = always.union(*by_extra.values()) - {canonicalize_name(root)}
    found = [_part(root, frozenset())]
    for name in sorted(names):
        brought = {extra for extra, members in by_extra.items() if name in members}
        found.append(_part(name, frozenset() if name in always else frozenset(brought)))
    return found


def licence_of(metadata: Distribution) -> str:
    """The licence as a package states it: an expression, its classifiers, or the first line of its text.

    >>> licence_of(distribution("numpy")).startswith("BSD")
    True
    """
    known = metadata.metadata
    if expression := "".join(known.get_all("License-Expression") or ()):
        return expression
    words = [each.rpartition(" :: ")[2] for each in known.get_all("Classifier") or () if _states(each)]
    text = "".join(known.get_all("License") or ()).strip().removeprefix("UNKNOWN").splitlines()
    return ", ".join(words) or (text[0][:80] if text else UNKNOWN)


def _states(classifier: str) -> bool:
    return classifier.startswith(LICENCE) and not classifier.endswith("OSI Approved")


def _part(name: str, extras: frozenset[str]) -> Part:
    metadata = distribution(name)
    inside = [canonicalize_name(each) for each in _needed(metadata, _wanted_of(name))]
    present = tuple(sorted({each for each in inside if _installed(each)}))
    return Part(canonicalize_name(name), metadata.version, licence_of(metadata), extras, present)


def _wanted_of(name: str) -> Iterable[str]:
    """Of layup all extras of users; of others what is needed in any case."""
    if canonicalize_name(name) != NAME:
        return ("",)
    known = distribution(name).metadata.get_all("Provides-Extra") or ()
    return ("", *sorted({*known} - FOR_CONTRIBUTORS))


def _closure(root: str, extra: str) -> frozenset[str]:
    """Everything that a package needs with an extra, itself included; what is not installed is left out."""
    waiting, seen = [(root, extra)], set[tuple[str, str]]()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        for line in distribution(name).requires or ():
            need = Requirement(line)
            if need.marker and not need.marker.evaluate({"extra": wanted}):
                continue
            inner = canonicalize_name(need.name)
            if _installed(inner):
                waiting += [(inner, each) for each in ("", *need.extras)]
    return frozenset(canonicalize_name(name) for name, _ in seen)


def _needed(metadata: Distribution, extras: Iterable[str]) -> list[str]:
    needs = [Requirement(line) for line in metadata.requires or ()]
    return [
        need.name
        for need in needs
        if not need.marker or any(need.marker.evaluate({"extra": extra}) for extra in extras)
    ]


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def unpinned(names: Iterable[str], constraints: str) -> list[str]:
    """The packages that no line of the constraints pins.

    >>> unpinned(["numpy", "Py-YAML"], "numpy==2.4.6")
    ['py-yaml']
    """
    pinned = {canonicalize_name(each) for each in re.findall(r"^([\w.-]+)==", constraints, re.MULTILINE)}
    return sorted({canonicalize_name(name) for name in names} - pinned)
