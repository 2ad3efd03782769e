"""The reference of the Python packages: every public name of each, from its own list of names."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import layup
from layup import errors

PLACE = "<!-- packages -->"
"""What the list of packages takes the place of in `docs/python.md`."""
FOLDER = "python/"


@dataclass(frozen=True)
class Room:
    """A package and the names that it lists; or a public module, all of whose names are public."""

    module: ModuleType

    @property
    def name(self) -> str:
        """Where it is imported from."""
        return self.module.__name__

    @property
    def about(self) -> str:
        """What it is, in a sentence or two."""
        return " ".join((self.module.__doc__ or "").split("\n\n")[0].split())

    @property
    def place(self) -> str:
        """Where its page is on the site."""
        return f"{FOLDER}{self.name}.md"

    @property
    def listed(self) -> dict[str, Any]:
        """What it lists, by name; empty for a module without a list."""
        names = sorted(getattr(self.module, "__all__", ()), key=str.lower)
        return {name: getattr(self.module, name) for name in names}

    def path_of(self, name: str) -> str:
        """The path by which a name can be imported from here."""
        return f"{self.name}.{name}"


@cache
def rooms() -> tuple[Room, ...]:
    """`layup` itself, its errors, every package in it that lists names, and the modules among those names."""
    found = [layup, errors]
    for each in pkgutil.walk_packages(layup.__path__, "layup."):
        module = importlib.import_module(each.name) if each.ispkg else None
        if module and hasattr(module, "__all__"):
            found.append(module)
    inside = [thing for module in found for thing in Room(module).listed.values() if inspect.ismodule(thing)]
    first, *rest = {module.__name__: Room(module) for module in [*found, *inside]}.values()
    return (first, *sorted(rest, key=lambda room: room.name))


@cache
def entries() -> dict[str, str]:
    """For each public path, the path of its entry: what several packages list is described once.

    Modules have pages instead.
    """
    paths: dict[str, str] = {}
    described: dict[str, str] = {}
    for room in rooms():
        for name, thing in room.listed.items():
            path = room.path_of(name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                paths[path] = described.setdefault(f"{thing.__module__}.{thing.__qualname__}", path)
            elif not inspect.ismodule(thing):
                paths[path] = path
    return paths


def page(room: Room) -> str:
    """The page of a package: what it is, its names, and an entry for each that has none on another page."""
    return "\n".join([f"# {room.name}\n", *_parts(room)])


def _parts(room: Room) -> Iterator[str]:
    if not room.listed:
        yield f"::: {room.name}\n    options: {{show_root_heading: false, show_root_toc_entry: false}}\n"
        return
    yield f"{room.about}\n"
    modules = [name for name, thing in room.listed.items() if inspect.ismodule(thing)]
    if modules:
        yield "Modules: " + ", ".join(f"[`{name}`]({room.path_of(name)}.md)" for name in modules) + ".\n"
    own = {room.path_of(name): entries()[room.path_of(name)] for name in room.listed if name not in modules}
    elsewhere = [f"[`{entry}`][{entry}]" for path, entry in own.items() if path != entry]
    if elsewhere:
        yield f"Also here, and described elsewhere: {', '.join(elsewhere)}.\n"
    for path, entry in own.items():
        if path == entry:
            yield f"::: {entry}\n"


def packages() -> str:
    """A table of all packages, for the page that leads to them."""
    rows = [f"| [`{room.name}`]({room.place}) | {room.about} |" for room in rooms()]
    return "\n".join(["| package | what it is |", "|---|---|", *rows, ""])
