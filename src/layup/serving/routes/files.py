"""The page, its files, and the pictures to try."""

from __future__ import annotations

from functools import cache
from importlib.resources import files as packaged

from fastapi import APIRouter
from fastapi.responses import Response

from layup.serving import answers
from layup.serving.refusals import RequestError
from layup.serving.service import TheService

router = APIRouter(include_in_schema=False)

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
}
"""The files of the page, by their endings: no others are given away."""


@cache
def page() -> dict[str, tuple[bytes, str]]:
    """All files of the page and their types, by name; read once."""
    folder = packaged("layup.serving") / "page"
    if not folder.is_dir():
        return {}
    found = {}
    for file in folder.iterdir():
        ending = file.name[file.name.rfind(".") :]
        if ending in TYPES:
            found[file.name] = (file.read_bytes(), TYPES[ending])
    return found


@router.get("/")
async def index() -> Response:
    """The page."""
    return given("index.html")


@router.get("/page/{name}")
async def part(name: str) -> Response:
    """A file of the page."""
    return given(name)


def given(name: str) -> Response:
    """A file of the page as an answer."""
    if name not in page():
        raise RequestError(404, "not-found", "The page has no such file.")
    data, kind = page()[name]
    return Response(data, media_type=kind, headers={"Cache-Control": "no-cache"})


@router.get("/favicon.ico")
async def icon() -> Response:
    """Browsers ask for it, whatever the page says."""
    return Response(status_code=204)


@router.get("/demo")
async def demo(service: TheService) -> answers.Demo:
    """Pictures to try: none, unless the server was started as a demo."""
    about, names = (service.demo.about, service.demo.pictures) if service.demo else ("", {})
    photos = [answers.DemoPhoto(name=name, url=f"/demo/{name}") for name in names]
    return answers.Demo(about=about, photos=photos)


@router.get("/demo/{name}")
async def picture(name: str, service: TheService) -> Response:
    """One of these pictures."""
    if service.demo is None or name not in service.demo.pictures:
        raise RequestError(404, "not-found", "There is no such picture.")
    return Response(service.demo.pictures[name], media_type="image/png")
