"""The notebooks hold what their execution gives, and nothing of the machine that executed them."""

from __future__ import annotations

import ast
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent.parent / "docs" / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"\d+(?:\.\d+)?")
ROOM = 0.06
"""How far a number may be from the committed one: an accuracy on another processor."""


def each() -> Any:
    return pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def said(cell: Any) -> str:
    """All text that a cell has put out."""
    texts = []
    for output in cell["outputs"]:
        texts.append(output.get("text", ""))
        texts.extend(
            text for kind, text in sorted(output.get("data", {}).items()) if kind.startswith("text/")
        )
    return "\n".join(text if isinstance(text, str) else "".join(text) for text in texts)


def pictures(cell: Any) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell["outputs"])


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["own_backbone", "paper_table", "photos"]


@each()
def test_they_were_executed_from_top_to_bottom_without_an_error(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    code = cells(notebook)
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    for cell in code:
        ast.parse("".join(cell["source"]))
        for output in cell["outputs"]:
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr"


@each()
def test_nothing_in_them_is_of_a_machine_or_a_day(path: Path) -> None:
    text = path.read_text("utf-8")
    notebook = json.loads(text)
    assert notebook["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert all(cell["metadata"] == {} for cell in notebook["cells"])
    for cell in cells(notebook):
        found = said(cell)
        assert not re.search(r"/(?:home|root|tmp|work|usr|Users|private)/|[A-Z]:\\\\", found), found
        assert not re.search(r"0x[0-9a-f]{6,}|\d\d:\d\d:\d\d|site-packages", found), found


@pytest.mark.slow
@each()
def test_executed_again_they_say_the_same(path: Path) -> None:
    """Words are equal; numbers too, but for what another processor may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of notebooks' own libraries
        from benchmarks.notebooks import executed  # needs what only `make setup-all` installs

        again = executed(path)
    committed = cells(json.loads(path.read_text("utf-8")))
    for before, after in zip(committed, cells(again), strict=True):
        assert NUMBER.sub("#", said(after)) == NUMBER.sub("#", said(before))
        for a, b in zip(NUMBER.findall(said(after)), NUMBER.findall(said(before)), strict=True):
            assert float(a) == pytest.approx(float(b), abs=ROOM, rel=ROOM)
        assert pictures(after) == pictures(before)
