"""The page in a real browser: what a person does, by mouse, by keyboard and on a phone.

Runs Debian's Chromium, driven by Playwright; it is skipped where one of them is missing.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from layup import LayUP, load
from layup.features import FeatureCache
from layup.model import Heat
from layup.serving import DemoPhotos, RequestLimits, Tokens, create_app
from models import small_network
from servers import running, service

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright drives the browser: it is missing.")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("Chromium is missing: apt install chromium.", allow_module_level=True)

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--disable-component-update", "--disable-sync", "--use-fake-device-for-media-stream",
         "--use-fake-ui-for-media-stream"]  # fmt: skip
COLOURS = {"red": (220, 40, 30), "blue": (30, 50, 220), "green": (20, 190, 60), "grey": (128, 128, 128)}
PHONE = {"width": 360, "height": 740}
NEW, ASK = "Add photos: the new class", "Choose photos: to ask about"


def photo(colour: str, number: int = 0, kind: str = "png") -> dict[str, object]:
    """A file as the browser gets it: a colour with some noise, all different."""
    noise = np.random.default_rng(number).integers(-25, 25, (24, 24, 3))
    file = io.BytesIO()
    Image.fromarray(np.clip(np.array(COLOURS[colour]) + noise, 0, 255).astype(np.uint8)).save(file, kind)
    return {"name": f"{colour} {number}.{kind}", "mimeType": f"image/{kind}", "buffer": file.getvalue()}


def photos(colour: str, count: int, start: int = 0) -> list[dict[str, object]]:
    return [photo(colour, number) for number in range(start, start + count)]


class Visit:
    """A tab with the page, and what must not happen in it."""

    def __init__(self, tab, url: str) -> None:
        self.tab, self.url = tab, url
        self.wrong: list[str] = []
        tab.set_default_timeout(15_000)
        tab.on("console", lambda said: said.type in ("error", "warning") and self.wrong.append(said.text))
        tab.on("pageerror", lambda error: self.wrong.append(str(error)))
        tab.on("request", self._asked)

    def _asked(self, request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("blob", "data") and address.netloc != urlsplit(self.url).netloc:
            self.wrong.append(f"asked another host: {request.url}")

    def open(self) -> Visit:
        self.tab.goto(self.url)
        self.tab.locator("#facts").filter(has_text=re.compile("class|nothing")).wait_for()
        return self

    def button(self, name: str | re.Pattern[str], within=None):
        return (within or self.tab).get_by_role("button", name=name, exact=isinstance(name, str))

    def card(self, label: str):
        heading = self.tab.get_by_role("heading", name=label, exact=True)
        return self.tab.locator(".card").filter(has=heading)

    def more(self, label: str) -> None:
        """Open what else can be done with a class."""
        self.card(label).get_by_label(f"More about {label}").click()

    def teach(self, label: str, files: list[dict[str, object]]) -> None:
        self.tab.get_by_label("New class", exact=True).last.fill(label)
        self.tab.get_by_label(NEW).set_input_files(files)
        self.idle()

    def ask(self, *files: dict[str, object]) -> None:
        self.tab.get_by_label(ASK).set_input_files(list(files))
        self.idle()

    def idle(self) -> None:
        """Wait until no upload runs."""
        self.tab.locator(".job").wait_for(state="detached")

    def says(self, words: str) -> None:
        self.tab.locator(".notice", has_text=words).first.wait_for()

    def verdict(self, label: str) -> None:
        self.tab.locator(".verdict", has_text=re.compile(f"^{re.escape(label)}$")).wait_for()

    def counts(self, **expected: int) -> None:
        """Wait until these are the classes, with so many photos."""
        for label, count in expected.items():
            words = re.compile(rf"^{count} photos?\b")
            self.card(label).locator(".count", has_text=words).wait_for()
        sync_api.expect(self.tab.locator(".card")).to_have_count(len(expected))

    def fits(self) -> bool:
        """Whether nothing is wider than the screen."""
        return self.tab.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield launched
        launched.close()


Visits = Callable[..., contextlib.AbstractContextManager[Visit]]


@pytest.fixture
def visit(browser, tmp_path: Path) -> Visits:
    """Visit the page of a server of the model in this folder; nothing in the tab may go wrong meanwhile."""

    @contextlib.contextmanager
    def visit(at: str = "/", context: dict[str, object] | None = None, **options: object) -> Iterator[Visit]:
        with (
            service(options.pop("path", tmp_path / "m.layup"), **options) as found,
            running(create_app(found)) as url,
            contextlib.closing(browser.new_context(**(context or {}))) as tabs,
        ):
            visited = Visit(tabs.new_page(), url + at)
            yield visited
            assert visited.wrong == []

    return visit


def test_teach_ask_correct_forget_undo_rename_and_come_back(visit: Visits, tmp_path: Path) -> None:
    with visit() as page:
        page.open()
        page.tab.get_by_text("Name something, and drop a few photos of it here.").wait_for()
        page.teach("red", photos("red", 4))
        page.teach("blue", photos("blue", 3))
        page.counts(red=4, blue=3)
        assert page.card("red").locator("img").count() == 4

        page.ask(photo("red", 50))
        page.verdict("red")
        assert page.tab.locator(".bars li").first.inner_text().startswith("red")
        page.button("It is blue: teach it").click()  # one click corrects
        page.says("Learned 1 photo of blue.")
        page.counts(red=4, blue=4)
        page.button("It is red: teach it").click()
        page.says("Moved 1 photo to red.")
        page.counts(red=5, blue=3)

        page.teach("green", photos("green", 2))
        page.counts(red=5, blue=3, green=2)
        page.button("Undo").click()
        page.says("Undone: 2 of green")
        page.counts(red=5, blue=3)

        page.more("blue")
        page.button("Rename", page.card("blue")).click()
        page.tab.get_by_label("New name").fill("navy")
        page.button("Rename", page.tab.get_by_role("dialog")).click()
        page.counts(red=5, navy=3)

        page.more("navy")
        page.button("Forget class", page.card("navy")).click()
        page.button("Forget", page.tab.get_by_role("dialog")).click()
        page.says("never seen them")
        page.counts(red=5)

        page.tab.reload()
        page.counts(red=5)
        page.tab.get_by_text("whose pictures are not in this tab").wait_for()
        assert page.card("red").locator("img").count() == 0
    assert load(tmp_path / "m.layup").counts_ == {"red": 5}


AXE = find_spec("axe_playwright_python")


@pytest.mark.skipif(AXE is None, reason="axe comes with axe-playwright-python, which is missing.")
@pytest.mark.parametrize(
    "scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)], ids=["in the light", "in the dark"]
)
def test_axe_finds_nothing(visit: Visits, scheme: str) -> None:
    axe = Path(AXE.origin).with_name("axe.min.js").read_text()  # type: ignore[union-attr, arg-type]
    with visit(context={"color_scheme": scheme, "reduced_motion": "reduce"}) as page:

        def judge() -> None:
            found = page.tab.evaluate("() => axe.run()")
            assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
            assert len(found["passes"]) > 10

        page.open()
        page.tab.evaluate(axe)
        judge()
        page.teach("red", photos("red", 3))
        page.teach("blue", photos("blue", 1))
        page.ask(photo("red", 50), photo("grey", 1))
        page.button("Why?").click()
        page.tab.locator(".layers").wait_for()
        page.card("red").locator("input[type=checkbox]").first.check()
        judge()
        page.tab.set_viewport_size(PHONE)
        judge()
        page.more("red")
        page.button("Forget class", page.card("red")).click()
        judge()


@pytest.mark.slow
def test_everything_works_by_keyboard(visit: Visits) -> None:
    with visit() as page:
        page.open()
        press = page.tab.keyboard.press

        def tab_to(name: str) -> None:
            for _ in range(80):
                press("Tab")
                node = page.tab.evaluate_handle("() => document.activeElement")
                names = "(node) => [node.ariaLabel, node.innerText, node.id]"
                if name in node.evaluate(names):
                    return
            raise AssertionError(f"{name} cannot be reached; the last one was {node.evaluate(names)}")

        press("Tab")
        assert page.tab.evaluate("() => document.activeElement.className") == "skip"
        tab_to("new-name")
        page.tab.keyboard.type("red")
        tab_to(NEW)
        with page.tab.expect_file_chooser() as chooser:
            press("Space")
        chooser.value.set_files(photos("red", 2))
        page.idle()
        page.counts(red=2)
        page.teach("blue", photos("blue", 2))
        page.ask(photo("red", 9))
        page.verdict("red")
        tab_to("It is red: teach it")
        outline = page.tab.evaluate("() => getComputedStyle(document.activeElement).outlineWidth")
        assert outline == "3px"
        press("Enter")
        page.counts(red=3, blue=2)
        tab_to("More about red")
        press("Enter")
        tab_to("Forget class")
        press("Enter")
        dialog = page.tab.get_by_role("dialog")
        dialog.wait_for()
        press("Escape")
        dialog.wait_for(state="detached")
        page.counts(red=3, blue=2)


@pytest.mark.slow
def test_a_phone_shows_all_without_scrolling_sideways(visit: Visits) -> None:
    with visit(context={"viewport": PHONE, "has_touch": True, "is_mobile": True}) as page:
        page.open()
        assert page.fits()
        page.teach("red", photos("red", 3))
        page.teach(
            "a class whose name is rather long, and has Donaudampfschifffahrtsgesellschaft", photos("blue", 3)
        )
        page.ask(photo("red", 50), photo("blue", 51))
        page.button("Why?").click()
        page.tab.locator(".layers").wait_for()
        page.card("red").locator("input[type=checkbox]").first.check()
        page.more("red")
        assert page.fits()
        small = page.tab.evaluate(
            """() => [...document.querySelectorAll("button, .button, select, summary, nav a, .tile")]
                .filter((node) => node.checkVisibility())
                .map((node) => [node.textContent, node.getBoundingClientRect()])
                .filter(([, box]) => box.width < 44 || box.height < 44)
                .map(([text, box]) => `${text}: ${box.width} × ${box.height}`)"""
        )
        assert small == []


@pytest.mark.slow
def test_selected_photos_move_and_are_forgotten_together(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("red", photos("red", 4))
        page.teach("blue", photos("blue", 2))
        boxes = page.card("red").locator("input[type=checkbox]")
        boxes.nth(0).check()
        boxes.nth(1).check()
        page.tab.get_by_label("Move to").select_option("blue")
        page.says("Moved 2 photos to blue.")
        page.counts(red=2, blue=4)
        assert page.card("blue").locator("img").count() == 4
        boxes.nth(0).check()
        page.button("Forget", page.tab.get_by_role("group", name="Selected pictures")).click()
        page.button("Forget", page.tab.get_by_role("dialog")).click()
        page.says("Forgot 1 photo.")
        page.counts(red=1, blue=4)
        assert page.card("red").locator("img").count() == 1
        page.card("red").get_by_text("Only one photo").wait_for()  # which the sums give away


@pytest.mark.slow
def test_a_hundred_photos_are_sent_in_parts_and_undone_together(visit: Visits) -> None:
    with visit() as page:
        sent: list[str] = []
        page.tab.on("request", lambda request: request.url.endswith("/teach") and sent.append(request.url))
        page.open()
        page.teach("blue", photos("blue", 2))
        page.tab.get_by_label("New class", exact=True).last.fill("red")
        page.tab.get_by_label(NEW).set_input_files(photos("red", 100))
        page.tab.get_by_role("progressbar").wait_for()
        page.idle()
        page.counts(blue=2, red=100)
        assert len(sent) == 1 + 7  # 16 photos in each
        page.button("Show all 100").click()
        assert page.card("red").locator("img").count() == 100
        page.button("Undo").click()
        page.says("Undone: 100 of red")
        page.counts(blue=2)


@pytest.mark.slow
def test_uploads_can_be_cancelled_and_what_was_learned_undone(visit: Visits) -> None:
    with visit() as page:
        answered: list[str] = []

        def slow(route) -> None:
            if len(answered) < 2:
                answered.append(route.request.url)
                route.continue_()  # all others wait until they are cancelled

        page.tab.route("**/teach", slow)
        page.open()
        page.tab.get_by_label("New class", exact=True).last.fill("red")
        page.tab.get_by_label(NEW).set_input_files(photos("red", 80))
        page.tab.locator(".job", has_text="32 of 80 photos").wait_for()
        page.button("Cancel").click()
        page.says("Cancelled. Learned 32 photos of red.")
        page.counts(red=32)
        page.button("Undo").click()
        page.says("Undone: 32 of red")
        page.wrong = [each for each in page.wrong if "ERR_ABORTED" not in each]


@pytest.mark.slow
def test_a_busy_server_is_asked_again_with_the_same_key(visit: Visits) -> None:
    with visit() as page:
        keys: list[str] = []

        def busy(route) -> None:
            keys.append(route.request.headers["idempotency-key"])
            if len(keys) < 3:
                body = json.dumps({"error": {"code": "busy", "message": "Too much at once."}})
                route.fulfill(status=503, headers={"Retry-After": "0"}, body=body)
            else:
                route.continue_()

        page.tab.route("**/teach", busy)
        page.open()
        page.teach("red", photos("red", 2))
        page.counts(red=2)
        assert len(keys) == 3
        assert len(set(keys)) == 1
        page.wrong = [each for each in page.wrong if "503" not in each]


@pytest.mark.slow
def test_requests_that_are_too_large_are_halved(visit: Visits) -> None:
    size = len(photo("red")["buffer"])  # type: ignore[arg-type]
    with visit(limits=RequestLimits(body=6 * size, rate=1e6, burst=1000)) as page:
        page.open()
        page.teach("red", photos("red", 16))
        page.counts(red=16)
        large = {**photo("red", 50), "buffer": photo("red", 50)["buffer"] + bytes(9 * size)}  # type: ignore[operator]
        page.teach("blue", [large, *photos("blue", 2)])
        page.says("red 50.png")
        page.counts(red=16, blue=2)
        page.wrong = [each for each in page.wrong if "413" not in each]


@pytest.mark.slow
def test_a_bad_file_fails_alone_and_is_named(visit: Visits) -> None:
    with visit() as page:
        page.open()
        bad = {"name": "<b>notes</b>.png", "mimeType": "image/png", "buffer": b"not an image"}
        page.teach("<img src=x onerror=alert(1)>", [bad, *photos("red", 2)])
        page.says("<b>notes</b>.png")
        page.counts(**{"<img src=x onerror=alert(1)>": 2})
        page.ask(bad)
        page.verdict("This cannot be used")


@pytest.mark.slow
def test_many_classes_are_found_by_their_names(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("red", photos("red", 2))
        assert not page.tab.get_by_label("Find a class").is_visible()
        for number in range(11):
            page.teach(f"blue {number}", photos("blue", 1, number))
            page.card(f"blue {number}").wait_for()
        page.tab.get_by_label("Find a class").fill("RE")
        page.counts(red=2)
        page.tab.get_by_label("Find a class").fill("")
        sync_api.expect(page.tab.locator(".card")).to_have_count(12)


@pytest.mark.slow
def test_what_the_browser_cannot_show_is_taught_all_the_same(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("red", [photo("red", 1, "tiff"), photo("red", 2)])
        page.counts(red=2)
        page.card("red").get_by_role("img", name="Select red 1.tiff").wait_for()
        page.ask(photo("red", 3, "tiff"))
        page.verdict("red")
        page.tab.get_by_text("this browser cannot show it").wait_for()


@pytest.mark.slow
def test_a_photo_of_another_class_is_only_moved_if_that_is_wanted(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("red", photos("red", 3))
        page.teach("blue", [*photos("blue", 2), photo("red", 0)])
        page.says("1 photo known as another class, so not learned as blue.")
        page.counts(red=3, blue=2)
        page.button("Move to blue").click()
        page.says("Moved 1 photo to blue.")
        page.counts(red=2, blue=3)


@pytest.mark.slow
def test_pictures_come_back_when_photos_are_given_again(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("red", photos("red", 3))
        page.tab.reload()
        page.counts(red=3)
        page.card("red").get_by_text("3 pictures not in this tab.").wait_for()
        page.tab.get_by_label("Add photos: red").set_input_files(photos("red", 2))
        page.says("2 photos known already")
        page.card("red").get_by_text("1 more picture not in this tab.").wait_for()
        page.counts(red=3)


@pytest.mark.slow
def test_photos_are_dropped_and_pasted(visit: Visits) -> None:
    give = """async ([selector, kind, bytes, name]) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], name, { type: "image/png" }));
        const init = { bubbles: true, cancelable: true };
        const event = kind === "paste"
            ? new ClipboardEvent("paste", { clipboardData: data, ...init })
            : new DragEvent(kind, { dataTransfer: data, ...init });
        document.querySelector(selector).dispatchEvent(event);
    }"""

    def given(selector: str, kind: str, colour: str, number: int) -> None:
        file = photo(colour, number)
        page.tab.evaluate(give, [selector, kind, list(file["buffer"]), file["name"]])  # type: ignore[call-overload]
        page.idle()

    with visit() as page:
        page.open()
        page.tab.get_by_label("New class", exact=True).last.fill("red")
        given(".new", "drop", "red", 1)
        page.counts(red=1)
        given(".card", "drop", "red", 2)
        page.counts(red=2)
        page.card("red").get_by_label("More about red").focus()
        given("body", "paste", "red", 3)
        page.counts(red=3)
        page.tab.get_by_role("link", name="Ask", exact=True).focus()
        given("body", "paste", "red", 4)
        page.verdict("red")
        given("footer", "drop", "red", 5)
        page.tab.get_by_alt_text("The photo red 5.png").wait_for()
        page.counts(red=3)


def write_photos(folder: Path, colour: str, count: int) -> None:
    folder.mkdir(parents=True)
    for each in photos(colour, count, start=len(folder.parts) * 10):
        (folder / str(each["name"])).write_bytes(each["buffer"])  # type: ignore[arg-type]


def drop(page: Visit, *paths: Path) -> None:
    """Drop files and folders on the form for new classes, as the mouse does."""
    mouse = page.tab.context.new_cdp_session(page.tab)
    box = page.tab.locator(".new").bounding_box()
    at = {"x": box["x"] + 5, "y": box["y"] + 5}
    for kind in ("dragEnter", "dragOver", "drop"):
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        mouse.send("Input.dispatchDragEvent", {"type": kind, "data": data, **at})


@pytest.mark.slow
def test_a_folder_that_is_dropped_is_a_class_of_its_name(visit: Visits, tmp_path: Path) -> None:
    write_photos(tmp_path / "red", "red", 3)
    write_photos(tmp_path / "red" / "more", "red", 2)
    (tmp_path / "red" / ".DS_Store").write_bytes(b"left behind by a system")
    with visit() as page:
        page.open()
        drop(page, tmp_path / "red")
        page.counts(red=5)
        assert page.tab.locator(".over").count() == 0  # nothing is shown as a place to drop any more


@pytest.mark.slow
def test_folders_that_are_dropped_are_classes_that_are_undone_together(visit: Visits, tmp_path: Path) -> None:
    write_photos(tmp_path / "all" / "red", "red", 3)
    write_photos(tmp_path / "all" / "blue", "blue", 2)
    write_photos(tmp_path / "green", "green", 2)
    with visit() as page:
        page.open()
        drop(page, tmp_path / "all", tmp_path / "green")
        page.says("Learned 7 photos of 3 classes.")
        page.counts(red=3, blue=2, green=2)
        assert page.card("blue").locator("img").count() == 2
        page.button("Undo").click()
        page.says("Undone:")
        page.tab.get_by_text("Name something").wait_for()


@pytest.mark.slow
def test_photos_without_a_name_wait_until_it_is_given(visit: Visits) -> None:
    with visit() as page:
        page.open()
        for answer in ("Cancel", "Teach"):
            page.tab.get_by_label(NEW).set_input_files(photos("red", 2))
            page.tab.get_by_text("What is on these 2 photos?").wait_for()
            page.tab.get_by_label("Name of the class").fill("red")
            page.button(answer, page.tab.get_by_role("dialog")).click()
        page.says("Learned 2 photos of red.")
        page.counts(red=2)


@pytest.mark.slow
def test_of_one_class_no_accuracy_is_expected(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("red", photos("red", 6))
        page.tab.get_by_text("When there are two classes").wait_for()
        page.tab.wait_for_timeout(1000)  # in which it would have come
        assert page.card("red").locator(".count").inner_text() == "6 photos"
        assert not page.tab.locator(".expected").is_visible()
        page.teach("blue", photos("blue", 6))
        page.tab.locator(".expected", has_text="%").wait_for()


@pytest.mark.slow
def test_the_demo_says_what_to_try(visit: Visits) -> None:
    shown = {f"red-{number}.png": photo("red", number)["buffer"] for number in range(40)}
    with visit(demo=DemoPhotos(shown, "It knows nothing of red.")) as page:  # type: ignore[arg-type]
        page.open()
        page.teach("blue", photos("blue", 2))
        page.tab.get_by_text("It knows nothing of red.").wait_for()
        page.tab.set_viewport_size(PHONE)
        for name in ("red-0.png", "red-39.png"):
            page.button(f"Ask about {name}").click()
            sync_api.expect(page.tab.get_by_alt_text(f"The photo {name}")).to_be_in_viewport()
        page.button("See all 2 photos").click()
        sync_api.expect(page.button(re.compile("red-39.png: "))).to_be_focused()


@pytest.mark.slow
def test_the_camera_asks(visit: Visits) -> None:
    with visit(context={"permissions": ["camera"]}) as page:
        page.open()
        page.teach("red", photos("red", 2))
        page.button("Camera: to ask about").click()
        page.tab.wait_for_timeout(500)  # until the camera has a picture
        page.button("Take photo").click()
        page.tab.get_by_text("1 taken.").wait_for()
        page.button("Done").click()
        page.tab.get_by_alt_text("The photo camera-1.png").wait_for()


@pytest.mark.slow
def test_a_token_is_asked_for_and_kept_by_the_tab(visit: Visits) -> None:
    with visit(tokens=Tokens("secret", "look")) as page:
        page.tab.goto(page.url)
        for given in ("wrong", "secret"):
            page.tab.get_by_role("dialog").wait_for()
            page.tab.get_by_label("Token", exact=True).last.fill(given)
            page.button("Continue").click()
        page.tab.locator("#facts", has_text="nothing").wait_for()
        page.teach("red", photos("red", 2))
        page.tab.reload()
        page.counts(red=2)
        page.wrong = [each for each in page.wrong if "401" not in each]


@pytest.mark.slow
def test_a_token_in_the_address_does_not_stay_there(visit: Visits) -> None:
    with visit("/#token=secret", tokens=Tokens("secret")) as page:
        page.open()
        assert "secret" not in page.tab.url
        page.teach("red", photos("red", 2))
        page.counts(red=2)


def shows_no_teaching(page: Visit) -> None:
    """Whether the page of a model with red and blue can only be asked."""
    page.open()
    page.counts(red=2, blue=2)
    assert not page.tab.get_by_label(NEW).is_visible()
    assert not page.button("Undo").is_visible()
    page.ask(photo("red", 9))
    page.verdict("red")
    assert not page.tab.get_by_text("What is it?").is_visible()


@pytest.mark.slow
def test_a_copy_and_a_token_for_reading_show_no_teaching(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("red", photos("red", 2))
        page.teach("blue", photos("blue", 2))
    with visit(follow=True) as page:
        shows_no_teaching(page)
    with visit("/#token=look", tokens=Tokens("secret", "look")) as page:
        shows_no_teaching(page)


@pytest.mark.slow
def test_two_clicks_on_undo_take_one_lesson_back(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("red", photos("red", 2))
        page.teach("blue", photos("blue", 2))
        page.teach("green", photos("green", 2))
        page.button("Undo").dblclick()
        page.says("Undone: 2 of green")
        page.button("Undo").wait_for()  # it said "Undoing …"
        page.tab.reload()
        page.counts(red=2, blue=2)


@pytest.mark.slow
def test_undo_takes_only_back_what_the_last_lesson_learned(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("blue", photos("blue", 2))
        page.teach("red", photos("red", 16))
        page.teach("red", photos("red", 20))  # in two requests, the first of which changes nothing
        page.counts(blue=2, red=20)
        page.button("Undo").click()
        page.says("Undone: 4 of red")
        page.counts(blue=2, red=16)
        page.teach("red", photos("red", 16))  # known already
        page.says("16 photos known already")
        page.button("Undo").click()
        page.says("Undone: 16 of red")
        page.counts(blue=2)


@pytest.mark.slow
def test_photos_whose_features_are_gone_are_forgotten_by_their_files(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("red", photos("red", 4))
        page.teach("blue", photos("blue", 2))
        FeatureCache().clear()
        for number in range(2):
            page.card("red").locator("input[type=checkbox]").nth(number).check()
        page.button("Forget", page.tab.get_by_role("group", name="Selected pictures")).click()
        page.button("Forget", page.tab.get_by_role("dialog")).click()
        page.says("Forgot 2 photos. The model is as if it had never seen them.")
        page.counts(red=2, blue=2)
        assert page.card("red").locator("img").count() == 2


@pytest.mark.slow
def test_what_is_said_of_a_photo_follows_when_the_model_is_judged(visit: Visits) -> None:
    with visit() as page:
        asked: list[str] = []
        unjudged = 2

        def late(route) -> None:
            """The first answers after the lesson come before its judgement, as with many photos."""
            nonlocal unjudged
            answer = route.fetch()
            found = answer.json()
            if found["version"] == 3 and unjudged:
                unjudged -= 1
                found["judged"] = 2
            route.fulfill(response=answer, json=found)

        page.open()
        page.teach("red", photos("red", 3))
        page.teach("blue", photos("blue", 3))
        page.ask(photo("red", 50))
        page.verdict("red")
        page.tab.route("**/classes", late)
        page.tab.on("request", lambda request: "/predict" in request.url and asked.append(request.url))
        page.teach("blue", photos("blue", 3, 20))
        page.tab.get_by_text("This is from before the last change").wait_for()
        page.tab.get_by_text("This is from before the last change").wait_for(state="detached")
        page.tab.get_by_text("Each of 9 photos was judged").wait_for()
        assert unjudged == 0
        assert len(asked) == 2  # after the lesson, and when it was judged


@pytest.mark.slow
def test_where_no_features_are_kept_no_accuracy_is_promised(visit: Visits) -> None:
    with visit(new=lambda: LayUP(small_network(), 2, cache=False, progress=False)) as page:
        page.open()
        page.teach("red", photos("red", 3))
        page.teach("blue", photos("blue", 3))
        page.tab.get_by_text("The accuracy to expect cannot be told").wait_for()


@pytest.mark.slow
def test_the_model_can_be_downloaded(visit: Visits, tmp_path: Path) -> None:
    with visit() as page:
        page.open()
        page.teach("red", photos("red", 2))
        with page.tab.expect_download() as download:
            page.button("Download model").click()
        download.value.save_as(tmp_path / "got.layup")
    assert load(tmp_path / "got.layup").counts_ == {"red": 2}


@pytest.mark.slow
def test_a_model_in_memory_says_so(visit: Visits) -> None:
    with visit(path=None) as page:
        page.open()
        page.tab.locator("#facts", has_text="in memory only").wait_for()


@pytest.mark.slow
def test_what_to_label_next_is_among_the_photos_asked_about(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("red", photos("red", 3))
        page.teach("blue", photos("blue", 3))
        page.ask(*photos("green", 2), *photos("red", 2, 60), *photos("blue", 2, 70))
        page.button("Which should I label next?").click()
        first = page.tab.locator(".strip .tile").first
        first.filter(has_text="1.").wait_for()
        assert first.get_attribute("aria-pressed") == "true"
        page.says("Say what is on this photo")
        assert page.tab.evaluate("() => document.activeElement.textContent") == "Which should I label next?"


@pytest.mark.slow
def test_cells_of_the_table_open_the_photos_of_this_tab(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("red", photos("red", 6))
        page.teach("blue", [*photos("blue", 6), photo("red", 40)])
        page.button("Show who is taken for whom").click()
        page.button(re.compile("1 photo of blue, said to be red")).click()
        page.tab.get_by_text("Taught as blue, but looks like red").wait_for()
        page.button("red 40.png is red: move it").click()
        page.says("Moved 1 photo to red.")
        page.counts(red=7, blue=6)
        page.tab.locator(".cell", has_text="None are left.").wait_for()
        assert page.tab.locator(".cell img").count() == 0
        page.tab.locator(".expected", has_text="%").wait_for()
        page.tab.get_by_text("on your photos, not on new ones").wait_for()


@pytest.mark.slow
def test_names_beside_the_table_break_between_words_and_stay_in_their_cells(visit: Visits) -> None:
    with visit() as page:
        page.open()
        page.teach("American_Goldfinch", photos("red", 2))
        page.teach("a class whose name is rather long, and has many words", photos("blue", 2))
        page.button("Show who is taken for whom").click()
        page.tab.locator(".confusion").wait_for()
        begins, outside = page.tab.evaluate(
            """() => {
                const span = document.querySelector("thead [title=American_Goldfinch] span");
                const tops = [...span.childNodes].filter((node) => node.nodeType === 3).map((node) => {
                    const range = document.createRange();
                    range.selectNode(node);
                    return [node.data, range.getClientRects().length];
                });
                const wide = [...document.querySelectorAll("tbody th span")].filter((name) =>
                    name.getBoundingClientRect().right > name.parentElement.getBoundingClientRect().right);
                return [tops, wide.length];
            }"""
        )
        assert begins == [["American_", 1], ["Goldfinch", 1]]  # each on one line
        assert outside == 0


@pytest.mark.slow
def test_heat_is_spread_as_in_python(visit: Visits) -> None:
    drops = np.random.default_rng(0).normal(size=(8, 8))
    heat = Heat(drops, (3.0, 0.0, 17.0, 14.0))
    with visit() as page:
        page.open()
        found = page.tab.evaluate(
            """async (heat) => {
                const { over } = await import("/page/heat.js");
                const told = (value) => (Number.isNaN(value) ? null : value);
                return over(heat, 20, 14).map((row) => row.map(told));
            }""",
            heat.to_dict(),
        )
    np.testing.assert_allclose(np.array(found, dtype=float), heat.over(20, 14), atol=1e-12)


SPLIT, MIXED = [2, 1, 1, 1], [0, 2]
PARTS = "[[3, 1], [5, 1], [6, 0], [7, 1]].map(([version, count]) => ({ version, ids: Array(count) }))"
PIECES = [
    ("words", "percent(0)", "0\u00a0%"),
    ("words", "percent(0.001)", "<\u00a01\u00a0%"),
    ("words", "percent(0.999)", ">\u00a099\u00a0%"),
    ("words", "percent(1)", "100\u00a0%"),
    ("words", "listed(['a', 'b', 'c'])", "a, b and c"),
    ("words", "counted(2000, 'class', 'classes')", "2,000 classes"),
    ("words", "ofClasses({ tabby: 3, pug: 1 })", "3 of tabby and 1 of pug"),
    ("uploads", "parts([3, 3, 3, 9, 1].map((size) => ({ file: { size } })), 2, 8).map(p => p.length)", SPLIT),
    ("uploads", "parts([], 2, 8)", []),
    ("learner", f"lastParts({PARTS}).map(({{ version }}) => version)", [5, 7]),
    ("confusion", "tabled({ labels: ['a', 'b'], counts: [[5, 0], [0, 5]] })", [0, 1]),
    ("confusion", "tabled({ labels: ['a', 'b', 'c'], counts: [[5, 0, 1], [0, 5, 0], [2, 0, 5]] }, 2)", MIXED),
    (
        "bars",
        "barsOf({ label: 'a', unknown: false, none_of_these: 0.5, probabilities: { b: 0.2, a: 0.7 } })"
        ".map(({ label, share, best }) => [label, Math.round(100 * share), best])",
        [["a", 35, True], ["b", 10, False], ["all other classes", 5, False], ["none of these", 50, False]],
    ),
    ("bars", "inDoubt({ confidence: 0.9, none_of_these: 0.48 })", True),
    ("bars", "inDoubt({ confidence: 0.9, none_of_these: 0.4 })", False),
    ("bars", "inDoubt({ confidence: null, none_of_these: null })", False),
    ("api", "newKey().length", 32),
    ("api", "delay(new Response(null, { headers: { 'Retry-After': '3' } }), 1)", 3),
    ("api", "delay(null, 1) < delay(null, 2)", True),
]  # fmt: skip


@pytest.mark.slow
def test_pieces_of_the_page_do_what_they_say(visit: Visits) -> None:
    with visit() as page:
        page.open()
        for module, expression, expected in PIECES:
            name = re.match(r"\w+", expression)[0]  # type: ignore[index]
            # A module of the page may be imported, but a text may not be evaluated: so the debugger does it.
            code = f'import("/page/{module}.js").then(({{ {name} }}) => {expression})'
            assert page.tab.evaluate(code) == expected, expression
