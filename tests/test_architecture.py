"""What need not wait for PyTorch does not; commands are short, and only they know options.

The layers themselves are kept by import-linter.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

import layup
from layup.cli import app
from layup.cli.app import option_of
from photos import write_photos

SOURCE = Path(layup.__file__).parent
LONGEST = 40
"""Lines of a command's body, without its options and its help."""
HEAVY = {"torch", "torchvision", "timm", "sklearn", "scipy", "matplotlib", "transformers", "huggingface_hub"}
"""Packages that take long to import."""


@cache
def loaded_by(*modules: str) -> set[str]:
    """What is loaded, once for all that ask, by a process that imports these modules."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


WITHOUT_NUMPY = ("storage", "images.folders", "model.kind", "cli", "cli.files")
LIGHT = (
    *("images.decode", "images.photos", "errors", "registry", "features.cache", "model.file"),
    *("benchmark.metrics", "cli.console", *WITHOUT_NUMPY),
)
PREDICTING = ("algebra.kinds", "model.image_model", "backbones.loading", "adapters")


def all_of(names: Iterable[str]) -> set[str]:
    """What is loaded by these modules of layup together."""
    return loaded_by(*(f"layup.{name}" for name in names))


# If all of them together do not load something, none of them does.


def test_light_modules_load_no_torch():
    assert all_of(LIGHT) & HEAVY == set()
    assert all_of(["reproduction.analysis"]) & HEAVY == {"scipy"}  # for its statistics


def test_what_checks_paths_loads_no_numpy():
    assert "numpy" not in all_of(WITHOUT_NUMPY)


def test_modules_for_predicting_load_torch_alone():
    assert all_of(PREDICTING) & HEAVY == {"torch"}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A folder with photos/, photo.png, and m.layup, a model of the bundled network."""
    folder = tmp_path_factory.mktemp("shelf")
    write_photos(folder / "photos", {0: 2, 1: 2})
    paths = sorted((folder / "photos").rglob("*.png"))
    shutil.copy(paths[0], folder / "photo.png")
    model = layup.LayUP(lam=1.0, cache=False)
    model.learn(paths, [path.parent.name for path in paths])
    model.save(folder / "m.layup")
    return folder


def run_by(*arguments: str, cwd: Path) -> tuple[int, str, set[str]]:
    """How `python -m layup` ends, what it says, and the modules that it has loaded by then."""
    code = (
        "import atexit, runpy, sys\n"
        "atexit.register(lambda: open('modules', 'w').write(' '.join(sys.modules)))\n"
        "sys.argv[0] = 'layup'; runpy.run_module('layup', run_name='__main__')"
    )
    env = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, env=env, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr, set((cwd / "modules").read_text().split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--help", "Teach a pre-trained image network"),
        ("learn nowhere --to new.layup", "There is no folder 'nowhere'"),
        ("learn photos --to nowhere/new.layup", "Cannot write 'nowhere/new.layup'"),
        ("learn photos --to photo.png", "'photo.png' is damaged, or not a layup file"),
        ("learn photos --to new.layup --epochs 3", "give --adapt as well"),
        ("predict nothing.layup photo.png", "Cannot read 'nothing.layup'"),
        ("predict m.layup photo.png --nothing", "No such option"),
        ("forget m.layup nowhere", "There is no file or folder 'nowhere'"),
        ("forget nothing.layup photos", "Cannot read 'nothing.layup'"),
        ("merge m.layup nothing.layup --to new.layup", "Cannot read 'nothing.layup'"),
        ("info nothing.layup", "Cannot read 'nothing.layup'"),
        # These look into a model file, or at numbers, with NumPy.
        ("learn photos --to new.layup --lam much", "Unknown rule for λ 'much'"),
        ("predict m.layup nothing.png", "There is no file or folder 'nothing.png'"),
        ("explain m.layup nothing.png", "There is no file or folder 'nothing.png'"),
        ("evaluate m.layup nowhere", "There is no folder 'nowhere'"),
        ("evaluate nothing.layup photos", "Cannot read 'nothing.layup'"),
        ("info m.layup --json", '"fingerprint"'),
        ("serve m.layup --host 0.0.0.0", "needs a token"),
        ("serve m.layup --demo", "is a model already"),
        ("serve m.layup --k 3", "is a model already"),
    ],
)
def test_what_is_wrong_is_said_before_anything_slow_is_loaded(shelf, arguments, said):
    _, output, modules = run_by(*arguments.split(), cwd=shelf)
    assert said in output
    assert modules & HEAVY == set()


def test_photos_are_learned_with_nothing_but_torch(shelf):
    """Not even scikit-learn."""
    arguments = ("learn", "photos", "--to", "learned.layup", "--k", "1", "--no-cache")
    code, output, modules = run_by(*arguments, cwd=shelf)
    assert (code, "2 classes from 4 photos" in output) == (0, True)
    assert modules & HEAVY == {"torch"}


def test_one_photo_is_predicted_with_nothing_but_torch(shelf):
    code, output, modules = run_by("predict", "m.layup", "photo.png", "--no-cache", cwd=shelf)
    assert (code, "digit 0" in output) == (0, True)
    assert modules & HEAVY == {"torch"}
    # What takes PyTorch itself longest to load, and the parts of layup that tune networks.
    assert modules & {"torch._dynamo", "sympy", "layup.tuning.adaptation", "layup.tuning.trainer"} == set()


def test_layup_itself_loads_nothing():
    own = {name for name in loaded_by("layup") if name.startswith("layup.")}
    assert own == set()


def test_packages_load_nothing_before_it_is_used():
    names = ("tables", "algebra", "images", "backbones", "features", "tuning", "model")
    names += ("benchmark", "performance", "reproduction", "serving")
    packages = {f"layup.{name}" for name in names}
    assert {name for name in loaded_by(*sorted(packages)) if name.startswith("layup.")} == packages


def test_arithmetic_loads_no_images_or_features():
    """Not rich, which comes with scikit-learn."""
    strangers = {
        "layup.images.decode",
        "layup.features.extract",
        "layup.backbones",
        "matplotlib",
        "timm",
        "typer",
    }
    assert all_of(["benchmark.metrics", "algebra.classifier"]) & strangers == set()


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
