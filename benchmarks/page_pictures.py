"""The pictures of the page in docs/serving.md: drawings, taught to the bundled network, in headless Chromium.

    python -m benchmarks.page_pictures [FOLDER]

Needs Chromium, and Playwright, which drives it. FOLDER is docs/images by default.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image, ImageDraw
from playwright.sync_api import FilePayload, Page, sync_playwright

FOLDER = Path(__file__).parent.parent / "docs" / "images"
SIDE, FINE = 224, 4
"""Pixels of a picture, and how many times finer it is drawn, so that its edges are smooth."""
DESKTOP: Any = {"viewport": {"width": 1240, "height": 860}}
PHONE: Any = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}

Colour: TypeAlias = tuple[int, ...]
Points: TypeAlias = Sequence[tuple[float, float]]


class Canvas:
    """Something to draw on, in pixels of the picture."""

    def __init__(self, background: Colour) -> None:
        self.image = Image.new("RGB", (SIDE * FINE, SIDE * FINE), background)
        self.brush = ImageDraw.Draw(self.image)

    def polygon(self, colour: Colour, *points: tuple[float, float]) -> None:
        """A shape with corners."""
        self.brush.polygon([(x * FINE, y * FINE) for x, y in points], colour)

    def box(self, colour: Colour, left: float, top: float, right: float, bottom: float) -> None:
        """A rectangle."""
        self.polygon(colour, (left, top), (right, top), (right, bottom), (left, bottom))

    def disc(self, colour: Colour, x: float, y: float, radius: float) -> None:
        """A filled circle."""
        edges = [(at + way * radius) * FINE for way in (-1, 1) for at in (x, y)]
        self.brush.ellipse(edges, colour)

    def file(self, name: str) -> FilePayload:
        """The picture as a PNG file."""
        file = io.BytesIO()
        self.image.resize((SIDE, SIDE), Image.Resampling.LANCZOS).save(file, "PNG")
        return {"name": name, "mimeType": "image/png", "buffer": file.getvalue()}


def between(some: np.random.Generator, low: Sequence[int], high: Sequence[int]) -> Colour:
    """Numbers at random, each between two others."""
    return tuple(some.integers(low, high).tolist())


def house(canvas: Canvas, some: np.random.Generator) -> None:
    """A house on a lawn."""
    left, width, top = between(some, (55, 80, 90), (85, 110, 110))
    canvas.box(between(some, (90, 170, 90), (170, 210, 120)), 0, 180, SIDE, SIDE)
    canvas.box(between(some, (160, 160, 120), (240, 200, 180)), left, top, left + width, 190)
    roof = between(some, (150, 40, 30), (190, 80, 60))
    canvas.polygon(roof, (left - 14, top), (left + width / 2, top - 50), (left + width + 14, top))
    canvas.box((90, 60, 40), left + width * 0.4, 150, left + width * 0.6, 190)
    for at in (0.1, 0.7):
        canvas.box((130, 170, 220), left + width * at, top + 14, left + width * (at + 0.2), top + 34)


def sun(canvas: Canvas, some: np.random.Generator) -> None:
    """A sun with its rays."""
    x, y, radius = between(some, (90, 75, 26), (140, 120, 42))
    colour = (255, *between(some, (170, 10), (225, 40)))
    canvas.box(between(some, (100, 170, 80), (140, 200, 110)), 0, 200, SIDE, SIDE)
    for angle in np.linspace(0, 2 * np.pi, 12, endpoint=False).tolist():
        far, near = 1.75 * radius, 1.2 * radius
        ray = [(near, angle - 0.09), (far, angle - 0.05), (far, angle + 0.05), (near, angle + 0.09)]
        canvas.polygon(colour, *((x + length * np.cos(a), y + length * np.sin(a)) for length, a in ray))
    canvas.disc(colour, x, y, radius)


def tree(canvas: Canvas, some: np.random.Generator) -> None:
    """A tree with a round crown."""
    x, y = between(some, (95, 75), (130, 95))
    canvas.box(between(some, (110, 150, 70), (150, 180, 100)), 0, 178, SIDE, SIDE)
    canvas.box((115, 75, 45), x - 7, y, x + 7, 190)
    for dx, dy in ((-26, 8), (24, 6), (0, -18)):
        green = between(some, (20, 120, 20), (60, 170, 60))
        canvas.disc(green, x + dx, y + dy, *between(some, (28,), (38,)))


def boat(canvas: Canvas, some: np.random.Generator) -> None:
    """A sailing boat."""
    x, y = between(some, (95, 150), (130, 165))
    canvas.box(between(some, (30, 120, 160), (60, 150, 190)), 0, y, SIDE, SIDE)
    canvas.polygon((165, 40, 60), (x - 55, y), (x + 55, y), (x + 35, y + 26), (x - 35, y + 26))
    canvas.box((90, 70, 60), x - 3, y - 105, x + 3, y)
    canvas.polygon((250, 248, 240), (x + 8, y - 100), (x + 8, y - 8), (x + 52, y - 8))
    canvas.polygon((245, 220, 200), (x - 8, y - 85), (x - 8, y - 8), (x - 42, y - 8))


def drawings(
    draw: Callable[[Canvas, np.random.Generator], None], count: int, seed: int = 0
) -> list[FilePayload]:
    """So many pictures of a thing, all different."""
    files = []
    for number in range(count):
        some = np.random.default_rng([seed, number])
        canvas = Canvas(between(some, (170, 190, 215), (235, 230, 255)))
        draw(canvas, some)
        files.append(canvas.file(f"{draw.__name__}-{seed}-{number}.png"))
    return files


@contextmanager
def server() -> Iterator[str]:
    """The address of a server of a new model in memory."""
    command = [sys.executable, "-m", "layup", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield next(line.strip() for line in process.stdout if line.startswith("http"))
        finally:
            process.terminate()


def teach(page: Page, label: str, files: list[FilePayload]) -> None:
    """Teach files as a new class, and wait until its card says so."""
    page.get_by_label("New class", exact=True).last.fill(label)
    page.get_by_label("Add photos: the new class").set_input_files(files)
    page.locator(".card", has_text=f"{len(files)} photos").filter(has_text=label).wait_for()


def ask(page: Page, file: FilePayload) -> None:
    """Ask about a file, and why."""
    page.get_by_label("Choose photos: to ask about").set_input_files(file)
    page.get_by_role("button", name="Why?").click()
    page.locator(".layers").wait_for()


def shown(page: Page, path: Path) -> None:
    """Keep what is on the screen, when nothing moves any more and no message lies over it."""
    page.locator(".notice").first.wait_for(state="hidden", timeout=30_000)
    page.wait_for_timeout(800)
    page.screenshot(path=path)


def on_a_desk(page: Page, folder: Path) -> None:
    """The pictures of a large screen, in the light."""
    shown(page, folder / "page-first.png")
    lessons = [("house", drawings(house, 6) + drawings(boat, 1)), ("sun", drawings(sun, 8))]
    for label, files in [*lessons, ("tree", drawings(tree, 8)), ("boat", drawings(boat, 6, 1))]:
        teach(page, label, files)
    ask(page, drawings(tree, 1, 2)[0])
    page.locator(".expected").wait_for()
    shown(page, folder / "page-asked.png")
    page.get_by_role("button", name="Show who is taken for whom").click()
    page.get_by_role("button", name="of house, said to be boat").click()
    page.set_viewport_size({"width": 1240, "height": 1020})
    page.locator("#check").evaluate("(part) => part.scrollIntoView()")
    shown(page, folder / "page-check.png")


def on_a_phone(page: Page, folder: Path) -> None:
    """The picture of a small one, in the dark."""
    for label, draw in (("sun", sun), ("tree", tree)):
        teach(page, label, drawings(draw, 8))
    ask(page, drawings(tree, 1, 2)[0])
    page.locator("#ask").evaluate("(part) => part.scrollIntoView()")
    shown(page, folder / "page-phone.png")


def main(folder: Path) -> None:
    """Make all pictures anew."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for draw, screen in ((on_a_desk, DESKTOP), (on_a_phone, {**PHONE, "color_scheme": "dark"})):
            with server() as url:
                page = browser.new_context(**screen).new_page()
                page.set_default_timeout(60_000)
                page.goto(url)
                draw(page, folder)
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    main(parser.parse_args().folder)
