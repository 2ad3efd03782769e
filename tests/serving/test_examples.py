"""The examples of docs/serving.md, against a real server on loopback."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from layup.serving import create_app
from layup.serving.limits import RequestLimits
from servers import photo, running, service

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
SHOWN = "http://127.0.0.1:8000"
NAMES = ("tabby-1.jpg", "tabby-2.jpg", "tiger.jpg", "tiger-2.jpg", "holiday.jpg")


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server, and the photos of the examples in the working directory."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(NAMES):
        Path(name).write_bytes(photo(number))
    Path("broken.jpg").write_text("no image")
    with service() as found, running(create_app(found)) as url:
        yield url


def examples(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_requests_with_curl_do_what_they_say(address):
    shown = [line[2:] for block in examples("console") for line in block.splitlines()]
    commands = [line for line in shown if line.startswith("curl ")]
    assert len(commands) >= 12
    for command in commands:
        asked = shlex.split(command.replace(SHOWN, address))
        done = subprocess.run(
            [*asked, *["--silent", "--show-error", "--max-time", "60", "--noproxy", "*"]], capture_output=True
        )
        assert done.returncode == 0, (command, done.stderr)
        assert "-o" in asked or "error" not in json.loads(done.stdout), (command, done.stdout)
    assert Path("copy.layup").stat().st_size > 1000


def test_the_client_does_what_it_says(address, capsys):
    (text,) = examples("py")
    exec(compile(text.replace(SHOWN, address), "serving.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("tiger.jpg tiger 0.")
    assert Path("copy.layup").stat().st_size > 1000


def test_limits_are_those_of_the_page():
    limits = RequestLimits()
    table = PAGE[PAGE.index("## What it takes") : PAGE.index("## What is kept")]
    for said in (
        f"{limits.body // 10**6} MB, {limits.images} photos, two minutes",
        f"header {limits.header:g} seconds",
        f"{limits.image // 10**6} MB, {limits.pixels // 10**6} million pixels",
        f"{limits.held // 10**9} GB",
        f"{limits.rate:g} per second, and {limits.burst} that come",
        f"{limits.threads + limits.waiting} that ask",
    ):
        assert said in table
    assert limits.upload == 120


def test_every_path_of_the_page_is_described():
    with service() as found:
        paths = create_app(found).openapi()["paths"]
    table = PAGE[PAGE.index("| request |") : PAGE.index("Photos are sent as a form")]
    shown = set(re.findall(r"(?<=[ `])/[\w/-]+", table))
    assert shown == set(paths)
