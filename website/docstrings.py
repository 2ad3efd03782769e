"""Docstrings as Markdown: examples in fences, since `>>>` would be a quotation, and no `::` before code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension


def as_markdown(text: str) -> str:
    """A docstring with each run of example lines in a fence.

    >>> as_markdown("Add.\\n>>> 1 + 1\\n2")
    'Add.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```'
    """
    lines: list[str] = []
    inside = False
    for line in re.sub(r"(?m)^ *::$|(?<=:):$", "", text).splitlines():
        if not inside and line.lstrip().startswith(">>>"):
            indent = line[: len(line) - len(line.lstrip())]
            lines += ["", f"{indent}```pycon"] if lines and lines[-1].strip() else [f"{indent}```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append(f"{indent}```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, f"{indent}```"] if inside else lines)


class Docstrings(Extension):
    """Does so with all docstrings, before they are shown."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
