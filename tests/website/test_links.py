"""Links: those to files of the repository become links within the site, and code stays as it is."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from website import links, repository
from website.links import rewritten, targets

ROOT = Path(__file__).parent.parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PLACES = {
    "docs/a.md": "a.md",
    "docs/sub/b.md": "sub/b.md",
    "README.md": "readme.md",
    "src/x.py": "repository/src/x.py.md",
}


@pytest.mark.parametrize("module", [links, repository])
def test_examples_in_docstrings(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize(
    ("path", "link", "expected"),
    [
        ("docs/a.md", "sub/b.md#how", "sub/b.md#how"),
        ("docs/sub/b.md", "../a.md", "../a.md"),
        ("docs/a.md", "../README.md#install", "readme.md#install"),
        ("docs/sub/b.md", "../../src/x.py", "../repository/src/x.py.md"),
        ("README.md", "docs/a.md", "a.md"),
        ("README.md", "docs/missing.md", "docs/missing.md"),
        ("docs/a.md", "#below", "#below"),
        ("docs/a.md", "https://example.org/README.md", "https://example.org/README.md"),
    ],
)
def test_a_link_leads_to_the_place_on_the_site(path, link, expected):
    assert rewritten(f"See [this]({link}).", path, PLACES) == f"See [this]({expected})."


def test_code_is_left_alone():
    text = "`[a](../README.md)`\n\n```md\n[a](../README.md)\n```\n\n~~~~\n[a](../README.md)\n```\n~~~~\n"
    assert rewritten(text, "docs/a.md", PLACES) == text
    assert targets(text, "docs/a.md") == []


def test_pictures_are_links_too():
    assert rewritten("![A](docs/a.md)", "README.md", PLACES) == "![A](a.md)"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_belongs_to_a_list_is_indented_for_both_readers(page):
    """GitHub takes two or three spaces for the second block of an item, Python-Markdown four."""
    prose = re.sub(r"^(```+|~~~+).*?^\1$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\n\n {1,3}\S.*", prose) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_addresses_elsewhere_are_whole(page):
    """They are not fetched: whether another site answers today says nothing about a page."""
    for target in re.findall(r"\]\(([a-z]+:[^)\s]*)\)", page.read_text()):
        parts = urlsplit(target)
        assert parts.scheme == "https", target
        assert re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", parts.netloc), target
