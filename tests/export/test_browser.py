"""The browser example in headless Chromium: the same answer, and nothing leaves the tab.

Skipped where Chromium, Playwright, npm or the registry that it asks is missing.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image
from sklearn.datasets import load_sample_images

from layup import LayUP
from layup.export import OnnxModel, onnx_graph

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "browser"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
SLOW = 120_000


def module(path: Path) -> ModuleType:
    """The program of the example."""
    spec = importlib.util.spec_from_file_location("browser_example", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_runtime_is_pinned_and_the_lock_names_no_address() -> None:
    (version,) = json.loads((EXAMPLE / "package.json").read_text())["dependencies"].values()
    assert version.replace(".", "").isdigit()
    lock = json.loads((EXAMPLE / "package-lock.json").read_text())["packages"]
    assert lock["node_modules/onnxruntime-web"]["version"] == version
    assert all("integrity" in each and "resolved" not in each for name, each in lock.items() if name)


def test_the_page_has_no_inline_script_or_style() -> None:
    page = (EXAMPLE / "index.html").read_text()
    assert page.count("<script") == page.count('<script type="module" src=') == 1
    assert "style=" not in page
    assert "<style" not in page
    assert "http" not in page


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with its packages."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is missing: apt install npm.")
    folder = tmp_path_factory.mktemp("example") / "browser"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules"))
    done = subprocess.run(
        [npm, "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        pytest.skip(f"npm cannot install onnxruntime-web here: {done.stderr.strip()[-300:]}")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pictures = [Image.fromarray(each) for each in load_sample_images().images]
    model = LayUP("vit-nano", cache=False)
    for number in range(8):
        parts = [each.crop((20 * number, 0, 20 * number + 200, 260)) for each in pictures]
        model.learn(parts, ["temple", "flower"])
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    path.write_bytes(onnx_graph(model.predict_only()))
    return path


@pytest.fixture
def address(example: Path, model: Path) -> Iterator[str]:
    server = module(example / "serve.py").server(model, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_photo_is_answered_in_the_tab_and_nothing_leaves_it(
    address: str, model: Path, tmp_path: Path
) -> None:
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright drives the browser: it is missing."
    )
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is missing: apt install chromium.")
    photo = tmp_path / "photo.png"
    Image.fromarray(load_sample_images().images[0][30:330, 150:420]).save(photo)
    expected = next(OnnxModel(model).predictions([photo]).each())
    wrong: list[str] = []
    asked: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        context = browser.new_context()
        tab = context.new_page()
        tab.set_default_timeout(SLOW)
        tab.on("console", lambda said: said.type in ("error", "warning") and wrong.append(said.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        context.on("request", lambda request: asked.append(request.url))
        tab.goto(address)
        tab.wait_for_selector("#file:not([disabled])", state="attached")
        assert f"{address}model.onnx" in asked
        assert [url for url in asked if not url.startswith(address)] == []
        asked.clear()
        context.set_offline(True)
        drop(tab, photo)
        tab.wait_for_selector("#answer:not([hidden])")
        assert tab.inner_text("#verdict") == expected.label
        first = tab.locator("#bars li").first
        assert first.locator(".name").inner_text() == expected.label
        assert float(first.locator("progress").get_attribute("value")) == pytest.approx(
            expected.confidence, abs=1e-3
        )
        assert tab.locator("#bars li").count() == 2
        tab.set_input_files("#file", {"name": "no.png", "mimeType": "image/png", "buffer": b"no photo"})
        tab.wait_for_selector("#trouble:not([hidden])")
        assert "This photo cannot be used" in tab.inner_text("#trouble")
        assert [url for url in asked if not url.startswith("blob:")] == []
        browser.close()
    assert [said for said in wrong if "blob:" not in said] == []


def drop(tab, photo: Path) -> None:
    """Drop a file on the page, as a mouse does."""
    transfer = tab.evaluate_handle(
        """levels => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(levels)], "photo.png", { type: "image/png" }));
            return transfer;
        }""",
        list(photo.read_bytes()),
    )
    tab.dispatch_event("#place", "drop", {"dataTransfer": transfer})


def test_the_server_sends_its_files_and_no_others(model: Path) -> None:
    server = module(EXAMPLE / "serve.py").server(model, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def answer(path: str) -> tuple[int, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
        connection.request("GET", path)
        found = connection.getresponse()
        found.read()
        connection.close()
        return found.status, found.headers

    status, headers = answer("/")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert "connect-src 'self'" in headers["Content-Security-Policy"]
    assert answer("/page.js")[1]["Content-Type"] == "text/javascript"
    assert answer("/model.onnx")[0] == 200
    for path in ("/serve.py", "/../serve.py", "/package.json", "/node_modules/", "/nothing", "//etc/passwd"):
        assert answer(path)[0] == 404, path
    server.shutdown()
    server.server_close()
