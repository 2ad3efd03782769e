"""A notebook becomes a page with its text, its code and what it gave."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from website.notebooks import in_order, read_notebook

PNG = base64.b64encode(b"a picture").decode()
CELLS = [
    {"cell_type": "markdown", "source": ["# Photos\n", "\n", "Some text."]},
    {
        "cell_type": "code",
        "source": "print('```')",
        "outputs": [{"output_type": "stream", "name": "stdout", "text": ["\x1b[31m```\x1b[0m\n"]}],
    },
    {
        "cell_type": "code",
        "source": "picture",
        "outputs": [
            {"output_type": "display_data", "data": {"image/png": PNG, "text/plain": "<Figure [1]>"}},
            {"output_type": "execute_result", "data": {"text/html": "<b>x</b>", "text/plain": "x"}},
            {"output_type": "execute_result", "data": {"text/plain": ["42"]}},
        ],
    },
    {"cell_type": "code", "source": "", "outputs": []},
    {"cell_type": "raw", "source": "not shown"},
]


def test_a_notebook_is_a_page(tmp_path):
    path = tmp_path / "ten-minutes.ipynb"
    path.write_text(json.dumps({"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    page = read_notebook(path)
    assert page.markdown == (
        "# Photos\n\nSome text.\n\n[Download this notebook](ten-minutes.ipynb)\n\n"
        "~~~~python\nprint('```')\n~~~~\n\n~~~~text\n```\n~~~~\n\n"
        "~~~~python\npicture\n~~~~\n\n![Figure 1](ten-minutes-1.png)\n\n"
        '<div class="output"><b>x</b></div>\n\n~~~~text\n42\n~~~~\n'
    )
    assert page.pictures == {"ten-minutes-1.png": b"a picture"}


def test_a_notebook_without_text_first_keeps_its_code(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": CELLS[1:2]}))
    assert "print" in read_notebook(path).markdown


def test_the_first_to_read_is_the_first():
    names = ["another", "own_backbone", "more", "photos"]
    ordered = in_order(Path(f"{name}.ipynb") for name in names)
    assert [path.stem for path in ordered] == ["photos", "own_backbone", "another", "more"]
