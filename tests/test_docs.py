"""The docs do what they say: Python blocks and examples run, and shown commands exist."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from layup.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted({*(ROOT / "examples").glob("*.py")} - {ROOT / "examples" / "predict_onnx.py"})
"""The other one takes a model: tests/export/test_graph.py runs it."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page as (language, text)."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def shown_commands(text: str) -> list[list[str]]:
    """The layup commands of a console block, as arguments; comments are cut off."""
    return [
        shlex.split(line[2:], comments=True)[1:] for line in text.splitlines() if line.startswith("$ layup")
    ]


def name(path: Path) -> str:
    return path.name


EXPERIMENTS = ("benchmark.md", "reproduction.md")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.slow if page.name in EXPERIMENTS else ())
        for page in PAGES
        if page.name != "tutorial.md"
    ],
)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, str(page), "exec"), scope)


@pytest.mark.slow
def test_the_tutorial_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    ran = 0
    for language, text in blocks(ROOT / "docs" / "tutorial.md"):
        if language == "python":
            exec(compile(text, "tutorial.md", "exec"), scope)
        for command in shown_commands(text) if language == "console" else []:
            result = CliRunner().invoke(app, command)
            assert result.exit_code == 0, f"{command}: {result.output} {result.exception}"
            ran += 1
    assert ran >= 8
    assert Path("both.layup").exists()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_in_the_text_exist(page: Path) -> None:
    known = typer.main.get_command(app)
    for command in re.findall(r"`layup ([^`]+)`", page.read_text()):
        first, *rest = command.split()
        if first in ("COMMAND", "--help"):
            continue
        assert first in known.commands, f"{page.name} shows `layup {command}`"  # type: ignore[attr-defined]
        options = {option for parameter in known.commands[first].params for option in parameter.opts}  # type: ignore[attr-defined]
        for word in rest:
            assert not word.startswith("--") or word in options, f"{page.name} shows `layup {command}`"


def headings(page: Path) -> list[str]:
    """The names by which a page's headings can be linked to."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            file, _, heading = target.partition("#")
            assert (page.parent / file).exists(), f"{page.name} links to {target}"
            assert not heading or heading in headings(page.parent / file), f"{page.name} links to {target}"


def run_example(example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed
    assert "False" not in printed


@pytest.mark.usefixtures("few_digits")
@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_examples_run_with_few_images(
    example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_example(example, capsys, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_examples_run(
    example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_example(example, capsys, monkeypatch)
