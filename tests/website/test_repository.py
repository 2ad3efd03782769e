"""Files outside `docs/` that pages link to have a page, and are shown as they are."""

from __future__ import annotations

from website import repository
from website.repository import PROSE, ROOT


def test_what_pages_link_to_has_a_page():
    linked = repository.linked_files()
    assert "examples/plugin" in linked
    assert "CITATION.cff" in linked
    assert not set(linked) & set(PROSE)
    assert all((ROOT / path).exists() and not path.startswith("docs/") for path in linked)


def test_a_folder_is_all_its_files():
    page = repository.shown("examples/plugin")
    for file in (ROOT / "examples" / "plugin").rglob("*.py"):
        assert file.read_text().strip() in page


def test_prose_is_there():
    assert all((ROOT / path).is_file() for path in PROSE)
