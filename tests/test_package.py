"""What people get: the sdist and the wheel, built and tried in an environment without this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from sysconfig import get_path

import pytest

ROOT = Path(__file__).parent.parent
NAME = "layup_cl"

pytestmark = pytest.mark.slow


def files_below(folder: Path) -> set[str]:
    """All files of a folder, or the file itself, by their path in the project; without what Python leaves."""
    found = folder.rglob("*") if folder.is_dir() else [folder]
    return {
        str(each.relative_to(ROOT)) for each in found if each.is_file() and "__pycache__" not in each.parts
    }


def run(*command: object, cwd: Path, **variables: str) -> str:
    """Run a command that knows nothing of this checkout, and must succeed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**env, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was made of it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def environment(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel in it, which sees the dependencies of this one."""
    place = tmp_path_factory.mktemp("empty") / "env"
    venv.create(place, symlinks=True)
    wheel = next(built.glob("*.whl"))
    pip = (sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "--quiet")
    run(*pip, "--no-deps", "--no-index", wheel, cwd=built)
    # As a plain folder: its own .pth files, such as that of an editable layup, are not followed.
    packages = next(place.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text("\n".join({get_path("purelib"), get_path("platlib")}))
    return place


def test_the_sdist_holds_all_that_its_tests_read(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames()}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    wanted = {"README.md", "LICENSE", "pyproject.toml"}
    for part in settings["sdist"]["include"]:
        below = files_below(ROOT / part.removeprefix("/"))
        assert below, f"there is no {part}"
        wanted |= below
    assert wanted - held == set()


def test_tests_that_read_files_pass_in_the_unpacked_sdist(built: Path, tmp_path: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    reading = [
        "tests/test_docs.py",
        "tests/test_plugins.py",
        "tests/benchmark/test_laws.py",
        "tests/test_habits.py",
    ]
    chosen = "links or commands_in or the_page or own_group or habits"
    tests = (sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *reading)
    said = run(*tests, "-k", chosen, cwd=folder, PYTHONPATH=str(folder / "src"))
    assert " passed" in said


def test_the_wheel_has_all_files_of_the_package(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        held = set(wheel.namelist())
    wanted = {name.removeprefix("src/") for name in files_below(ROOT / "src" / "layup")}
    assert wanted - held == set()
    assert {name for name in held - wanted if not name.startswith(f"{NAME}-")} == set()
    assert {"layup/py.typed", "layup/__init__.pyi", "layup/backbones/vit-nano.safetensors"} <= held


def test_the_wheel_runs_where_this_checkout_is_unknown(environment: Path, tmp_path: Path) -> None:
    code = "import layup; print(layup.__file__)"
    assert run(environment / "bin" / "python", "-c", code, cwd=tmp_path).startswith(str(environment))
    said = run(environment / "bin" / "layup", "demo", cwd=tmp_path, LAYUP_CACHE=str(tmp_path / "cache"))
    assert "LayUP, k = 6: 1.000" in said
    assert {"curves.png", "digits.layup", "images"} <= {each.name for each in (tmp_path / "demo").iterdir()}


def test_the_plug_in_of_the_examples_is_installed_as_people_do(
    environment: Path, built: Path, tmp_path: Path
) -> None:
    pip = (sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", "--quiet")
    example = ROOT / "examples" / "plugin"
    run(*pip, "--no-deps", "--no-index", "--no-build-isolation", example, cwd=tmp_path)
    assert "The nearest thumbnail" in run(environment / "bin" / "layup", "methods", cwd=tmp_path)
    added = ("--dataset", "stripes", "--method", "thumbnails", "--backbone", "small-conv", "--no-cache")
    assert "1.000" in run(environment / "bin" / "layup", "run", *added, cwd=tmp_path)
