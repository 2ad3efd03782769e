"""`python -m release`: it refuses what is not right, and what it builds is what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

import layup
from release.parts import parts

ROOT = Path(__file__).parent.parent.parent


def ran(out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "release", "--out", str(out), "--no-platforms"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def versions(root: Path, changelog: str, citation: str) -> Path:
    (root / "CHANGELOG.md").write_text(f"# Changes\n\n{changelog}\n")
    (root / "CITATION.cff").write_text(f"title: layup\nversion: {citation}\n")
    return root


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changelog", "citation", "said"),
    [
        ("## [Unreleased]", layup.__version__, "'## [Unreleased]'"),
        (f"## [{layup.__version__}]", layup.__version__, "YEAR-MONTH-DAY"),
        ("nothing yet", layup.__version__, "begins with nothing"),
        (f"## [{layup.__version__}] - 2026-11-19", "0.0.9", "CITATION.cff has another version"),
    ],
)
def test_files_that_name_other_versions_are_refused(
    tmp_path: Path, changelog: str, citation: str, said: str
) -> None:
    from release.__main__ import require_one_version

    with pytest.raises(SystemExit, match=r"^(CHANGELOG\.md|CITATION\.cff)") as refused:
        require_one_version(versions(tmp_path, changelog, citation))
    assert said in str(refused.value)


@pytest.mark.slow
def test_a_release_is_built_checked_and_listed(tmp_path: Path) -> None:
    out = tmp_path / "dist"
    done = ran(out)
    assert done.returncode == 0, done.stdout + done.stderr
    name = f"layup_cl-{layup.__version__}"
    files = {f"{name}.tar.gz", f"{name}-py3-none-any.whl", f"{name}.cdx.json", f"{name}-licences.md"}
    sums = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
    assert {*sums} == files
    assert all(sha256((out / file).read_bytes()).hexdigest() == found for file, found in sums.items())

    bill = json.loads((out / f"{name}.cdx.json").read_text())
    assert bill["metadata"]["component"]["version"] == layup.__version__
    expected = {(part.name, part.version) for part in parts()[1:]}
    assert {(each["name"], each["version"]) for each in bill["components"]} == expected
    table = (out / f"{name}-licences.md").read_text()
    assert all(f"| {part} |" in table for part, _ in expected)

    again = ran(out)
    assert again.returncode == 1
    assert "holds 5 files already" in again.stderr
