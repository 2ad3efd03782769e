"""Files outside `docs/` that its pages link to, as pages of the site."""

from __future__ import annotations

from pathlib import Path

from website.links import targets

ROOT = Path(__file__).parent.parent
PROSE = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "measuring.md",
}
"""Pages that are kept elsewhere in the repository, and their place on the site."""
LANGUAGES = {
    ".py": "python",
    ".json": "json",
    ".toml": "toml",
    ".yml": "yaml",
    ".cff": "yaml",
    ".md": "markdown",
}


def linked_files() -> list[str]:
    """The other files and folders that pages link to."""
    docs = [str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")]
    linked = {target for page in [*docs, *PROSE] for target in targets((ROOT / page).read_text(), page)}
    elsewhere = {target for target in linked - set(PROSE) if not target.startswith("docs/")}
    return sorted(target for target in elsewhere if (ROOT / target).exists())


def place_of(path: str) -> str:
    """Where on the site the page of such a file or folder is.

    >>> place_of("CITATION.cff"), place_of("examples/plugin")
    ('repository/CITATION.cff.md', 'repository/examples/plugin.md')
    """
    return f"repository/{path}.md"


def shown(path: str) -> str:
    """The page of a file: its text. The page of a folder: the text of each of its files.

    >>> shown("CITATION.cff").splitlines()[:3]
    ['# CITATION.cff', '', '```yaml']
    """
    file = ROOT / path
    if file.is_file():
        return f"# {path}\n\n{_fenced(file)}"
    parts = [each for each in sorted(file.rglob("*")) if each.is_file() and "__pycache__" not in each.parts]
    return "\n".join([f"# {path}\n", *(f"## {each.relative_to(file)}\n\n{_fenced(each)}" for each in parts)])


def _fenced(file: Path) -> str:
    return f"```{LANGUAGES.get(file.suffix, 'text')}\n{file.read_text().rstrip()}\n```\n"
