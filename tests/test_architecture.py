"""What need not wait for PyTorch does not. (The layers themselves are kept by import-linter.)"""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "storage",
        "images",
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
    strangers = {"layup.images", "layup.features.extract", "layup.backbones", "matplotlib", "timm", "typer"}
    assert loaded_by(f"layup.{module}") & strangers == set()
