"""Links between pages: as written for readers of the repository → as they are on the site."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from posixpath import dirname, normpath, relpath

CODE = re.compile(r"(^ *(?P<fence>`{3,}|~{3,}).*?^ *(?P=fence) *$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
ELSEWHERE = re.compile(r"[a-z]+:|#|/")


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with a change to all of it but code."""
    done, start = [], 0
    for code in CODE.finditer(text):
        done += [change(text[start : code.start()]), code[0]]
        start = code.end()
    return "".join([*done, change(text[start:])])


def targets(text: str, path: str) -> list[str]:
    """The files of the repository that a page at this path links to, without headings in them.

    >>> targets("[a](exact.md#how) [b](../LICENSE) [c](https://example.org) `[d](e)`", "docs/files.md")
    ['docs/exact.md', 'LICENSE']
    """
    found: list[str] = []

    def collect(prose: str) -> str:
        for target in TARGET.findall(prose):
            if not ELSEWHERE.match(target):
                found.append(resolved(target, path))
        return prose

    outside_code(text, collect)
    return found


def resolved(target: str, path: str) -> str:
    """The file of the repository that a link of the page at `path` leads to."""
    return normpath(f"{dirname(path)}/{target.partition('#')[0]}").removeprefix("./").removeprefix("/")


def rewritten(text: str, path: str, places: Mapping[str, str]) -> str:
    """A page's text with links to where files are on the site.

    Args:
        text: the page, in Markdown.
        path: the page's own path in the repository.
        places: for each file of the repository that is on the site, its place there.

    >>> rewritten("[Home](../README.md#install)", "docs/a.md", {"docs/a.md": "a.md", "README.md": "index.md"})
    '[Home](index.md#install)'
    """

    def place(link: re.Match[str]) -> str:
        target = link[0]
        if ELSEWHERE.match(target) or (there := places.get(resolved(target, path))) is None:
            return target
        _, mark, heading = target.partition("#")
        return relpath(there, dirname(places[path]) or ".") + mark + heading

    return outside_code(text, lambda prose: TARGET.sub(place, prose))
