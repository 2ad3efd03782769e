"""The reference of Python names every public name: of `layup`, and of each public package."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import layup
from website import names
from website.repository import ROOT

SOURCE = Path(layup.__file__).parent
PAGES = {room.name: names.page(room) for room in names.rooms()}
DESCRIBED = [entry for page in PAGES.values() for entry in re.findall(r"^::: (\S+)$", page, re.MULTILINE)]
ENTRIES = [entry for entry in DESCRIBED if entry not in PAGES]


def listed_by(package: Path) -> list[str]:
    """The public names of a package, read from its text alone."""
    stub = package / "__init__.pyi"
    if stub.is_file():
        imports = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
        return [alias.asname or alias.name for node in imports for alias in node.names]
    tree = ast.parse((package / "__init__.py").read_text())
    (names,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return list(ast.literal_eval(names))


PACKAGES = [
    path.parent
    for path in SOURCE.rglob("__init__.py")
    if path.with_suffix(".pyi").is_file() or "__all__ =" in path.read_text()
]


def dotted(package: Path) -> str:
    return ".".join(["layup", *package.relative_to(SOURCE).parts])


@pytest.mark.parametrize("package", PACKAGES, ids=dotted)
def test_every_public_name_has_an_entry(package):
    module = importlib.import_module(dotted(package))
    listed = listed_by(package)
    assert listed
    for name in listed:
        path, thing = f"{dotted(package)}.{name}", getattr(module, name)
        if inspect.ismodule(thing):
            assert thing.__name__ in PAGES
        else:
            entry = names.entries()[path]
            assert entry in ENTRIES
            assert getattr(importlib.import_module(entry.rpartition(".")[0]), name) is thing


def test_nothing_is_described_twice():
    assert len(ENTRIES) > 350
    assert len(set(DESCRIBED)) == len(DESCRIBED)


def test_what_people_need_first_is_described_first():
    assert [entry for entry in ENTRIES if entry.count(".") == 1] == [
        f"layup.{name}" for name in sorted(layup.__all__, key=str.lower)
    ]
    assert "[`layup.LayUP`][layup.LayUP]" in PAGES["layup.model"]


def test_errors_are_described():
    assert "::: layup.errors\n" in PAGES["layup.errors"]


def test_every_package_says_what_it_is():
    table = names.packages()
    for room in names.rooms():
        assert room.about, room.name
        assert f"| [`{room.name}`](python/{room.name}.md) | {room.about} |" in table
    assert (ROOT / "docs" / "python.md").read_text().count(names.PLACE) == 1
