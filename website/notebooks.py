"""Notebooks as pages: text, code and what it printed and drew when the notebook was last run."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ORDER = ("photos", "paper_table", "own_backbone")
"""In which they are read; others follow, by name."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Notebook:
    """A notebook's page, and the pictures in it by their names."""

    markdown: str = ""
    pictures: dict[str, bytes] = field(default_factory=dict)


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Notebooks in the order in which they are read."""
    return sorted(
        paths, key=lambda path: (ORDER.index(path.stem) if path.stem in ORDER else len(ORDER), path)
    )


def read_notebook(path: Path) -> Notebook:
    """The page of a notebook: its text, and what it printed and drew. Nothing in it is run."""
    notebook = Notebook()
    parts = [f"[Download this notebook]({path.name})\n"]
    for cell in json.loads(path.read_text())["cells"]:
        text = _joined(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(f"{text}\n")
        elif cell["cell_type"] == "code" and text.strip():
            parts.append(_fenced(text, "python"))
            for output in cell["outputs"]:
                parts += _shown(output, notebook.pictures, path.stem)
    title, *rest = parts[1:] or [""]
    notebook.markdown = "\n".join([title, parts[0], *rest])  # the title first
    return notebook


def _shown(output: Mapping[str, Any], pictures: dict[str, bytes], stem: str) -> Iterator[str]:
    """What a cell gave: the richest form of it that needs no script."""
    data = output.get("data", {})
    if output["output_type"] == "stream":
        yield _fenced(_joined(output["text"]), "text")
    elif "image/png" in data:
        name = f"{stem}-{len(pictures) + 1}.png"
        pictures[name] = base64.b64decode(_joined(data["image/png"]))
        yield f"![{_alternative(data)}]({name})\n"
    elif "text/markdown" in data:
        yield f"{_joined(data['text/markdown'])}\n"
    elif "text/html" in data:
        yield f'<div class="output">{_joined(data["text/html"])}</div>\n'
    elif "text/plain" in data:
        yield _fenced(_joined(data["text/plain"]), "text")


def _alternative(data: Mapping[str, Any]) -> str:
    return re.sub(r"[\[\]<>\n]", "", _joined(data.get("text/plain", "A picture"))) or "A picture"


def _fenced(text: str, language: str) -> str:
    return f"~~~~{language}\n{COLOURS.sub('', text).rstrip()}\n~~~~\n"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
