"""Build a release, and check all that can be checked before anybody gets it.

    python -m release [--out dist] [--no-platforms]

1. Version, citation and changelog name the same version.
2. The sdist and the wheel are built of what git has, and twine accepts them.
3. A bill of materials (CycloneDX) and a list of licences, of what users get.
4. The pinned versions fit together on Linux, macOS and Windows with Python 3.11 to 3.14 (resolved, not
   installed).
5. SHA256SUMS of all files.

Ends with a non-zero status, and a sentence, at the first thing that is wrong. docs/releasing.md has the rest.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from layup import __version__, storage
from layup.cli import console
from layup.tables import Table
from release import bill, parts, platforms

ROOT = Path(__file__).parent.parent


def require_one_version(root: Path = ROOT) -> None:
    """Refuse a release whose files name different versions."""
    changes = (root / "CHANGELOG.md").read_text("utf-8")
    citation = (root / "CITATION.cff").read_text("utf-8")
    first = re.search(r"^## \[(.+)\](?: - (\d{4}-\d\d-\d\d))?$", changes, re.MULTILINE)
    if first is None or first[1] != __version__ or not first[2]:
        has = "nothing" if first is None else repr(first[0])
        sys.exit(f"CHANGELOG.md begins with {has}. Make that '## [{__version__}] - YEAR-MONTH-DAY'.")
    if f"\nversion: {__version__}\n" not in citation:
        sys.exit(f"CITATION.cff has another version. Make that 'version: {__version__}'.")
    if (installed := version(parts.NAME)) != __version__:
        sys.exit(f"layup is installed here as {installed}, and is {__version__}. Run `make release` instead.")


def build(out: Path) -> list[Path]:
    """The sdist and the wheel that is made of it, which twine accepts without a warning."""
    if left := sorted(out.glob("*")) if out.is_dir() else []:
        sys.exit(f"{out} holds {len(left)} files already, such as {left[0].name}. Empty it, or choose --out.")
    run("build", "--no-isolation", "--outdir", out, ROOT)
    built = sorted(out.iterdir())
    run("twine", "check", "--strict", *built)
    return built


def run(module: str, *arguments: object) -> None:
    """Run a tool of Python; its own words if it fails."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"`{module}` refuses:\n{done.stdout}{done.stderr}")


def extras() -> tuple[str, ...]:
    """The extras of users, and those of contributors."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return tuple(project["optional-dependencies"])


def resolve_platforms() -> None:
    """Show where the pinned versions fit together, and refuse a release that cannot be installed."""
    rows, bad = [], []
    found = platforms.resolved(ROOT / "pyproject.toml", ROOT / "constraints.txt", extras())
    for each in found:
        console.remark(f"{each.system}, Python {each.python}: {each.problem or each.packages}")
        said = each.problem or (f"not pinned: {', '.join(each.loose)}" if each.loose else "all pinned")
        rows.append([each.system, each.python, str(each.packages), str(each.gpu), said])
        bad += [] if each.good else [f"{each.system}, Python {each.python}"]
    columns = ["system", "Python", "packages", "of these for GPUs", "pinned"]
    console.show(Table.of(columns, rows))
    if bad:
        sys.exit(
            f"The pinned versions do not fit together everywhere: {'; '.join(bad)}. See constraints.txt."
        )


def main() -> None:
    """All steps, one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--no-platforms", action="store_true", help="leave out what asks the registry")
    chosen = parser.parse_args()
    require_one_version()
    files = build(chosen.out)
    files += bill.write(parts.parts(), chosen.out)
    if not chosen.no_platforms:
        resolve_platforms()
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    storage.write_text(chosen.out / "SHA256SUMS", sums)
    for path in [*files, chosen.out / "SHA256SUMS"]:
        console.say(f"{path} ({path.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
