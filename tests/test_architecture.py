"""What need not wait for PyTorch does not; commands are short, and only they know options.

The layers themselves are kept by import-linter.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import layup
from layup.cli import app
from layup.cli.app import option_of

SOURCE = Path(layup.__file__).parent
LONGEST = 40
"""Lines of a command's body, without its options and its help."""


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "storage",
        "images.decode",
        "images.folders",
        "errors",
        "registry",
        "features.cache",
        "model.file",
        "benchmark.metrics",
        "reproduction.analysis",
        "cli",
        "cli.console",
    ],
)
def test_light_modules_load_no_torch(module):
    heavy = {"torch", "timm", "torchvision", "sklearn", "matplotlib", "transformers"}
    assert loaded_by(f"layup.{module}") & heavy == set()


def test_layup_itself_loads_nothing():
    own = {name for name in loaded_by("layup") if name.startswith("layup.")}
    assert own == set()


def test_packages_load_nothing_before_it_is_used():
    names = ("tables", "algebra", "features", "tuning", "model", "benchmark", "reproduction")
    packages = {f"layup.{name}" for name in names}
    assert {name for name in loaded_by(", ".join(packages)) if name.startswith("layup.")} == packages


@pytest.mark.parametrize("module", ["benchmark.metrics", "algebra.classifier"])
def test_arithmetic_loads_no_images_or_features(module):
    """Not rich, which comes with scikit-learn."""
    strangers = {
        "layup.images.decode",
        "layup.features.extract",
        "layup.backbones",
        "matplotlib",
        "timm",
        "typer",
    }
    assert loaded_by(f"layup.{module}") & strangers == set()


def commands(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions that are entered as commands: decorated with `x.command(…)` or `x.callback(…)`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            calls = [each.func for each in node.decorator_list if isinstance(each, ast.Call)]
            if any(
                isinstance(call, ast.Attribute) and call.attr in ("command", "callback") for call in calls
            ):
                yield node


def test_commands_are_short():
    """What they do is for programs as well, so that it belongs into the library."""
    seen, long = 0, []
    for path in sorted((SOURCE / "cli").glob("*.py")):
        for command in commands(ast.parse(path.read_text("utf-8"))):
            first = command.body[min(len(command.body) - 1, ast.get_docstring(command) is not None)]
            lines = (command.end_lineno or 0) - first.lineno + 1
            seen += 1
            if lines >= LONGEST:
                long.append(f"{path.name}: {command.name} has {lines} lines")
    assert seen >= 15
    assert long == []


def texts(path: Path) -> Iterator[str]:
    """All strings of a module that are not docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def test_messages_of_the_library_name_no_options_of_commands():
    """Programs have none. An error says what it is `about`, and the command adds the option."""
    naming = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith("cli/"):
            for text in texts(path):
                others = re.sub(r"pip install [^\n]*", "", text)
                naming += [f"{name}: {text}"] if re.search(r"(?<![\w-])--[a-z]", others) else []
    assert naming == []


def test_what_errors_are_about_is_an_option_of_some_command():
    about = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "about" and isinstance(node.value, ast.Constant):
                about.add(node.value.value)
    known = {
        option
        for command in typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
        for parameter in command.params
        for option in parameter.opts
    }
    assert {"adapter", "again", "learning_rate"} <= about
    assert {option_of(argument) for argument in about} <= known
