"""Whether the pinned versions fit together elsewhere: uv resolves them there, and installs nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from release.parts import unpinned

SYSTEMS = {
    "Linux, x86-64": "x86_64-manylinux_2_28",
    "Linux, ARM": "aarch64-manylinux_2_28",
    "macOS 14, ARM": "aarch64-apple-darwin",
    "Windows, x86-64": "x86_64-pc-windows-msvc",
}
PYTHONS = ("3.11.9", "3.12", "3.13", "3.14")
MACOS = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}
"""The oldest macOS that has wheels of the pinned PyTorch."""
ON_GPUS = re.compile(r"(nvidia|cuda)-|triton$")
"""What PyTorch brings along on Linux unless its CPU build is installed: not pinned here."""


@dataclass(frozen=True)
class Resolved:
    """What would be installed on a system: why that is impossible, or how much is not pinned.

    packages: how many. gpu: how many of them only a GPU needs. loose: others that no constraint pins.
    """

    system: str
    python: str
    packages: int = 0
    gpu: int = 0
    loose: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def good(self) -> bool:
        """Whether it can be installed, and all of it is pinned."""
        return self.problem is None and not self.loose


def resolved(project: Path, constraints: Path, extras: tuple[str, ...]) -> Iterator[Resolved]:
    """Every system with every Python, one after another; asks the package registry, and installs nothing."""
    for system in SYSTEMS:
        for python in PYTHONS:
            yield _resolved(project, constraints, extras, system, python)


def _resolved(
    project: Path, constraints: Path, extras: tuple[str, ...], system: str, python: str
) -> Resolved:
    uv = Path(sys.executable).with_name("uv")
    command = [uv, "pip", "compile", "-q", "--no-header", "--no-annotate", "--only-binary", ":all:"]
    command += ["--python-platform", SYSTEMS[system], "--python-version", python, "-c", constraints, project]
    for extra in extras:
        command += ["--extra", extra]
    with tempfile.TemporaryDirectory() as elsewhere:  # no lock or setting of a project is read
        done = subprocess.run(
            [*map(str, command)], cwd=elsewhere, env=os.environ | MACOS, capture_output=True, text=True
        )
    if done.returncode:
        return Resolved(system, python, problem=" ".join(done.stderr.split()))
    names = re.findall(r"^([\w.-]+)==", done.stdout, re.MULTILINE)
    loose = unpinned(names, constraints.read_text("utf-8"))
    gpu = [name for name in loose if ON_GPUS.match(name)]
    others = tuple(name for name in loose if name not in gpu)
    return Resolved(system, python, len(names), len(gpu), others)
