"""What keeps the project in order says what is so: workflows, templates, the citation, the fast tests."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import layup

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def name(path: Path) -> str:
    return path.name


def parsed(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("path", YAML, ids=name)
def test_habits_are_yaml(path: Path) -> None:
    assert parsed(path)


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_a_workflow_may_do_little_and_uses_what_is_pinned(path: Path) -> None:
    text, workflow = path.read_text(), parsed(path)
    assert "secrets" not in text
    assert workflow["permissions"] in ({}, {"contents": "read"})
    for title, job in workflow["jobs"].items():
        allowed = {"id-token": "write"} if title == "publish" else {"contents": "read"}
        assert job.get("permissions", allowed) == allowed
        assert job["timeout-minutes"]
    used = re.findall(r"uses: (.+)$", text, re.MULTILINE)
    assert used
    assert [each for each in used if not PINNED.fullmatch(each)] == []
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_what_a_workflow_runs_is_there(path: Path) -> None:
    text = path.read_text()
    for target in re.findall(r"make ([\w-]+)", text):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), f"{path.name} runs make {target}"
    for file in re.findall(r"\btests/[\w/]+\.py", text):
        assert (ROOT / file).is_file(), f"{path.name} runs {file}"


def test_all_workflows_pin_the_same() -> None:
    pins: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for action, pin in re.findall(r"uses: ([\w./-]+)@(.+)$", path.read_text(), re.MULTILINE):
            pins.setdefault(action, set()).add(pin)
    assert {action for action, found in pins.items() if len(found) > 1} == set()


def test_the_pythons_that_are_tried_are_those_that_are_promised() -> None:
    tried = parsed(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["test"]["strategy"]["matrix"][
        "python"
    ]
    promised = re.findall(r":: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert tried == promised
    assert PROJECT["requires-python"] == f">={tried[0]}"


def test_hooks_run_what_is_installed_for_development() -> None:
    tools = {re.split("[><=]", each)[0] for each in PROJECT["optional-dependencies"]["dev"]}
    (repo,) = parsed(ROOT / ".pre-commit-config.yaml")["repos"]
    programs = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in repo["hooks"]}
    assert programs == {"ruff", "mypy", "lint-imports"}
    assert {"ruff", "mypy", "import-linter"} <= tools


def test_everything_installed_is_pinned_once_and_in_order() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != "#"]
    names = [re.fullmatch(r"([\w.-]+)==[\w.]+", line)[1].lower().replace("_", "-") for line in lines]  # type: ignore[index]
    assert lines == sorted(lines, key=str.lower)
    assert len(names) == len(set(names))
    wanted = [
        *PROJECT["dependencies"],
        *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
    ]
    for each in wanted:
        assert re.split(r"[\[><=]", each)[0].lower().replace("_", "-") in names


def test_the_citation_is_of_this_version_and_of_the_paper() -> None:
    citation = parsed(ROOT / "CITATION.cff")
    assert citation["version"] == layup.__version__
    assert citation["license"] == PROJECT["license"]
    paper = citation["preferred-citation"]
    page = " ".join((ROOT / "docs" / "method.md").read_text().split())
    assert paper["title"] in page
    for author in paper["authors"]:
        assert f"{author['family-names']}, {author['given-names']}" in page
    assert (paper["journal"], paper["year"]) == ("Transactions on Machine Learning Research", 2024)


def test_no_address_is_made_up() -> None:
    assert "urls" not in PROJECT
    for path in (ROOT / "SECURITY.md", ROOT / "CITATION.cff", *(ROOT / ".github").rglob("*.*")):
        if path.is_file():
            assert not re.search(r"https?://|\w@\w+\.\w", path.read_text()), path.name


def test_the_fast_tests_are_there() -> None:
    listed = re.search(r"^FAST := ((?:.*\\\n)*.*)$", MAKEFILE, re.MULTILINE)
    assert listed
    paths = re.findall(r"tests/[\w/.]+", listed[1])
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "target", ["test", "test-fast", "test-all", "coverage", "docs", "torture", "bench", "release"]
)
def test_contributors_are_told_of_every_target(target: str) -> None:
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
    assert f"`make {target}`" in (ROOT / "CONTRIBUTING.md").read_text()
