"""Imports only go one way, and what need not wait for PyTorch does not."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import layup

SOURCE = Path(layup.__file__).parent

# Which modules of layup each one may import. Each line may only name lines above it.
MAY_IMPORT = {
    "errors": set(),
    "texts": set(),
    "registry": {"errors", "texts"},
    "schema": {"texts"},
    "memory": {"errors"},
    "locks": {"texts"},
    "storage": {"errors", "texts", "locks", "memory"},
    "images": {"errors", "texts"},
    "cache": {"errors", "locks"},
    "compat": set(),
    "backbones": {"errors", "registry", "compat", "memory", "texts"},
    "triangle": {"errors"},
    "statistics": {"errors", "registry", "schema", "storage", "triangle"},
    "ridge": {"statistics"},
    "resolvent": {"errors", "statistics"},
    "lambda_search": {"statistics", "ridge", "resolvent"},
    "error_search": {"resolvent"},
    "stream": {"statistics", "ridge"},
    "classifier": {
        "errors",
        "registry",
        "ridge",
        "lambda_search",
        "error_search",
        "stream",
        "statistics",
    },
    "forecasts": {"memory", "statistics", "lambda_search", "triangle"},
    "spool": {"errors", "memory"},
    "progress": {"texts"},
    "features": {"errors", "memory", "images", "cache", "backbones", "progress"},
    "adapters": {"errors", "registry", "compat", "texts", "backbones"},
    "seeds": set(),
    "first_session": {"errors", "registry", "backbones", "adapters", "seeds"},
    "training": {"errors", "images", "features", "seeds"},
    "adaptation": {
        "errors",
        "schema",
        "storage",
        "images",
        "backbones",
        "progress",
        "features",
        "adapters",
        "first_session",
        "seeds",
        "training",
    },
    "feature_maps": {"errors", "images", "statistics", "features", "seeds"},
    "model_file": {"memory", "schema", "storage", "statistics", "adapters"},
    "turns": set(),
    "image_model": {
        "errors",
        "texts",
        "storage",
        "images",
        "cache",
        "backbones",
        "statistics",
        "classifier",
        "features",
        "adapters",
        "first_session",
        "adaptation",
        "memory",
        "forecasts",
        "model_file",
        "spool",
        "turns",
    },
    "model": {"backbones", "classifier", "features", "first_session", "image_model", "turns"},
    "metrics": {"errors"},
    "analysis": {"errors"},
    "costs": set(),
    "datasets": {"errors", "registry", "images", "compat", "progress"},
    "scenarios": {"errors", "registry", "images", "datasets"},
    "methods": {
        "errors",
        "registry",
        "storage",
        "images",
        "backbones",
        "statistics",
        "ridge",
        "lambda_search",
        "classifier",
        "features",
        "feature_maps",
        "adapters",
        "first_session",
        "image_model",
        "model",
        "seeds",
        "training",
        "progress",
        "memory",
    },
    "checks": {
        "errors",
        "registry",
        "images",
        "backbones",
        "image_model",
        "datasets",
        "scenarios",
        "methods",
    },
    "machine": set(),
    "results": {"errors", "texts", "schema", "storage", "metrics"},
    "labels": set(),
    "comparison": {"errors", "texts", "registry", "metrics", "results", "labels"},
    "experiment": {
        "errors",
        "registry",
        "storage",
        "backbones",
        "adapters",
        "first_session",
        "image_model",
        "metrics",
        "scenarios",
        "methods",
        "machine",
        "results",
        "memory",
    },
    "plots": {"errors", "texts", "metrics"},
    "bench": {
        "errors",
        "images",
        "cache",
        "backbones",
        "statistics",
        "ridge",
        "lambda_search",
        "classifier",
        "progress",
        "features",
        "metrics",
        "datasets",
        "scenarios",
        "methods",
        "machine",
        "experiment",
        "plots",
    },
    "console": {"texts", "memory", "progress", "features", "adapters", "image_model", "model", "results"},
    "demo": {
        "backbones",
        "image_model",
        "model",
        "metrics",
        "datasets",
        "scenarios",
        "methods",
        "experiment",
    },
    "suites": {
        "errors",
        "registry",
        "images",
        "backbones",
        "adapters",
        "first_session",
        "image_model",
        "features",
        "metrics",
        "analysis",
        "costs",
        "datasets",
        "scenarios",
        "methods",
        "machine",
        "results",
        "labels",
        "comparison",
        "experiment",
        "memory",
        "plots",
    },
    "report": {
        "errors",
        "texts",
        "storage",
        "metrics",
        "plots",
        "suites",
    },
    "cli": {
        "errors",
        "registry",
        "storage",
        "images",
        "cache",
        "backbones",
        "adapters",
        "first_session",
        "model_file",
        "image_model",
        "model",
        "metrics",
        "datasets",
        "scenarios",
        "methods",
        "results",
        "comparison",
        "experiment",
        "plots",
        "suites",
        "report",
        "console",
        "bench",
        "demo",
    },
}


def module_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(file: Path) -> set[str]:
    """The full names of all that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules_of_layup(names: set[str]) -> set[str]:
    """All but `layup.__version__`, which is no module."""
    found = {parts[1] for parts in (name.split(".") for name in names) if parts[0] == "layup"}
    return found - {"__version__"}


FILES = [file for file in sorted(SOURCE.rglob("*.py")) if file != SOURCE / "__init__.py"]


def test_every_module_has_its_line():
    assert {module_of(file) for file in FILES} == set(MAY_IMPORT)


def test_lines_only_name_lines_above():
    above: set[str] = set()
    for module, allowed in MAY_IMPORT.items():
        assert allowed <= above, f"{module} names what comes after it"
        above.add(module)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_go_one_way(file):
    module = module_of(file)
    assert modules_of_layup(imported(file)) - {module} <= MAY_IMPORT[module]


def test_no_permission_is_left_unused():
    used: dict[str, set[str]] = {module: set() for module in MAY_IMPORT}
    for file in FILES:
        used[module_of(file)] |= modules_of_layup(imported(file)) - {module_of(file)}
    assert used == MAY_IMPORT


@pytest.mark.parametrize("module", ["statistics", "ridge", "metrics", "analysis", "classifier"])
def test_arithmetic_knows_no_images_files_or_screens(module):
    strangers = {"layup.images", "layup.features", "rich", "matplotlib", "PIL", "typer"}
    for name in imported(SOURCE / f"{module}.py"):
        assert not any(name == stranger or name.startswith(f"{stranger}.") for stranger in strangers)


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_light_modules_load_no_torch():
    for module in (
        "storage",
        "images",
        "cache",
        "errors",
        "registry",
        "metrics",
        "analysis",
        "cli",
        "console",
    ):
        heavy = {"torch", "timm", "torchvision", "sklearn", "scipy", "matplotlib", "transformers"}
        assert loaded_by(f"layup.{module}") & heavy == set(), module


def test_layup_itself_loads_nothing():
    own = {name for name in loaded_by("layup") if name.startswith("layup.")}
    assert own == set()


def test_arithmetic_loads_no_images_or_features():
    """Not rich, which comes with scikit-learn."""
    strangers = {"layup.images", "layup.features", "layup.backbones", "matplotlib", "timm", "typer"}
    for module in ("metrics", "classifier"):  # the latter loads statistics and ridge
        assert loaded_by(f"layup.{module}") & strangers == set(), module
