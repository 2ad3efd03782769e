"""The site: every page is in its navigation, it builds without a warning, and reads well in a browser.

What needs MkDocs or Chromium is slow, and skipped where it is missing.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
import yaml

from website import names
from website.repository import PROSE, ROOT

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
SIZES = {"desk": {"width": 1300, "height": 900}, "phone": {"width": 360, "height": 740}}
LOOKED_AT = [
    "",
    "tutorial/",
    "answers/",
    "methods/",
    "comparison/",
    "commands/",
    "python/layup/",
    "reproduction/reproduction/",
]
BROKEN = "[...document.images].filter(each => each.complete && !each.naturalWidth).map(each => each.src)"
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-sync",
]


def targets(nav) -> list[str]:
    """All that a navigation leads to, in its order."""
    if isinstance(nav, str):
        return [nav]
    return [target for each in (nav.values() if isinstance(nav, dict) else nav) for target in targets(each)]


def test_the_navigation_has_every_page():
    docs = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    found = targets(CONFIG["nav"])
    assert len(found) == len(set(found))
    assert set(found) == docs | set(PROSE.values()) | {"python/", "notebooks/"}


def test_nothing_is_loaded_from_elsewhere():
    assert CONFIG["theme"]["font"] is False
    assert not re.search(r"https?://", (ROOT / "mkdocs.yml").read_text())
    for file in (ROOT / "docs" / "assets").iterdir():
        assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", file.read_text()), file.name


class Page(HTMLParser):
    """The links, pictures and names of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.leads: list[str] = []
        self.ids: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids |= {values[key] or "" for key in ("id", "name") if key in values}
        self.leads += [values[key] or "" for key in ("href", "src") if values.get(key)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    if find_spec("mkdocs") is None or find_spec("mkdocstrings") is None:
        pytest.skip("MkDocs is missing: make setup-all.")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in site.rglob("index.html")}


@pytest.mark.slow
def test_every_link_leads_to_a_file_and_a_place_in_it(site, pages):
    checked = 0
    for file, page in pages.items():
        here = f"http://site/{file.parent.relative_to(site)}/".replace("/./", "/")
        for lead in page.leads:
            address, place = urldefrag(urljoin(here, lead))
            parts = urlsplit(address)
            if parts.netloc != "site":
                assert parts.scheme in ("https", "data", "mailto"), f"{file}: {lead}"
                continue
            target = site / unquote(parts.path).lstrip("/")
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{file}: {lead}"
            if place and target in pages:
                assert unquote(place) in pages[target].ids, f"{file}: {lead}"
            checked += 1
    assert checked > 10_000


@pytest.mark.slow
def test_every_public_name_can_be_linked_to(site, pages):
    for entry in set(names.entries().values()):
        room, _, _ = entry.rpartition(".")
        assert entry in pages[site / "python" / room / "index.html"].ids, entry
    for kind in ("LayupError", "InputError", "ForgetError"):
        assert f"layup.errors.{kind}" in pages[site / "python" / "layup.errors" / "index.html"].ids


@pytest.mark.slow
def test_examples_in_docstrings_are_code(site):
    text = (site / "python" / "layup" / "index.html").read_text()
    assert "language-pycon" in text
    assert "<blockquote>" not in text


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The address of a server of nothing but files."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright drives the browser: it is missing."
    )
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is missing: apt install chromium.")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=QUIET)
        yield browser
        browser.close()


class Visit:
    """A tab, and what must not happen in it."""

    def __init__(self, browser, url: str, size: str, scheme: str) -> None:
        self.context = browser.new_context(viewport=SIZES[size], color_scheme=scheme)
        self.tab, self.url, self.wrong = self.context.new_page(), url, []
        self.tab.on(
            "console", lambda said: said.type in ("error", "warning") and self.wrong.append(said.text)
        )
        self.tab.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.tab.on("request", self.requested)

    def requested(self, request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.wrong.append(f"asked for {request.url}")

    def go(self, page: str) -> None:
        self.tab.goto(self.url + page)
        self.tab.wait_for_load_state("networkidle")

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()
        assert self.wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_pages_fit_and_ask_nobody_else(browser, served, size, scheme):
    with Visit(browser, served, size, scheme) as visit:
        for page in LOOKED_AT:
            visit.go(page)
            assert visit.tab.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"], page
            assert visit.tab.evaluate(BROKEN) == [], page
            dark = visit.tab.evaluate("document.body.dataset.mdColorScheme")
            assert dark == {"light": "default", "dark": "slate"}[scheme]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_can_be_used_by_all(browser, served, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing.")
    with Visit(browser, served, "desk", scheme) as visit:
        for page in LOOKED_AT:
            visit.go(page)
            found = axe.Axe().run(visit.tab).response["violations"]
            serious = [each["id"] for each in found if each["impact"] in ("serious", "critical")]
            assert serious == [], page


@pytest.mark.slow
def test_what_the_button_copies_can_be_run(browser, served):
    with Visit(browser, served, "desk", "light") as visit:
        visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
        for page, begins in [("export/", "layup export m.layup"), ("photos/", "printf 'a.jpg")]:
            visit.go(page)
            block = visit.tab.locator("div.highlight", has_text=begins)
            block.locator("button[data-md-type=copy]").click()
            visit.tab.get_by_text("Copied to clipboard").wait_for()
            copied = visit.tab.evaluate("navigator.clipboard.readText()")
            assert copied.startswith(begins)
            assert not [line for line in copied.splitlines() if line.startswith(("$", "{"))]


@pytest.mark.slow
def test_search_finds_a_command_and_a_name(browser, served):
    with Visit(browser, served, "desk", "light") as visit:
        visit.go("")
        for asked, found in [("undo", "commands/"), ("RidgeClassifier", "python/layup/")]:
            field = visit.tab.get_by_placeholder("Search")
            field.fill(asked)
            field.press("End")  # it looks at what was written when a key is let go
            visit.tab.locator(f".md-search-result__link[href*='{found}']").first.wait_for(timeout=15_000)
