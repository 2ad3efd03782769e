"""What a record says of the machine: enough to explain a number, and nothing of its owner."""

from __future__ import annotations

import getpass
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from layup import __version__, machine

MEGABYTE = 2**20


def test_versions_are_of_all_that_a_number_can_depend_on() -> None:
    found = machine.versions()
    assert found["layup"] == __version__
    assert found["python"] == platform.python_version()
    for package in ("torch", "torchvision", "timm", "numpy", "scipy", "scikit-learn", "pillow"):
        assert found[package] == version(package)


def test_the_machine_is_described_without_its_name_or_that_of_its_user() -> None:
    found = machine.describe()
    assert found["cores"] >= 1
    assert found["system"] == platform.system()
    text = json.dumps(found)
    for private in (platform.node(), getpass.getuser(), str(Path.home())):
        assert len(private) < 2 or private not in text


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset it")
def test_peak_memory_counts_what_is_gone_again_until_it_is_reset() -> None:
    machine.reset_peak_memory()
    before = machine.peak_memory()
    large = np.ones(400 * MEGABYTE // 8)  # the system may take other memory away meanwhile
    del large
    during = machine.peak_memory()
    machine.reset_peak_memory()
    after = machine.peak_memory()
    assert during - before > 200 * MEGABYTE
    assert during - after > 200 * MEGABYTE


def test_elsewhere_the_most_since_the_start_is_said_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_args: object, **_kwargs: object) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", unreadable)
    monkeypatch.setattr(Path, "write_text", unreadable)
    machine.reset_peak_memory()
    elsewhere = machine.peak_memory()
    assert 10 * MEGABYTE < elsewhere < 1000_000 * MEGABYTE
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    assert machine.peak_memory() is None
